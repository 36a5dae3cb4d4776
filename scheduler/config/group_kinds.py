"""GroupKind: a kind of workload whose pods start together without a PodGroup, as a user adds it to the built-in ones.

For SchedulerConfiguration.  The model turns it into an OwnerKind, with the same fields and meanings.
"""
# ruff: noqa: RUF012 - pydantic copies defaults; ruff does not see that the base, in its own file, is pydantic's

import re
from typing import Final, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from .base import ConfigurationModel
from .problems import Problem, ProblemsError

_PATH: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*")
_CONDITION: Final = re.compile(rf"{_PATH.pattern}=[^=]+")
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_LONGEST_SUBDOMAIN: Final = 253
_MOST_PODS: Final = 1_000_000


def _check_paths(value: str | list[str]) -> None:
    for path in [value] if isinstance(value, str) else value:
        if path and not _PATH.fullmatch(path):
            raise ValueError(f"{path!r} is no path; allowed: field names with dots between, as in spec.replicas")


def _check_keys(value: str | list[str]) -> None:
    for key in [value] if isinstance(value, str) else value:
        prefix, slash, name = key.rpartition("/")
        if key and not (_NAME.fullmatch(name) and (not slash or _is_subdomain(prefix))):
            raise ValueError(f"{key!r} is no key of a label or annotation; allowed: as in example.com/name")


def _is_subdomain(text: str) -> bool:
    return len(text) <= _LONGEST_SUBDOMAIN and bool(_SUBDOMAIN.fullmatch(text))


class GroupCount(ConfigurationModel):
    """A number of pods, gangs or parts in an object."""

    fields: list[str] = Field(min_length=1)
    """Paths: the first that is above 0 counts, else 0 if any is there, else the default."""
    default: int = Field(default=1, ge=0, le=_MOST_PODS)
    """What counts if none is there."""
    at_most: str = ""
    """A path whose number, if it is there, bounds this one, as `completions` bounds `parallelism`."""

    @field_validator("fields", "at_most")
    @classmethod
    def _paths(cls, value: str | list[str]) -> str | list[str]:
        _check_paths(value)
        return value


class GroupRoles(ConfigurationModel):
    """Where an object has one or several roles. All paths but `path` begin at a role."""

    path: str = Field(min_length=1)
    """From the object (so it begins with `spec`) to the role, or to the list or map of roles."""
    form: Literal["one", "list", "map"] = "one"
    """What is there: one role, a list of roles, or a map from their names to them."""
    name: str = ""
    """For one role its name, or empty if its pods have none; for a list the field that has it."""
    counts: list[GroupCount] = []
    """Numbers that multiplied are how many pods the role has at least; none: one pod."""
    after: str = ""
    """A field that, unless empty, says that the role starts after others."""
    suspended: str = ""
    """A field that, if true, says that the role has no pods."""
    annotations: str = ""
    """Where annotations are that count beside those of the object."""

    @field_validator("path", "after", "suspended", "annotations")
    @classmethod
    def _paths(cls, value: str, info: ValidationInfo) -> str:
        _check_paths(value)
        if info.field_name == "path":
            _check_in_spec(value)
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.form == "list" and not _PATH.fullmatch(self.name):
            ProblemsError.raise_for([Problem("name", "is no field of a list's entries; allowed: a field name")])
        return self


def _check_in_spec(path: str) -> None:
    if path and path.partition(".")[0].partition("=")[0] != "spec":
        raise ValueError(f"{path!r} does not begin at spec; allowed: spec, or a path below it")


class GroupLabel(ConfigurationModel):
    """A label that a pod must have."""

    key: str = Field(min_length=1)
    """The label's key."""
    values: list[str] = Field(min_length=1)
    """Its allowed values."""

    @field_validator("key")
    @classmethod
    def _keys(cls, value: str) -> str:
        _check_keys(value)
        return value


