"""docs/writing-a-plugin.md: written by hand, but for blocks that are cut from what they show.

A block stands between `<!-- file: PATH -->`, for a file of the repository, or `<!-- table: NAME -->`, for a table of
`contract`, and `<!-- end -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from .contract import BLOCKS

ROOT = Path(__file__).resolve().parents[3]
PAGE = "docs/writing-a-plugin.md"
_BLOCK = re.compile(r"<!-- (file|table): (\S+) -->\n.*?<!-- end -->", re.DOTALL)
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml"}


def tutorial_page() -> str:
    """Return the page as it is, with every block brought up to date."""
    return filled((ROOT / PAGE).read_text(encoding="utf-8"))


def filled(text: str, root: Path = ROOT) -> str:
    """Return a text whose blocks say what their sources say; an OSError or a KeyError for a source that is not there."""

    def block(match: re.Match[str]) -> str:
        kind, name = match.groups()
        lines = BLOCKS[name]() if kind == "table" else _fenced(root / name)
        return "\n".join([f"<!-- {kind}: {name} -->", *lines, "<!-- end -->"])

    return _BLOCK.sub(block, text)


def _fenced(path: Path) -> list[str]:
    return [f"```{_LANGUAGES[path.suffix]}", path.read_text(encoding="utf-8").rstrip(), "```"]
