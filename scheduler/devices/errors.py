"""What can go wrong with an allocation, beside that there is none.

For the allocator and the plugin that asks it.
"""

from __future__ import annotations


class AllocationError(Exception):
    """Something is wrong with a claim, a class or a device: no node can cure that, and the message says what it is."""


class NodeAllocationError(Exception):
    """A node alone is no place for the claims, and the message says why."""


class GaveUpError(Exception):
    """The search took more steps than it may; the message names the node."""