class GroupKind(ConfigurationModel):
    """A kind of workload whose pods start together without a PodGroup.

    An entry with the `apiGroup` and `kind` of a built-in one (Job, JobSet, LeaderWorkerSet, RayCluster, PyTorchJob, TFJob,
    XGBoostJob, JAXJob, PaddleJob, MPIJob) replaces it. A path is field names with dots between and begins at `spec`.
    On a pod, the label `scheduling.ai-scheduler.io/gang: "false"` keeps it out of its gang; on an object, the annotation
    `scheduling.ai-scheduler.io/min-member` says how many of its pods start together.
    """

    api_group: str
    """The API group; empty for the core group."""
    kind: str
    """The kind."""
    disabled: bool = False
    """The built-in kind is not read; nothing else is needed."""
    versions: list[str] = []
    """API versions, the preferred one first."""
    resource: str = ""
    """The plural name in paths of the API."""
    name_label: str = ""
    """The pod label that has the object's name; empty: the pod's controller is the object."""
    pod_labels: list[GroupLabel] = []
    """Labels that a pod of a gang has."""
    needs_opt_in: bool = False
    """Only pods with the label `scheduling.ai-scheduler.io/gang: "true"` belong to a gang."""
    roles: list[GroupRoles] = []
    """The roles of its pods, and how many there are of each."""
    role_labels: list[str] = []
    """Pod labels that have the role, in any case of letters; the first that is there counts."""
    rank_labels: list[str] = []
    """Pod labels that number pods, read as digits; empty: those that controllers are known to write."""
    split_label: str = ""
    """The pod label that divides the pods of one object into gangs, by an index from 0."""
    splits: GroupCount | None = None
    """How many gangs that are."""
    more_splits: str = ""
    """How many more may come for a while: a number, or a percentage that is rounded up."""
    minimum: str = ""
    """How many pods start together, if not all of all roles."""
    schedule_timeout: str = ""
    """How long the gang may hold reservations, in seconds."""
    priority_class: str = ""
    """The gang's priority class."""
    in_order: str = ""
    """A condition `path=value` under which roles start one after the other: then each starts by itself."""
    exclusive: str = ""
    """The annotation with the node label of whose domains each gang has one for itself."""
    part_exclusive: str = ""
    """The annotation with the node label of whose domains each part of a role has one for itself."""
    part_label: str = ""
    """The pod label that numbers the parts of a role from 0."""
    part_size: GroupCount | None = None
    """How many pods a part has; its paths begin at the role."""
    led_by: str = ""
    """The annotation with which further pods are made only after the first has a node."""
    not_led_by: str = ""
    """The annotation with which, in spite of `ledBy`, all pods are made at once."""

    @property
    def full_name(self) -> str:
        """What tells it from all other kinds."""
        return f"{self.api_group}/{self.kind}"

    @field_validator(
        "name_label", "role_labels", "rank_labels", "split_label", "exclusive", "part_exclusive", "part_label",
        "led_by", "not_led_by",
    )  # fmt: skip
    @classmethod
    def _keys(cls, value: str | list[str]) -> str | list[str]:
        _check_keys(value)
        return value

    @field_validator("more_splits", "minimum", "schedule_timeout", "priority_class")
    @classmethod
    def _paths(cls, value: str) -> str:
        _check_paths(value)
        _check_in_spec(value)
        return value

    @field_validator("splits")
    @classmethod
    def _splits(cls, value: GroupCount | None) -> GroupCount | None:
        for path in (*value.fields, value.at_most) if value else ():
            _check_in_spec(path)
        return value

    @field_validator("in_order")
    @classmethod
    def _condition(cls, value: str) -> str:
        if value and not _CONDITION.fullmatch(value):
            raise ValueError(f"{value!r} is no condition; allowed: path=value, as in spec.startupPolicy=LeaderReady")
        _check_in_spec(value)
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        if self.api_group and not _is_subdomain(self.api_group):
            problems.append(Problem("apiGroup", f"{self.api_group!r} is no API group; allowed: as in example.com"))
        words = {"kind": [self.kind], "versions": self.versions, "resource": [self.resource]}
        for key, texts in words.items():
            is_needed = key == "kind" or not self.disabled
            if is_needed and not (texts and all(map(_WORD.fullmatch, texts))):
                problems.append(Problem(key, "is missing or no word; allowed: letters and digits"))
        if not (self.roles or self.disabled):
            problems.append(Problem("roles", "is empty; allowed: at least one, for they say how many pods there are"))
        for key, is_missing, beside in (
            ("splits", self.split_label and not self.splits, "splitLabel"),
            ("partLabel", self.part_exclusive and not self.part_label, "partExclusive"),
            ("partSize", self.part_exclusive and not self.part_size, "partExclusive"),
        ):
            if is_missing:
                problems.append(Problem(key, f"is missing beside {beside}; allowed: both or neither"))
        ProblemsError.raise_for(problems)
        return self
