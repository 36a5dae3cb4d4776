"""Reports: the tables, the lines, the page, and the words that they use."""

import io
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.console import Console

from scheduler.sim.charts import Scale, colour_classes
from scheduler.sim.html import page_of
from scheduler.sim.occupancy import Run, runs_of, stays_by_gpu, waits_of
from scheduler.sim.outcome import NodeOutcome, Outcome, PodOutcome, Sample, WorkloadOutcome, to_json
from scheduler.sim.report import preemptions_of, print_report, shares_over_time
from scheduler.sim.words import duration, natural, short_names, sparkline

from .worlds import a_class, a_gang, a_pod, nodes, run, workload


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    """Two nodes; a gang that another one preempts, one that never fits, and a pod with a name that is no markup."""
    return run(
        *nodes(2), a_class("low", 1), a_class("high", 9),
        *a_gang("low", 2, 8, priorityClassName="low", run=500),
        *a_gang("high", 2, 8, priorityClassName="high", run=100, submit=50),
        *a_gang("huge", 3, 8, run=10), a_pod("plain", run=30),
    )  # fmt: skip


def text_of(outcome: Outcome, **options: Any) -> str:
    """Return the report as a file would get it."""
    console = Console(file=io.StringIO(), width=160, **options)
    print_report(outcome, console)
    return console.file.getvalue()  # type: ignore[attr-defined]


def an_outcome(end: float, *workloads: WorkloadOutcome, **fields: Any) -> Outcome:
    """Return an outcome of workloads."""
    empty = {"nodes": (), "evictions": (), "samples": (), "notes": ()}
    return Outcome(start=0, end_seconds=end, is_cut=False, workloads=workloads, **(empty | fields))


# Words.


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59.4, "59s"), (60, "1m00s"), (754, "12m34s"), (3720, "1h02m"), (97_200, "1d03h"), (-90, "-1m30s")],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    """Nobody reads seconds beyond a minute."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["gpu-02", "gpu-01", "gpu-03", "gpu-09"], "gpu-[01-03,09]"),
        (["b1", "a1"], "a1, b1"),
        (["node-9", "node-10"], "node-[9-10]"),
        (["n", "n1"], "n, n1"),
    ],
)
def test_names_with_running_numbers_are_drawn_together(names: list[str], text: str) -> None:
    """A gang of 64 nodes fits a line."""
    assert short_names(names) == text


def test_running_numbers_sort_by_value() -> None:
    """Nine comes before ten, and a name without a number is no trouble."""
    assert sorted(["n-10", "n-9", "n", "m-1"], key=natural) == ["m-1", "n", "n-9", "n-10"]


def test_a_sparkline_spans_its_bars() -> None:
    """Nothing is the lowest bar, all the highest."""
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"


# The report.


def test_the_report_tells_what_a_user_asks(outcome: Outcome) -> None:
    """Waits, nodes, GPUs, who went for whom, what waits and why, and what was in use."""
    text = text_of(outcome)
    assert "4 workloads on 2 nodes with 16 GPUs" in text
    assert re.search(r"default/high +PodGroup +Succeeded +50s +2s +2m34s +16 ", text)
    assert "50s  default/low had to go for default/high (2 pods, 16 GPUs on node-[0-1])" in text
    assert "default/huge since 0s (3 pods, 24 GPUs)" in text
    assert workload(outcome, "huge").reason in text.replace("\n", " ")
    assert re.search(r"GPUs .* mean \d+%, peak 100%", text)


def test_evictions_of_one_moment_are_drawn_together(outcome: Outcome) -> None:
    """A gang of two pods is one line."""
    (found,) = preemptions_of(outcome.evictions)
    assert (found.pods, found.gpus, found.nodes) == (2, 16, ("node-0", "node-1"))


def test_names_that_look_like_markup_are_text() -> None:
    """What a user calls things is shown as it is."""
    odd = WorkloadOutcome(
        "Job", "a", "[red]b", "Pending", 0, 0, None, None, None, 1, 1, (), 0, None, None, 0, "", "<b>[/]", ()
    )
    made = an_outcome(10, odd, samples=(Sample(0, 0, 0, 0, 0, 1),), notes=("<i>",))
    assert "a/[red]b" in text_of(made)
    page = page_of(made)
    assert "<b>[/]" not in page
    assert "&lt;b&gt;[/]" in page
    assert "<i>" not in page


def test_shares_are_those_of_their_moment() -> None:
    """Half the time nothing, half the time everything."""
    samples = (Sample(0, 0, 8, 0, 1, 0), Sample(50, 8, 8, 0, 1, 0))
    assert shares_over_time(an_outcome(100, samples=samples), "gpus", 5) == [0, 0, 1, 1, 1]


# The page.


class Checker(HTMLParser):
    """Collects what a page loads, and whether its elements are nested well."""

    VOID = ("meta", "input", "br", "link", "img")

    def __init__(self) -> None:
        """Start outside."""
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        self.tags.append(tag)
        self.loads += [f"{tag} {name}={value}" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close it."""
        assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(outcome: Outcome) -> None:
    """One file, well nested, without any reference to the outside, with all pictures."""
    page = page_of(outcome)
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert checker.loads == []
    assert not re.search(r"https?://|@import|url\(", page)
    assert checker.tags.count("svg") == 3
    assert "prefers-color-scheme: dark" in page
    for found in outcome.workloads:
        assert found.key in page


