"""`python -m scheduler.cli.generate`: writes every file that is derived from code, or with `--check` compares them.

For `make generate`, CI and the tests.  A derived file is one line in GENERATED: its path and the function that returns
its text.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from .crds import node_topology_yaml, pod_group_yaml, queue_yaml, topology_yaml
from .pages.commands import commands_page
from .pages.configuration import configuration_page
from .pages.demo import demo_picture
from .pages.metrics import metrics_page
from .pages.plugins import plugins_page
from .pages.reasons import reasons_page
from .pages.tutorial import tutorial_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]

GENERATED: Mapping[str, Callable[[], str]] = {
    "crds/nodetopologies.scheduling.ai-scheduler.io.yaml": node_topology_yaml,
    "crds/podgroups.scheduling.ai-scheduler.io.yaml": pod_group_yaml,
    "crds/queues.scheduling.ai-scheduler.io.yaml": queue_yaml,
    "crds/topologies.scheduling.ai-scheduler.io.yaml": topology_yaml,
    "docs/cli.md": commands_page,
    "docs/configuration.md": configuration_page,
    "docs/demo.svg": demo_picture,
    "docs/metrics.md": metrics_page,
    "docs/plugins.md": plugins_page,
    "docs/reasons.md": reasons_page,
    #: Written by hand, but for the blocks between its markers.
    "docs/writing-a-plugin.md": tutorial_page,
}


def stale(root: Path = ROOT, generated: Mapping[str, Callable[[], str]] = GENERATED) -> dict[str, str]:
    """Return the paths whose files differ from what the code says, with the text they should have."""
    texts = {path: make() for path, make in generated.items()}
    return {path: text for path, text in texts.items() if _read(root / path) != text}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is stale; with `--check` only name it, and return 1 if there is any."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments not in ([], ["--check"]):
        print(f"unknown: {' '.join(arguments)}; allowed: --check", file=sys.stderr)
        return 2
    found = stale()
    for path, text in found.items():
        if arguments:
            print(f"{path} is out of date: run `make generate`", file=sys.stderr)
        else:
            target = ROOT / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    return 1 if found and arguments else 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
