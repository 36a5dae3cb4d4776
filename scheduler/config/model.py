"""SchedulerConfiguration: what a user may configure, as pydantic models in the shape of KubeSchedulerConfiguration v1.

For the command line, which reads it, the registry, which builds plugins from it, and the edges.  Names and arguments of
plugins are the registry's to check; everything else is checked here.  The docstrings are the configuration reference.
"""
# ruff: noqa: RUF012 - pydantic copies defaults; ruff does not see that the base, in its own file, is pydantic's

import re
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from .backfill import Backfill
from .base import ConfigurationModel
from .duration import Duration
from .group_kinds import GroupKind
from .problems import Problem, ProblemsError

KUBE_API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KUBE_KIND: Final = "KubeSchedulerConfiguration"
API_VERSION: Final = "config.ai-scheduler.io/v1alpha1"
KIND: Final = "SchedulerConfiguration"
DEFAULT_SCHEDULER_NAME: Final = "ai-scheduler"
_HIGHEST_PORT: Final = 65535
#: No time in the configuration is longer than a day: beyond it lies a slip of the pen.
_LONGEST_SECONDS: Final = 86_400
#: Names of objects, by RFC 1123.
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253

BaseProfile = Literal["ai-scheduler", "kube-default"]
TieBreak = Literal["hash", "name", "random"]
Intake = Literal["kopf", "reflector"]

#: A key in `json_schema_extra`: the key of kube-scheduler's is accepted and has no effect; the value says why.
NOT_HONOURED: Final = "notHonoured"


def _not_honoured(why: str) -> dict[str, Any]:
    return {NOT_HONOURED: why}


def _check_address(address: str) -> str:
    host, colon, port = address.rpartition(":")
    is_ipv6 = host.startswith("[") and host.endswith("]")
    if address and not (
        colon and port.isascii() and port.isdigit() and int(port) <= _HIGHEST_PORT and (is_ipv6 or ":" not in host)
    ):
        raise ValueError(f"{address!r} is no address; allowed: host:port, :port, [IPv6]:port, or empty for off")
    return address


def _repeated(key: str, names: list[str], name_key: str = "name") -> list[Problem]:
    """Return a problem for each name that stands in the list before."""
    return [
        Problem(f"{key}[{index}].{name_key}", f"{name!r} is there twice; allowed: each name once")
        for index, name in enumerate(names)
        if name in names[:index]
    ]


def _check_label(name: str) -> str:
    if name and not (len(name) <= _LONGEST_LABEL and _LABEL.fullmatch(name)):
        raise ValueError(f"{_short(name)} is no name of a namespace; allowed: at most 63 of a-z, 0-9 and - inside")
    return name


def _check_subdomain(name: str) -> str:
    if name and not (len(name) <= _LONGEST_SUBDOMAIN and all(map(_LABEL.fullmatch, name.split(".")))):
        raise ValueError(
            f"{_short(name)} is no name of an object; allowed: at most 253 of a-z, 0-9, and - and . inside"
        )
    return name


def _short(text: str) -> str:
    return repr(text) if len(text) <= _LONGEST_LABEL else f"{text[:_LONGEST_LABEL]!r}..."


NamespaceName = Annotated[str, AfterValidator(_check_label)]
ObjectName = Annotated[str, AfterValidator(_check_subdomain)]
Address = Annotated[str, AfterValidator(_check_address)]
Percentage = Annotated[int, Field(ge=0, le=100)]