def test_the_page_of_nothing_is_a_page() -> None:
    """Neither nodes nor workloads are needed."""
    assert "Simulation" in page_of(an_outcome(0))


def life(
    bound: float, ended: float | None, how: str = "Succeeded", node: str = "n", gpus: tuple[int, ...] | None = None
) -> PodOutcome:
    """Return a life of a pod with two GPUs."""
    return PodOutcome(f"p{bound:g}", node, bound, ended, how, 2, gpus, None, None)


def a_workload(*pods: PodOutcome, name: str = "w", waiting: int = 0) -> WorkloadOutcome:
    """Return a workload with lives."""
    return WorkloadOutcome(
        "Job", "d", name, "Running", 0, 0, 0, None, 0, 1, waiting, (), 2, None, None, 0, "", "", pods
    )


def test_runs_are_the_lives_of_pods_drawn_together() -> None:
    """Lives that overlap are one run; one that follows an eviction is another, even at the same moment."""
    found = a_workload(life(5, 20), life(10, 30, "Evicted"), life(30, 40), life(60, None), waiting=1)
    assert runs_of(found) == [Run(5, 30, "Evicted"), Run(30, 40, "Succeeded"), Run(60, None, "Succeeded")]
    assert list(waits_of(found, 100)) == [(0, 5), (40, 60)]


def test_a_workload_without_a_run_waits_to_the_end() -> None:
    """It waits from its submission on."""
    assert list(waits_of(a_workload(waiting=1), 100)) == [(0, 100)]


def test_gpus_are_drawn_where_the_scheduler_put_them_else_where_there_is_room() -> None:
    """A known set is drawn as it is; a pod without one is drawn on the lowest free GPUs."""
    known, unknown = a_workload(life(0, 10, gpus=(1, 3)), name="a"), a_workload(life(5, 20), name="b")
    named = an_outcome(20, known, unknown, nodes=(NodeOutcome("n", 4, "", ""),))
    assert {gpu: [stay.owner for stay in stays] for (_, gpu), stays in stays_by_gpu(named).items()} == {
        1: ["Job d/a"], 3: ["Job d/a"], 0: ["Job d/b"], 2: ["Job d/b"],
    }  # fmt: skip


def test_pods_of_others_are_drawn_too() -> None:
    """A GPU that another scheduler's pod holds is not free."""
    outcome = run(*nodes(1), a_pod("theirs", 3, node="node-0", schedulerName="default-scheduler"))
    assert outcome.workloads == ()
    assert sorted(gpu for _, gpu in stays_by_gpu(outcome)) == [0, 1, 2]
    assert "pods of other schedulers" in page_of(outcome)


def test_workloads_of_one_time_have_different_colours() -> None:
    """A colour is used again only when its workload is gone."""
    workloads = [a_workload(life(i, i + 10.5), name=f"w{i}") for i in range(60)]
    colours = list(colour_classes(workloads).values())
    assert all(len(set(colours[i : i + 10])) == 10 for i in range(50))


def test_ticks_are_round_and_few() -> None:
    """Whatever the span, there are at most nine of them."""
    for span in (1, 59, 600, 7200, 90_000, 3_000_000):
        ticks = Scale(0, span).ticks()
        assert 1 <= len(ticks) <= 10
        assert ticks[0] == 0


def test_json_has_the_promised_keys(outcome: Outcome) -> None:
    """Scripts rely on these."""
    found = to_json(outcome)
    assert {"workloads", "evictions", "utilisation"} <= set(found)
    promised = {
        "namespace", "name", "phase", "submitted", "started", "finished", "wait_seconds", "nodes", "gpus", "reason",
    }  # fmt: skip
    assert all(promised <= set(entry) for entry in found["workloads"])
    high = next(entry for entry in found["workloads"] if entry["name"] == "high")
    assert (high["submitted"], high["started"], high["wait_seconds"], high["gpus"]) == (50, 52, 2, 16)
    assert high["nodes"] == ["node-0", "node-1"]
    assert found["fits"] is False
    assert set(found["utilisation"]["gpus"]) == {"mean", "peak", "total"}
