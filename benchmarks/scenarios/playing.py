"""Plays a scenario: an engine, a clock to turn, and a cluster that does what KAI's test cluster does between rounds.

For the command.  A round is what the engine decides until it rests; then evicted pods are gone and come back as new pending ones,
and bound ones run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from scheduler.config import SchedulerConfiguration
from scheduler.engine import inputs as i
from scheduler.framework.effects import BindPod, EvictPod, NominatePod
from tests.engine.world import World

from .comparing import Standing, differences, exceeded
from .form import ENDED
from .objects import MINUTE, gang_of, jobs_by_age, new_pod, nodes_of, pods_of, queues_of, topologies_of

if TYPE_CHECKING:
    from scheduler.model import Pod

    from .form import Job, Scenario

#: Rounds in which nothing may change any more once the expected state is reached.
ROUNDS_AFTER = 5
ROUND_SECONDS = 10.0
#: States that a task keeps, whatever the engine does.
_FINAL = ENDED | {"StuckInReleasing"}


class Outcome(NamedTuple):
    """Whether a scenario went as expected."""

    id: str
    difference: str

    @property
    def is_ok(self) -> bool:
        """Whether nothing differs."""
        return not self.difference


@dataclass(slots=True)
class TaskTrack:
    """Which pod stands for a task now."""

    job: Job
    index: int
    created: float
    #: What the scenario says that it is at the start; empty for pods that came later.
    state: str
    uid: str
    attempt: int = 0


class Play:
    """One scenario on an engine of its own."""

    def __init__(self, scenario: Scenario) -> None:
        """Let everything arrive, job by job in the order of their age; nothing is decided yet."""
        self._scenario = scenario
        self._world = World(configuration=_configuration(scenario))
        self._world.grace = None
        self._tracks: dict[str, TaskTrack] = {}
        self._world.add(*nodes_of(scenario))
        for thing in (*topologies_of(scenario), *queues_of(scenario)):
            self._world.engine.handle(i.ObjectChanged(thing))
        for job, created in jobs_by_age(scenario):
            self._world.now = created
            self._world.add(gang_of(job, created))
            for index, pod in enumerate(pods_of(job, created)):
                self._tracks[pod.name] = TaskTrack(job, index, created, job.tasks[index].state, pod.uid)
                self._world.add(pod)
        self._world.now += MINUTE

    def decide(self) -> None:
        """Let the engine work until it rests, while no time passes."""
        self._world.run()

    def turn(self) -> None:
        """Let evicted pods go and come back, bound ones run, and time pass without a decision."""
        for track in self._tracks.values():
            pod = self._world.pods[track.uid]
            if track.state in _FINAL:
                continue
            if pod.is_terminating:
                self._come_back(track, pod)
            elif pod.node_name and pod.phase == "Pending":
                started = self._world.now
                self._world.add(msgspec.structs.replace(pod, phase="Running", started=started))
                track.state = "Running"
        self._world.now += ROUND_SECONDS

    def standings(self) -> dict[str, Standing]:
        """Return what has become of every task, by its name."""
        return {name: self._standing(track) for name, track in self._tracks.items()}

    def calls(self) -> dict[str, int]:
        """Return how many pods were bound, evicted and given a node that is not free yet, so far."""
        nominated = {(e.pod.uid, e.node_name) for e in self._world.of(NominatePod) if e.node_name}
        nominated |= {(e.pod.uid, e.moves_to) for e in self._world.of(EvictPod) if e.moves_to}
        return {
            "binds": len(self._world.of(BindPod)),
            "evictions": len(self._world.of(EvictPod)),
            "pipelined": len(nominated),
        }

    def _standing(self, track: TaskTrack) -> Standing:
        pod = self._world.pods[track.uid]
        if track.state in _FINAL:
            return Standing(track.state, pod.node_name)
        if pod.is_terminating:
            target = next((e.moves_to for e in reversed(self._world.of(EvictPod)) if e.pod.uid == pod.uid), "")
            return Standing("Pipelined", target) if target else Standing("Releasing", pod.node_name)
        if pod.node_name:
            return Standing("Binding" if pod.phase == "Pending" else "Running", pod.node_name)
        if pod.nominated_node_name:
            return Standing("Pipelined", pod.nominated_node_name)
        return Standing("Gated" if pod.gates else "Pending")

    def _come_back(self, track: TaskTrack, pod: Pod) -> None:
        """Replace a pod that goes by a new one that waits, as its controller would."""
        del self._world.pods[pod.uid]
        self._world.engine.handle(i.PodRemoved(pod.uid))
        track.attempt += 1
        new = new_pod(track.job, track.index, track.created, track.attempt)
        track.uid, track.state = new.uid, "Pending"
        self._world.add(new)


def play(scenario: Scenario) -> Outcome:
    """Return whether a scenario goes as expected; an invariant of the world that breaks is a difference too."""
    try:
        return Outcome(scenario.id, _difference(scenario, Play(scenario)))
    except AssertionError as error:
        return Outcome(scenario.id, f"an invariant is broken: {error}")


def _difference(scenario: Scenario, played: Play) -> str:
    """Return what differs after the one decision, or after the first round that is compared and has a difference."""
    if scenario.is_one_decision:
        played.decide()
        return "; ".join(_found(scenario, played))
    for number in range(1, scenario.rounds_until_match + ROUNDS_AFTER + 1):
        played.decide()
        played.turn()
        if number >= scenario.rounds_until_match and (found := _found(scenario, played)):
            return f"after round {number}: {'; '.join(found)}"
    return ""


def _found(scenario: Scenario, played: Play) -> list[str]:
    return [*differences(scenario, played.standings()), *exceeded(scenario, played.calls())]


def _configuration(scenario: Scenario) -> SchedulerConfiguration:
    """Return the default profile with the actions that KAI's test runs."""
    profile: dict[str, Any] = {"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}
    args = {"evict": scenario.may_evict, "consolidate": scenario.may_move}
    profile["pluginConfig"] = [{"name": "GangPreemption", "args": args}]
    return SchedulerConfiguration.model_validate({"profiles": [profile]})
