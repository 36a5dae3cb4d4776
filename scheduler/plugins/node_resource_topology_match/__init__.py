"""NodeResourceTopologyMatch: pods go where a NUMA node has room for them, by what exporters on the nodes report."""

from .args import NodeResourceTopologyMatchArgs
from .plugin import NAME, REASONS, NodeResourceTopologyMatch

__all__ = ["NAME", "REASONS", "NodeResourceTopologyMatch", "NodeResourceTopologyMatchArgs"]
