"""Policies: who runs first when GPUs are short, simulated on the jobs of a trace without pods and engine, to compare orders alone."""
