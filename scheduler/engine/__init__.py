"""The decision core: queue, cycle, gang placement, commit."""
