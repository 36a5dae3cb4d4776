"""Traces of jobs that ran on GPU clusters: their formats, the replay with the real engine, and what is counted."""