class LeaderElection(ConfigurationModel):
    """How replicas agree on the one that schedules: a Lease of coordination.k8s.io."""

    leader_elect: bool = True
    """Schedule only while holding the Lease. Turn it off for a single process that nobody else stands by for."""
    lease_duration: Duration = timedelta(seconds=15)
    """How long standbys wait after the last renewal before one of them takes the Lease."""
    renew_deadline: Duration = timedelta(seconds=10)
    """How long the leader tries to renew before it stops scheduling; less than `leaseDuration`."""
    retry_period: Duration = timedelta(seconds=2)
    """The time between two tries to take or renew the Lease; `renewDeadline` is more than 1.2 times as long."""
    resource_lock: Literal["leases"] = "leases"
    """The kind of object that serves as lock; as in kube-scheduler, only Leases do."""
    resource_name: ObjectName = Field(default="ai-scheduler", min_length=1)
    """The Lease's name. It is never kube-scheduler's own one."""
    resource_namespace: NamespaceName = Field(default="ai-scheduler", min_length=1)
    """The Lease's namespace."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        times = {
            "leaseDuration": self.lease_duration,
            "renewDeadline": self.renew_deadline,
            "retryPeriod": self.retry_period,
        }
        longest = timedelta(seconds=_LONGEST_SECONDS)
        too_long = [key for key, time in times.items() if time > longest]
        ProblemsError.raise_for([Problem(key, "is too long; allowed: a Go duration up to 24h") for key in too_long])
        problems = []
        if self.retry_period <= timedelta():
            problems.append(Problem("retryPeriod", "is not positive; allowed: a Go duration above 0s"))
        if self.renew_deadline <= self.retry_period * 1.2:
            problems.append(Problem("renewDeadline", "is too short; allowed: more than 1.2 times retryPeriod"))
        if self.lease_duration <= self.renew_deadline:
            problems.append(Problem("leaseDuration", "is too short; allowed: more than renewDeadline"))
        if self.leader_elect and (self.resource_namespace, self.resource_name) == ("kube-system", "kube-scheduler"):
            text = "kube-system/kube-scheduler is kube-scheduler's own Lease: one of the two would stand by for ever"
            problems.append(Problem("resourceName", f"{text}; allowed: any other name"))
        ProblemsError.raise_for(problems)
        return self


class ClientConnection(ConfigurationModel):
    """How the API server is reached."""

    kubeconfig: str = ""
    """The path of a kubeconfig file; empty: the service account in a cluster, else `KUBECONFIG` and `~/.kube/config`."""
    qps: float = Field(default=500.0, allow_inf_nan=False)
    """Writes a second to the API server, over a longer time; 0 stands for the default, below 0 for no limit.

    kube-scheduler's default of 50 would bind a gang of 500 pods in ten seconds; API Priority and Fairness guards the
    server."""
    burst: int = Field(default=1000, ge=0)
    """Writes that may go out at once before `qps` counts; 0 stands for the default."""
    content_type: str | None = Field(default=None, json_schema_extra=_not_honoured("JSON is sent, always"))
    """What is sent."""
    accept_content_types: str | None = Field(default=None, json_schema_extra=_not_honoured("JSON is read, always"))
    """What is read."""

    @field_validator("qps", "burst")
    @classmethod
    def _default_for_zero(cls, value: float, info: ValidationInfo) -> float:
        default: float = cls.model_fields[str(info.field_name)].default
        return value or default


class PluginEntry(ConfigurationModel):
    """A plugin by name."""

    name: str = Field(min_length=1)
    """The plugin's name: of a built-in one, of an entry point (group `ai_scheduler.plugins`), or an import path
    `package.module:Class`. In `disabled`, `*` stands for all plugins of the point."""
    weight: int | None = Field(default=None, ge=0, le=100)
    """What the plugin's score counts, at `score`, `placementScore` and `multiPoint`; 0 or none: the plugin's own
    default, else 1. In `disabled` it means nothing."""


class PluginSet(ConfigurationModel):
    """What changes at one point against the plugins that the profile starts from."""

    enabled: list[PluginEntry] = []
    """Plugins called after those of the base profile, in this order; one of them that is named again gets the weight
    from here."""
    disabled: list[PluginEntry] = []
    """Plugins of the base profile that are left out; `*` leaves all out, so that `enabled` is the whole list."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = []
        for key, entries in (("enabled", self.enabled), ("disabled", self.disabled)):
            problems += _repeated(key, [entry.name for entry in entries])
        for index, entry in enumerate(self.enabled):
            if entry.name == "*":
                problems.append(Problem(f"enabled[{index}].name", "'*' cannot be enabled; allowed: names of plugins"))
        ProblemsError.raise_for(problems)
        return self


