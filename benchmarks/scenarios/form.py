"""What a line of a scenario file may say, as pydantic models.

For the reader.  The keys are those of the converted KAI test cases: some are in snake case, some as the Go fields are spelled.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from scheduler.config import Problem, ProblemsError, problems_of

if TYPE_CHECKING:
    from collections.abc import Callable

Kind = Literal["allocate", "topology", "consolidation", "preempt", "reclaim"]
#: What a task may be in at the start.
State = Literal[
    "Pending", "Gated", "Binding", "Bound", "Running", "Releasing", "StuckInReleasing", "Succeeded", "Failed"
]
#: What a task may be expected in: `Pipelined` has a node that is not free yet.
Status = Literal[
    "Pending", "Gated", "Pipelined", "Binding", "Running", "Releasing", "StuckInReleasing", "Succeeded", "Failed"
]
#: Statuses that last for one moment only: whoever expects one looks at a single decision.
MOMENTARY = frozenset({"Pipelined", "Binding", "Releasing"})
#: States in which a task has no node.
NODELESS = frozenset({"Pending", "Gated"})
#: States in which a task uses nothing any more.
ENDED = frozenset({"Succeeded", "Failed"})
#: From this priority on a job is not preemptible (KAI's default).
NOT_PREEMPTIBLE_FROM = 100
UNLIMITED = -1
MOST, MOST_BYTES = 10**9, 10**15
_DEFAULT_QUEUE_PRIORITY = 100
_GO_PRIORITY = re.compile(r"commonconstants\.DefaultQueuePriority(?:([+-]\d+))?")
_PRODUCT = re.compile(r"\d+(\*\d+)*")


class Part(BaseModel):
    """Base of all parts: strict and immutable, and no key is ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class Node(Part):
    """A node."""

    gpus: int = Field(ge=0, le=MOST)
    cpu_milli: int = Field(default=20_000, ge=1, le=MOST)
    """20,000, as KAI's tests have it, if it is not set."""
    memory_bytes: int = Field(default=20 * 10**9, ge=1, le=MOST_BYTES)
    """20G, as KAI's tests have it, if it is not set; the converted file never sets it (README.md)."""
    labels: dict[str, str] = {}


class Queue(Part):
    """A queue, or with another spelling a department; amounts of -1 are unlimited."""

    name: str = Field(min_length=1)
    deserved_gpus: float = Field(default=0, ge=UNLIMITED)
    max_gpus: float = Field(default=UNLIMITED, ge=UNLIMITED)
    weight: float = Field(default=0, ge=0)
    parent: str = ""
    priority: int = _DEFAULT_QUEUE_PRIORITY
    """A number, or KAI's default with an offset, as in `commonconstants.DefaultQueuePriority+1`."""

    @field_validator("priority", mode="before")
    @classmethod
    def _priority(cls, value: object) -> object:
        """Take a Go expression as the number that it is."""
        if not isinstance(value, str):
            return value
        if not (found := _GO_PRIORITY.fullmatch(value)):
            allowed = "a whole number, or commonconstants.DefaultQueuePriority with an offset"
            raise ValueError(f"{value!r} is unknown; allowed: {allowed}")
        return _DEFAULT_QUEUE_PRIORITY + int(found[1] or 0)


class Department(Part):
    """The parent of queues."""

    name: str = Field(alias="Name", min_length=1)
    deserved_gpus: float = Field(alias="DeservedGPUs", default=0, ge=UNLIMITED)
    max_gpus: float = Field(alias="MaxAllowedGPUs", default=UNLIMITED, ge=UNLIMITED)


class Constraint(Part):
    """How near together the tasks of a job want to be; levels are labels of the topology."""

    topology: str = Field(alias="Topology", min_length=1)
    required: str = Field(alias="RequiredLevel", default="")
    preferred: str = Field(alias="PreferredLevel", default="")


class Task(Part):
    """A pod: where it is when the scenario begins."""

    state: State
    node: str = ""


