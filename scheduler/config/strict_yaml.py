"""What is an error in YAML that people write: a key that is there twice, a value of no type, aliases that stand for billions.

For the readers of configurations and of manifests, which mix `StrictConstructor` into a loader of PyYAML.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

#: How many values a document may have once its aliases are expanded; a few lines of them can stand for billions.
MOST_VALUES: Final = 100_000


def refuse_expansion(node: yaml.Node) -> None:
    """Raise ConstructorError if a document's aliases stand for too many values, RecursionError if for themselves. O(nodes)."""
    sizes: dict[int, int] = {}
    if _expanded_size(node, sizes) > max(MOST_VALUES, len(sizes)):
        problem = f"its aliases stand for more than {MOST_VALUES:,} values; allowed: fewer, or none"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


class StrictConstructor:
    """Goes before a loader of PyYAML; what is wrong becomes a ConstructorError that names the place."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Build a value; refuse what PyYAML fails to convert."""
        try:
            return super().construct_object(node, deep)  # type: ignore[misc]
        except (ValueError, ArithmeticError, LookupError, AttributeError):
            problem = f"the value is no {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Build a mapping; refuse a repeated key, which would lose the first value in silence."""
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    problem = f"the key {key.value!r} is there twice; allowed: once"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        found: dict[Any, Any] = super().construct_mapping(node, deep)  # type: ignore[misc]
        return found


def _expanded_size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many values a node stands for, aliases expanded; RecursionError if it stands in itself."""
    known = sizes.get(id(node))
    if known == 0:
        raise RecursionError
    if known is None:
        sizes[id(node)] = 0
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        children = (child for part in parts for child in (part if isinstance(part, tuple) else (part,)))
        known = sizes[id(node)] = 1 + sum(_expanded_size(child, sizes) for child in children)
    return known