class Plugins(ConfigurationModel):
    """Which plugins run at which extension point.

    A setting at a point goes before one of `multiPoint`, and that before the base profile; within one set `enabled`
    goes before `disabled`.
    """

    pre_enqueue: PluginSet = PluginSet()
    """Before a workload may be tried."""
    queue_sort: PluginSet = PluginSet()
    """The order of the queue: exactly one plugin, and the same in all profiles."""
    pre_filter: PluginSet = PluginSet()
    """Once per shape and cycle, before any node is looked at."""
    filter: PluginSet = PluginSet()
    """Which nodes are feasible."""
    post_filter: PluginSet = PluginSet()
    """What to do when no node is left: preemption."""
    pre_score: PluginSet = PluginSet()
    """With the feasible nodes, before Score."""
    score: PluginSet = PluginSet()
    """Which feasible node is best; weights count here."""
    reserve: PluginSet = PluginSet()
    """When a node was chosen; and Unreserve, when that is undone."""
    permit: PluginSet = PluginSet()
    """Let go, refuse, or wait."""
    pre_bind: PluginSet = PluginSet()
    """What must happen before the binding."""
    bind: PluginSet = PluginSet()
    """How it is bound: the first that does not skip."""
    post_bind: PluginSet = PluginSet()
    """After the binding."""
    multi_point: PluginSet = PluginSet()
    """All points that a plugin implements, at once."""
    placement_generate: PluginSet = PluginSet()
    """Gangs: the domains to try (the point GenerateDomains)."""
    placement_score: PluginSet = PluginSet()
    """Gangs: which complete placement is best (the point ScorePlacement); weights count here."""
    pod_group_post_filter: PluginSet = PluginSet()
    """Gangs: what to do when the gang does not fit: preemption for a whole gang."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(self.queue_sort.enabled) > 1:
            ProblemsError.raise_for([Problem("queueSort.enabled", "names several plugins; allowed: one")])
        return self


class PluginConfig(ConfigurationModel):
    """The arguments of one plugin."""

    name: str = Field(min_length=1)
    """The plugin's name."""
    args: dict[str, Any] = {}
    """Its arguments; the table of plugins lists them. `apiVersion` and `kind`, as kube-scheduler has them here, may
    stand among them."""