class Job(Part):
    """A gang of equal tasks, named JOB-0, JOB-1 and so on."""

    name: str = Field(min_length=1)
    gpus_per_task: int = Field(default=0, ge=0, le=MOST)
    cpu_per_task: int = Field(default=1, ge=0, le=MOST)
    """In the unit of the nodes' `cpu_milli`; 1 if it is not set."""
    mem_per_task: int = Field(default=10**9, ge=0, le=MOST_BYTES)
    """Bytes, as a number or as a product such as `100*10`; 1G if it is not set."""
    priority: int = Field(ge=-(2**31), le=2**31 - 1)
    queue: str
    min_available: int | None = Field(default=None, ge=1)
    """How many tasks must run together; all of them if it is not set."""
    topology: Constraint | None = None
    tasks: list[Task] = Field(min_length=1)
    other: dict[str, Any] = {}
    """Fields that the conversion kept as they were; nobody reads them."""

    @property
    def minimum(self) -> int:
        """How many tasks must run together."""
        return self.min_available or len(self.tasks)

    @field_validator("mem_per_task", mode="before")
    @classmethod
    def _memory(cls, value: object) -> object:
        """Take a product as the number that it is."""
        if not isinstance(value, str):
            return value
        if not _PRODUCT.fullmatch(value):
            raise ValueError(f"{value!r} is no amount; allowed: a whole number of bytes, or a product such as 100*10")
        return math.prod(map(int, value.split("*")))

    @property
    def is_preemptible(self) -> bool:
        """Whether anybody may evict it."""
        return self.priority < NOT_PREEMPTIBLE_FROM

    def task_name(self, index: int) -> str:
        """Return the name of a task's pod."""
        return f"{self.name}-{index}"


class Expected(Part):
    """What is expected of a task, or of every task of a job."""

    status: Status
    node: str = ""
    """Any node if it is empty."""
    gpus: int | None = Field(default=None, ge=0)
    """What the task, or all tasks of the job together, ask for."""


class Calls(Part):
    """Upper limits."""

    binds: int = Field(ge=0)
    evictions: int = Field(ge=0)
    pipelined: int = Field(ge=0)


def _each(model: type[Part]) -> Callable[[Any], Any]:
    """Return a reader of named parts; inside a mapping of any names `problems_of` could not tell what is allowed."""

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found: dict[str, Part] = {}
        problems: list[Problem] = []
        for name, entry in value.items():
            try:
                found[name] = model.model_validate(entry)
            except ValidationError as error:
                problems += problems_of(error, model, name)
        ProblemsError.raise_for(problems)
        return found

    return read


class Scenario(Part):
    """A cluster, and what is expected to become of it."""

    kind: Kind
    id: str = Field(min_length=1)
    nodes: Annotated[dict[str, Node], BeforeValidator(_each(Node))]
    queues: list[Queue] = []
    departments: list[Department] = []
    jobs: list[Job]
    topologies: dict[str, list[str]] = {}
    expect_jobs: Annotated[dict[str, Expected], BeforeValidator(_each(Expected))] = {}
    expect_tasks: Annotated[dict[str, Expected], BeforeValidator(_each(Expected))] = {}
    expect_calls: Calls | None = None
    rounds_until_match: int = Field(alias="RoundsUntilMatch", default=2, ge=1, le=1000)

    @property
    def task_names(self) -> dict[str, Job]:
        """The job of each task, by the task's name."""
        return {job.task_name(index): job for job in self.jobs for index in range(len(job.tasks))}

    @property
    def is_one_decision(self) -> bool:
        """Whether a single decision is looked at, and not what becomes of it over rounds.

        KAI's unit tests are so, and whatever expects a status that lasts for a moment only.
        """
        expected = (*self.expect_jobs.values(), *self.expect_tasks.values())
        is_unit_test = "_test.go#" in self.id and not self.id.startswith("integration_tests/")
        return is_unit_test or any(one.status in MOMENTARY for one in expected)

    @property
    def may_evict(self) -> bool:
        """Whether anybody may lose its place: KAI's unit tests of `allocate` and `consolidation` run those actions alone."""
        return not self.id.startswith(("allocate/", "consolidation/"))

    @property
    def may_move(self) -> bool:
        """Whether anybody may be moved so that others fit: KAI's unit tests of other actions do not do that."""
        return self.id.startswith(("consolidation/", "integration_tests/"))
