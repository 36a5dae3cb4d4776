"""End-to-end tests: a real API server and the real scheduler process, on one machine and without containers."""
