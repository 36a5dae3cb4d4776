"""Which plugins a profile gets, from where, and what is said about mistakes."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest

from scheduler.config import SchedulerConfiguration
from scheduler.engine.core import registry
from scheduler.framework.registry import RegistryError

from . import plugins as p


def resolved(plugins: Any = None, *, base: str = "kube-default", config: Any = ()) -> Any:
    """Return a resolved profile."""
    fields = {"base": base, "plugins": plugins or {}, "pluginConfig": list(config)}
    profile = SchedulerConfiguration.model_validate({"profiles": [fields]}).profiles[0]
    return registry().resolve(profile, None)


def names(profile: Any, point: str) -> list[str]:
    """Return the names of a point's plugins, in order."""
    return [type(enabled.plugin).NAME for enabled in profile.points[point]]


def weights(profile: Any) -> dict[str, int]:
    """Return what scores count."""
    return {type(e.plugin).NAME: e.weight for e in profile.points["score"]}


def path(cls: Any) -> str:
    """Return the import path of a test plugin."""
    return f"{p.HERE}:{cls.__name__}"


#: The order of kube-scheduler 1.37.
KUBE_FILTERS = [
    "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "DynamicResources",
    "NodeDeclaredFeatures",
]  # fmt: skip


def test_defaults_are_those_of_kube_scheduler():
    """Order and weights of the base."""
    profile = resolved()
    assert names(profile, "filter") == KUBE_FILTERS
    assert weights(profile) == {
        "TaintToleration": 3, "NodeAffinity": 2, "NodeResourcesFit": 1, "VolumeBinding": 1, "PodTopologySpread": 2,
        "InterPodAffinity": 2, "DynamicResources": 2, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1,
    }  # fmt: skip
    assert names(profile, "post_filter") == ["DynamicResources", "DefaultPreemption"]
    assert names(profile, "pod_group_post_filter") == ["DynamicResources", "GangPreemption"]


def test_multi_point_adds_and_disables_everywhere():
    """A plugin is added at all its points, after the base; a disabled one is gone from all of its."""
    change = {"multiPoint": {"enabled": [{"name": path(p.Raises), "weight": 7}], "disabled": [{"name": "NodePorts"}]}}
    profile = resolved(change)
    assert names(profile, "filter") == [n for n in KUBE_FILTERS if n != "NodePorts"] + ["Raises"]
    assert names(profile, "permit") == ["Gang", "Raises"]
    assert weights(profile)["Raises"] == 7


