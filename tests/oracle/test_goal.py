"""The driver's goal: it asks for the themes of what is not covered, and tells what was hardly seen."""

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from e2e.oracle.__main__ import Goal
from e2e.oracle.build import OracleUnavailableError, build
from e2e.oracle.generate import DEFAULT_THEMES
from e2e.oracle.tally import FILTERS, SCORES, Tally

if TYPE_CHECKING:
    from pathlib import Path


def covered() -> Tally:
    """Returns a tally that has seen enough of everything for a goal of 1000 verdicts."""
    tally = Tally(requests=50)
    for plugin in FILTERS:
        tally.verdicts[plugin] = Counter({"Success": 800, "Unschedulable": 200})
    tally.vectors = Counter(dict.fromkeys(SCORES, 200))
    tally.varied = Counter(dict.fromkeys(SCORES, 20))
    tally.preemptions = Counter({"dry runs": 50})
    return tally


def test_nothing_covered_needs_every_theme() -> None:
    """At first every theme is asked for."""
    assert Goal(1000).lacking_themes(Tally()) == list(DEFAULT_THEMES)


def test_everything_covered_needs_no_theme() -> None:
    """A goal that is reached asks for nothing, and nothing was seen too rarely."""
    assert Goal(1000).lacking_themes(covered()) == []
    assert Goal(1000).shortcomings(covered()) == []


def test_rare_refusals_need_their_themes() -> None:
    """A plugin that hardly refuses anything asks for the themes aimed at it, and fails the run if they do not help."""
    tally = covered()
    tally.verdicts["NodePorts"] = Counter({"Success": 99_999, "Unschedulable": 199})
    assert Goal(1000).lacking_themes(tally) == ["host_ports"]
    assert Goal(1000).shortcomings(tally) == ["NodePorts refused only 199 nodes"]


def test_constant_scores_need_their_themes() -> None:
    """Score vectors that are all alike do not count as coverage."""
    tally = covered()
    tally.varied["ImageLocality"] = 19
    assert Goal(1000).lacking_themes(tally) == ["images"]


def test_preset_oracle_must_be_a_program(tmp_path: "Path", monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong path in the environment is told, not built around."""
    monkeypatch.setenv("AI_SCHEDULER_ORACLE", str(tmp_path / "none"))
    with pytest.raises(OracleUnavailableError, match="is no program"):
        build()
