"""The node agent; empty until that part is built."""