class Profile(ConfigurationModel):
    """One way to schedule, for the pods that name it."""

    scheduler_name: str = Field(default=DEFAULT_SCHEDULER_NAME, min_length=1)
    """Pods with this `spec.schedulerName` are scheduled by this profile. `default-scheduler` is never assumed."""
    base: BaseProfile = "ai-scheduler"
    """The built-in plugins that the profile starts from: `ai-scheduler` packs GPUs and gangs and minds the topology;
    `kube-default` is kube-scheduler's plugins and weights. A file with kube-scheduler's `apiVersion` starts from
    `kube-default`, so that one file drives both schedulers alike; any other file starts from `ai-scheduler`."""
    plugins: Plugins = Plugins()
    """Which plugins run, as changes to the base."""
    plugin_config: list[PluginConfig] = []
    """Arguments of plugins; a plugin that is not listed runs with its defaults."""
    percentage_of_nodes_to_score: Percentage | None = Field(
        default=None, json_schema_extra=_not_honoured("every feasible node is scored")
    )
    """How many nodes are looked at."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        ProblemsError.raise_for(_repeated("pluginConfig", [entry.name for entry in self.plugin_config]))
        return self


class SchedulerConfiguration(ConfigurationModel):
    """The whole configuration."""

    api_version: Literal["config.ai-scheduler.io/v1alpha1", "kubescheduler.config.k8s.io/v1"] = API_VERSION
    """Ours, kube-scheduler's, or absent."""
    kind: Literal["SchedulerConfiguration", "KubeSchedulerConfiguration"] = KIND
    """`SchedulerConfiguration` with our `apiVersion`, `KubeSchedulerConfiguration` with kube-scheduler's."""
    profiles: list[Profile] = [Profile()]
    """The profiles, each with a name of its own; none: one profile with all defaults."""
    leader_election: LeaderElection = LeaderElection()
    """How replicas agree on the one that schedules."""
    client_connection: ClientConnection = ClientConnection()
    """How the API server is reached."""
    intake: Intake = "kopf"
    """How pending pods come in: through the operator framework `kopf`, or through a `reflector`, as assigned pods do, which
    takes a fifth of the CPU time per event. Nothing else differs. Kopf watches our PodGroups in both cases."""
    healthz_bind_address: Address = "0.0.0.0:8080"
    """Where `/healthz` and `/readyz` are served; empty for off, port 0 for any free port."""
    metrics_bind_address: Address = "0.0.0.0:8080"
    """Where `/metrics` is served; with the same address as `healthzBindAddress`, one server serves both."""
    pod_initial_backoff_seconds: int = Field(default=1, ge=1, le=_LONGEST_SECONDS)
    """How long a refused workload rests after its first attempt; it doubles with each one."""
    pod_max_backoff_seconds: int = Field(default=10, ge=1, le=_LONGEST_SECONDS)
    """The longest rest; not below `podInitialBackoffSeconds`."""
    unschedulable_flush_seconds: int = Field(default=300, ge=1, le=_LONGEST_SECONDS)
    """A refused workload is tried again after this long, even if nothing happened that could cure it."""
    queue_usage_half_life_seconds: int = Field(default=0, ge=0, le=365 * 86_400)
    """With queues: what a queue used lately counts beside what it uses now, fading by half in this time. 0 forgets at once."""
    backfill: Backfill = Backfill()
    """Reservations for workloads that wait for room."""
    permit_max_seconds: int = Field(default=900, ge=1, le=_LONGEST_SECONDS)
    """No Permit plugin makes a workload wait longer than this."""
    tie_break: TieBreak = "hash"
    """Which of equally good nodes wins: `hash` spreads by a hash of pod and node, `name` takes the first by name (both
    decide equal inputs equally), `random` draws from a seeded generator, as kube-scheduler does."""
    feature_gates: dict[str, bool] = {}
    """Feature gates, as kube-scheduler takes them from `--feature-gates`. `TaintTolerationComparisonOperators` lets
    tolerations compare numbers, `InterPodAffinityHostnameFastPath` changes the corner cases that it changes in
    kube-scheduler; `ai-scheduler config check` lists others, which change nothing."""
    group_kinds: list[GroupKind] = []
    """Kinds of workloads whose pods start together without a PodGroup, beside the built-in ones or in their place."""
    percentage_of_nodes_to_score: Percentage | None = Field(
        default=None, json_schema_extra=_not_honoured("every feasible node is scored")
    )
    """How many nodes are looked at."""
    parallelism: int | None = Field(default=None, ge=1, json_schema_extra=_not_honoured("one thread decides"))
    """How many threads look at nodes."""
    delay_cache_until_active: bool | None = Field(
        default=None, json_schema_extra=_not_honoured("a standby always keeps its view up to date")
    )
    """Whether a standby waits with its caches until it leads."""
    extenders: list[dict[str, Any]] | None = Field(
        default=None, json_schema_extra=_not_honoured("HTTP extenders are not called; write a plugin")
    )
    """HTTP extenders."""
    enable_profiling: bool | None = Field(default=None, json_schema_extra=_not_honoured("there is no pprof endpoint"))
    """Whether profiles can be taken over HTTP."""
    enable_contention_profiling: bool | None = Field(
        default=None, json_schema_extra=_not_honoured("there is no pprof endpoint")
    )
    """Whether lock contention is profiled."""

    @model_validator(mode="before")
    @classmethod
    def _start_from_base(cls, values: Any) -> Any:
        """Put a profile where there is none, and let those of a file of kube-scheduler's kind start from its plugins."""
        if not isinstance(values, dict) or not isinstance(values.get("profiles", []), list):
            return values
        profiles = values.get("profiles") or [{}]
        if values.get("apiVersion") == KUBE_API_VERSION:
            profiles = [{"base": "kube-default"} | item if isinstance(item, dict) else item for item in profiles]
        return values | {"profiles": profiles}

    @model_validator(mode="after")
    def _check(self) -> Self:
        problems = _repeated("profiles", [profile.scheduler_name for profile in self.profiles], "schedulerName")
        problems += _repeated("groupKinds", [entry.full_name for entry in self.group_kinds], "kind")
        if (self.api_version, self.kind) not in ((API_VERSION, KIND), (KUBE_API_VERSION, KUBE_KIND)):
            wanted = KUBE_KIND if self.api_version == KUBE_API_VERSION else KIND
            problems.append(Problem("kind", f"{self.kind} is not of {self.api_version}; allowed: {wanted}"))
        if self.pod_max_backoff_seconds < self.pod_initial_backoff_seconds:
            text = f"{self.pod_max_backoff_seconds} is too short; allowed: podInitialBackoffSeconds or more"
            problems.append(Problem("podMaxBackoffSeconds", text))
        for index, profile in enumerate(self.profiles):
            if profile.plugins.queue_sort != self.profiles[0].plugins.queue_sort:
                text = "differs from profiles[0]; allowed: the same, for all profiles share one queue"
                problems.append(Problem(f"profiles[{index}].plugins.queueSort", text))
        ProblemsError.raise_for(problems)
        return self
