"""kube-scheduler's own plugins that are not built here (yet): a file that names them is read, and they are left out.

For the registry, which would otherwise not know them, and for `config check`, which lists where they are named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import PluginSet, Profile, SchedulerConfiguration

#: Plugin of kube-scheduler 1.37 → what its absence means.
ABSENT_PLUGINS = {
    "GangScheduling": "gangs are decided by the engine itself",
    "TopologyPlacementGenerator": "native topology constraints are not looked at",
    "PodGroupPodsCount": "gangs are decided by the engine itself",
}


#: Points at which plugins of kube-scheduler take part and ours have nothing to do: what they do there is done elsewhere.
IDLE_POINTS = {
    "NodeUnschedulable": ("pre_filter",),
    "TaintToleration": ("pre_filter", "pre_score"),
    "NodeResourcesFit": ("pre_filter", "pre_score", "placement_score"),
    "VolumeBinding": ("pre_score",),
    "DefaultPreemption": ("pre_enqueue", "pod_group_post_filter"),
}
#: Feature gates that change what is decided here.
HONOURED_GATES = ("InterPodAffinityHostnameFastPath", "TaintTolerationComparisonOperators")


def idle_points(configuration: SchedulerConfiguration) -> Iterator[Problem]:
    """Yield where a plugin is enabled at a point of kube-scheduler's at which ours has nothing to do."""
    for i, profile in enumerate(configuration.profiles):
        for point, field in type(profile.plugins).model_fields.items():
            for j, entry in enumerate(getattr(profile.plugins, point).enabled):
                if point in IDLE_POINTS.get(entry.name, ()):
                    path = f"profiles[{i}].plugins.{field.alias or point}.enabled[{j}]"
                    yield Problem(path, f"{entry.name} has nothing to do at this point here")


def idle_gates(configuration: SchedulerConfiguration) -> Iterator[Problem]:
    """Yield the feature gates that are set and change nothing."""
    allowed = ", ".join(HONOURED_GATES)
    for gate in sorted(configuration.feature_gates):
        if gate not in HONOURED_GATES:
            yield Problem(f"featureGates.{gate}", f"changes nothing here; gates that do are {allowed}")


def without_absent(profile: Profile) -> Profile:
    """Return the profile without the plugins that are absent here."""
    points = {
        point: _pruned(getattr(profile.plugins, point))
        for point in type(profile.plugins).model_fields
        if _names_absent(getattr(profile.plugins, point))
    }
    kept = [entry for entry in profile.plugin_config if entry.name not in ABSENT_PLUGINS]
    return profile.model_copy(update={"plugins": profile.plugins.model_copy(update=points), "plugin_config": kept})


def absent_uses(configuration: SchedulerConfiguration) -> Iterator[Problem]:
    """Yield where a configuration names an absent plugin, and what that means."""
    for i, profile in enumerate(configuration.profiles):
        for point, field in type(profile.plugins).model_fields.items():
            for j, entry in enumerate(getattr(profile.plugins, point).enabled):
                if entry.name in ABSENT_PLUGINS:
                    path = f"profiles[{i}].plugins.{field.alias or point}.enabled[{j}]"
                    yield Problem(path, f"{entry.name} is not built here: {ABSENT_PLUGINS[entry.name]}")
        for j, configured in enumerate(profile.plugin_config):
            if configured.name in ABSENT_PLUGINS:
                path = f"profiles[{i}].pluginConfig[{j}]"
                yield Problem(path, f"{configured.name} is not built here: {ABSENT_PLUGINS[configured.name]}")


def _names_absent(points: PluginSet) -> bool:
    return any(entry.name in ABSENT_PLUGINS for entry in (*points.enabled, *points.disabled))


def _pruned(points: PluginSet) -> PluginSet:
    return points.model_copy(
        update={
            "enabled": [entry for entry in points.enabled if entry.name not in ABSENT_PLUGINS],
            "disabled": [entry for entry in points.disabled if entry.name not in ABSENT_PLUGINS],
        }
    )