def test_multi_point_star_leaves_only_what_is_enabled():
    """With "*" disabled, the list is the whole list, in its order."""
    enabled = [{"name": n} for n in ("PrioritySort", "DefaultBinder", "NodeResourcesFit", "NodeName")]
    profile = resolved({"multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled}})
    assert names(profile, "filter") == ["NodeResourcesFit", "NodeName"]
    assert weights(profile) == {"NodeResourcesFit": 1}
    assert names(profile, "permit") == []


def test_point_disables_what_multi_point_enables():
    """At one point only."""
    profile = resolved({"score": {"disabled": [{"name": "NodeAffinity"}]}})
    assert "NodeAffinity" not in names(profile, "score")
    assert "NodeAffinity" in names(profile, "filter")


def test_point_star_leaves_what_the_point_enables():
    """The others keep their points."""
    profile = resolved({"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "ImageLocality", "weight": 9}]}})
    assert weights(profile) == {"ImageLocality": 9}
    assert names(profile, "filter") == KUBE_FILTERS


def test_point_overrides_weight_and_order():
    """A plugin named at a point comes first there, with that weight; others are added at the end."""
    change = {"score": {"enabled": [{"name": "ImageLocality", "weight": 5}, {"name": path(p.Favourite), "weight": 2}]}}
    profile = resolved(change)
    assert names(profile, "score")[0] == "ImageLocality"
    assert names(profile, "score")[-1] == "Favourite"
    assert weights(profile)["ImageLocality"] == 5
    assert weights(profile)["Favourite"] == 2
    assert names(profile, "filter") == KUBE_FILTERS


def test_weight_in_multi_point_changes_the_base():
    """Naming a base plugin with a weight keeps its place."""
    profile = resolved({"multiPoint": {"enabled": [{"name": "NodeAffinity", "weight": 50}]}})
    assert weights(profile)["NodeAffinity"] == 50
    assert names(profile, "filter") == KUBE_FILTERS


@pytest.mark.parametrize(
    ("plugins", "config", "said"),
    [
        ({"filter": {"enabled": [{"name": "Nope"}]}}, (), "profiles[0].plugins.filter.enabled[0]: plugin 'Nope' is unknown"),
        ({"multiPoint": {"enabled": [{"name": "Nope"}]}}, (), "profiles[0].plugins.multiPoint.enabled[0]: plugin 'Nope'"),
        ({"filter": {"enabled": [{"name": "no.such.module:X"}]}}, (), "cannot be imported"),
        ({"filter": {"enabled": [{"name": f"{p.HERE}:np"}]}}, (), "is no subclass of scheduler.Plugin"),
        ({"filter": {"enabled": [{"name": "ImageLocality"}]}}, (), "plugins.filter.enabled[0]: ImageLocality has no part in filter"),
        ({}, [{"name": "Nope"}], "profiles[0].pluginConfig[0].name: plugin 'Nope'"),
        ({}, [{"name": "NodeName", "args": {"x": 1}}], "pluginConfig[0].args: plugin NodeName takes no arguments"),
        ({}, [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "Best"}}}], "pluginConfig[0].args.scoringStrategy.type"),
        ({"multiPoint": {"enabled": [{"name": path(p.WithArgs)}]}}, [{"name": path(p.WithArgs), "args": {"limit": "many"}}], "pluginConfig[0].args.limit"),
        ({"multiPoint": {"enabled": [{"name": path(p.CannotBeMade)}]}}, (), "CannotBeMade cannot be made: RuntimeError('no')"),
        ({"multiPoint": {"enabled": [{"name": path(p.Exits)}]}}, (), "Exits cannot be made: SystemExit(0)"),
        ({"queueSort": {"enabled": [{"name": path(p.BrokenSort)}]}}, (), "queueSort: exactly one plugin must sort"),
        ({"bind": {"disabled": [{"name": "*"}]}}, (), "bind: at least one plugin must bind"),
    ],
)  # fmt: skip
def test_mistake_is_said_with_its_path(plugins, config, said):
    """Where it stands in the file, and what would be right."""
    with pytest.raises(RegistryError) as caught:
        resolved(plugins, config=config)
    assert said in str(caught.value)


def test_all_mistakes_are_said_at_once():
    """Not one after the other."""
    with pytest.raises(RegistryError) as caught:
        resolved(
            {"filter": {"enabled": [{"name": "A"}, {"name": "B"}]}}, config=[{"name": "NodeName", "args": {"x": 1}}]
        )
    assert len(caught.value.problems) == 3


def test_arguments_reach_the_plugin():
    """Validated, with defaults; `apiVersion` and `kind` may stand among them."""
    change = {"multiPoint": {"enabled": [{"name": path(p.WithArgs)}]}}
    args = {"apiVersion": "example.com/v1", "kind": "WithArgsArgs", "limit": 8}
    for config, limit in (([], 3), ([{"name": path(p.WithArgs), "args": args}], 8)):
        (plugin,) = [e.plugin for e in resolved(change, config=config).points["score"] if type(e.plugin) is p.WithArgs]
        assert plugin.args.limit == limit


def test_base_arguments_hold_unless_the_profile_has_its_own():
    """ai-scheduler protects gangs; a profile may turn that off."""
    assert resolved(base="ai-scheduler").plugins["DefaultPreemption"].args.protect_gangs
    own = [{"name": "DefaultPreemption", "args": {"minCandidateNodesAbsolute": 7}}]
    args = resolved(base="ai-scheduler", config=own).plugins["DefaultPreemption"].args
    assert args.min_candidate_nodes_absolute == 7


class Broken(EntryPoint):
    """An entry point whose package does not import."""

    def load(self) -> Any:
        """Fail as Python code can."""
        raise SyntaxError("not Python")


def test_plugins_come_from_entry_points(monkeypatch):
    """By their name in the group `ai_scheduler.plugins`; one that cannot be loaded is told, not raised."""
    points = [
        EntryPoint("Favourite", path(p.Favourite), "ai_scheduler.plugins"),
        Broken("Broken", "x:y", "ai_scheduler.plugins"),
    ]
    monkeypatch.setattr(
        "scheduler.framework.registry.entry_points", lambda group: points if group == "ai_scheduler.plugins" else []
    )
    assert "Favourite" in names(resolved({"score": {"enabled": [{"name": "Favourite"}]}}), "score")
    with pytest.raises(RegistryError, match="plugin 'Broken' cannot be imported"):
        resolved({"score": {"enabled": [{"name": "Broken"}]}})


@pytest.mark.parametrize("base", ["ai-scheduler", "kube-default"])
def test_bases_resolve(base):
    """Both sets of built-in plugins are complete."""
    profile = resolved(base=base)
    assert all(profile.points[point] for point in ("queue_sort", "filter", "score", "bind", "permit"))
