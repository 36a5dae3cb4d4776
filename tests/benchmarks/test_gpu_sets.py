"""The benchmark of GPU sets judges rightly: its links, its goals, and the form of what it prints."""

from __future__ import annotations

import json
import random

import pytest

from benchmarks import gpu_sets


@pytest.mark.parametrize(("k", "most"), [(2, 2), (3, 5), (4, 9), (5, 11), (6, 14), (7, 18), (8, 24)])
def test_most_links_of_an_empty_dgx1_are_the_published_ones(k: int, most: int) -> None:
    """By trying all sets."""
    assert gpu_sets.best_links(0xFF, k) == most


def test_pods_lose_what_their_sets_lack() -> None:
    """Always the same occupancies, whatever the way; with all GPUs 0 and 5 first, pairs without links are lost."""
    played = {name: gpu_sets._play(way, random.Random(7)) for name, way in gpu_sets.ways(random.Random(7)).items()}
    assert len({len(losses) for losses in played.values()}) == 1
    assert all(loss >= 0 for losses in played.values() for loss in losses)
    assert sum(played["chosen"]) <= sum(played["random"])


def test_goals_are_met_and_told_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The chosen set is the best of all, pods lose at most half of what first-fit costs them, and training gains."""
    gpu_sets.main(["--occupancies", "60", "--sequences", "60", "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    timed = [goal for goal in found["goals"] if "lookup" in goal["what"]]
    assert [goal for goal in found["goals"] if not goal["met"] and goal not in timed] == []
    assert [row["chosen"] for row in found["links"]] == [1.0] * 5
    assert all(row["jobs"] == 19 and row["speedUp"] > 1 for row in found["training"])
    assert [line["machine"] for line in found["costs"]] == ["DGX-1V", "16 GPUs, uneven"]


def test_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """For people, with the number of goals."""
    gpu_sets.main(["--occupancies", "20", "--sequences", "5"])
    out = capsys.readouterr().out
    assert "links in the set per most links" in out
    assert "goals are met" in out


@pytest.mark.parametrize("arguments", [["--occupancies", "0"], ["--sequences", "0"]])
def test_figures_of_nothing_are_refused(arguments: list[str]) -> None:
    """At least one is needed."""
    with pytest.raises(SystemExit, match="2"):
        gpu_sets.main(arguments)
