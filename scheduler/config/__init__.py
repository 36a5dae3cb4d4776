"""The configuration of the scheduler: what may be set, its defaults, and how it is read and written."""

from .backfill import Backfill, BackfillPolicy
from .base import ConfigurationModel
from .duration import format_duration, parse_duration
from .group_kinds import GroupCount, GroupKind, GroupLabel, GroupRoles
from .model import (
    API_VERSION,
    DEFAULT_SCHEDULER_NAME,
    KIND,
    KUBE_API_VERSION,
    KUBE_KIND,
    NOT_HONOURED,
    BaseProfile,
    ClientConnection,
    Intake,
    LeaderElection,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    Profile,
    SchedulerConfiguration,
    TieBreak,
)
from .problems import Problem, ProblemsError, allowed_values, problems_of
from .reading import ConfigurationError, default, load, parse, to_yaml, unhonoured
from .upstream import ABSENT_PLUGINS, IDLE_POINTS, without_absent

__all__ = [
    "ABSENT_PLUGINS",
    "API_VERSION",
    "DEFAULT_SCHEDULER_NAME",
    "IDLE_POINTS",
    "KIND",
    "KUBE_API_VERSION",
    "KUBE_KIND",
    "NOT_HONOURED",
    "Backfill",
    "BackfillPolicy",
    "BaseProfile",
    "ClientConnection",
    "ConfigurationError",
    "ConfigurationModel",
    "GroupCount",
    "GroupKind",
    "GroupLabel",
    "GroupRoles",
    "Intake",
    "LeaderElection",
    "PluginConfig",
    "PluginEntry",
    "PluginSet",
    "Plugins",
    "Problem",
    "ProblemsError",
    "Profile",
    "SchedulerConfiguration",
    "TieBreak",
    "allowed_values",
    "default",
    "format_duration",
    "load",
    "parse",
    "parse_duration",
    "problems_of",
    "to_yaml",
    "unhonoured",
    "without_absent",
]
