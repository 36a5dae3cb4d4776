"""The simulation: an embedded cluster with virtual time around the real engine, and what is told of it."""
