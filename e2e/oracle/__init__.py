"""Parity with the real kube-scheduler plugins: seeded cases, the oracle that runs the Go plugins on them, the comparison."""
