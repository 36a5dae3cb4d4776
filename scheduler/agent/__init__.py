"""The node agent: one process on each GPU node that tells what its machine looks like and which of its GPUs are free."""
