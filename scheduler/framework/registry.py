"""Registry: finds plugin classes by name and turns a profile of the configuration into ordered plugins per point.

For the engine and `config check`.  Names are those of built-in plugins, of Python entry points (group
`ai_scheduler.plugins`), or import paths (`package.module:Class`).  Merging follows kube-scheduler's multiPoint rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from scheduler.config import IDLE_POINTS, problems_of, without_absent

from .contract import mistakes
from .plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from scheduler.config import Plugins, PluginSet, Profile

    from .handle import Handle

ENTRY_POINT_GROUP = "ai_scheduler.plugins"

#: Point in the configuration (camelCase there, snake_case here) to the methods that implement it.
POINTS: dict[str, tuple[str, ...]] = {
    "pre_enqueue": ("pre_enqueue",),
    "queue_sort": ("sort_key",),
    "pre_filter": ("pre_filter",),
    "filter": ("filter_all", "filter"),
    "post_filter": ("post_filter",),
    "pre_score": ("pre_score",),
    "score": ("score_all", "score"),
    "reserve": ("reserve", "unreserve"),
    "permit": ("permit",),
    "pre_bind": ("pre_bind",),
    "bind": ("bind",),
    "post_bind": ("post_bind",),
    "placement_generate": ("generate_domains", "fabric_for"),
    "placement_score": ("score_placement",),
    "pod_group_post_filter": ("post_filter_gang",),
}

_DEFAULT_WEIGHT = 1
#: Class and point → whether the class has a method of it.
_known: dict[tuple[type[Plugin], str], bool] = {}


class RegistryError(ValueError):
    """A profile names a plugin that cannot be had or arguments that make no sense; `problems` has a line for each."""

    def __init__(self, problems: list[str]) -> None:
        """Keep all problems."""
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Enabled:
    """A plugin at a point, with its weight (used by Score only)."""

    plugin: Plugin
    weight: int


@dataclass(slots=True)
class ResolvedProfile:
    """A profile whose plugins exist: per point, in the order in which they are called."""

    scheduler_name: str
    points: dict[str, tuple[Enabled, ...]] = field(default_factory=dict)
    plugins: dict[str, Plugin] = field(default_factory=dict)


class Registry:
    """All plugins that can be named, and the built-in sets of plugins that profiles start from."""

    def __init__(
        self, built_in: Mapping[str, type[Plugin]], bases: Mapping[str, Mapping[str, int]], base_args: Mapping[str, Any]
    ) -> None:
        """Take the built-in classes by name, the base sets (base → plugin → weight), and a base's plugin arguments."""
        self._built_in = dict(built_in)
        self._bases = bases
        self._base_args = base_args

    def names(self) -> list[str]:
        """Return the names of built-in plugins, sorted."""
        return sorted(self._built_in)

    def find(self, name: str) -> type[Plugin]:
        """Return a plugin class; KeyError says what was looked for."""
        if name in self._built_in:
            return self._built_in[name]
        if ":" in name:
            module, _, attribute = name.partition(":")
            found = _load(name, lambda: getattr(import_module(module), attribute))
        else:
            entry = next((e for e in entry_points(group=ENTRY_POINT_GROUP) if e.name == name), None)
            found = None if entry is None else _load(name, entry.load)
        if found is None:
            allowed = ", ".join(self.names())
            raise KeyError(f"plugin {name!r} is unknown; allowed are {allowed}, entry points and package.module:Class")
        if not (isinstance(found, type) and issubclass(found, Plugin)):
            raise KeyError(f"plugin {name!r} is no subclass of scheduler.Plugin")
        if wrong := list(mistakes(found)):
            raise KeyError(f"plugin {name!r}: {'; '.join(wrong)}")
        return found

    def resolve(self, profile: Profile, handle: Handle, path: str = "profiles[0]") -> ResolvedProfile:
        """Make all plugins of a profile; raises RegistryError with every problem and its path."""
        problems: list[str] = []
        profile = without_absent(profile)
        base = self._bases[profile.base]
        order = _merge_multi_point(base, profile.plugins.multi_point)
        classes: dict[str, type[Plugin]] = {}
        for name, where in _named(profile.plugins, order, path):
            try:
                classes.setdefault(name, self.find(name))
            except KeyError as error:
                problems.append(f"{where}: {error.args[0]}")
        arguments = {**self._base_args.get(profile.base, {}), **{c.name: c.args for c in profile.plugin_config}}
        for i, entry in enumerate(profile.plugin_config):
            if entry.name not in classes:
                try:
                    classes[entry.name] = self.find(entry.name)
                except KeyError as error:
                    problems.append(f"{path}.pluginConfig[{i}].name: {error.args[0]}")
        made: dict[str, Plugin] = {}
        for name, cls in classes.items():
            where = next(
                (f"pluginConfig[{i}].args" for i, c in enumerate(profile.plugin_config) if c.name == name),
                "pluginConfig",
            )
            made_or_none = _make(cls, name, arguments.get(name), handle, f"{path}.{where}", problems)
            if made_or_none is not None:
                made[name] = made_or_none
        problems += _out_of_place(profile.plugins, made, path)
        if problems:
            raise RegistryError(problems)
        resolved = ResolvedProfile(profile.scheduler_name)
        for point in POINTS:
            resolved.points[point] = tuple(_expand(point, getattr(profile.plugins, point), order, made))
        used = {id(e.plugin) for enabled in resolved.points.values() for e in enabled}
        resolved.plugins = {name: plugin for name, plugin in made.items() if id(plugin) in used}
        _check(resolved, path)
        return resolved


def implements(plugin: Plugin | type[Plugin], point: str) -> bool:
    """Tell whether a plugin has a method of a point, be it of its class or its own."""
    if isinstance(plugin, type):
        return _implements(plugin, point)
    return _implements(type(plugin), point) or any(method in vars(plugin) for method in POINTS[point])


def _implements(cls: type[Plugin], point: str) -> bool:
    known = _known.get((cls, point))
    if known is None:
        known = _known[cls, point] = any(hasattr(cls, method) for method in POINTS[point])
    return known


def _merge_multi_point(base: Mapping[str, int], changes: PluginSet) -> dict[str, int]:
    """Return name → weight: the base without what is disabled, changed in place, then what is added."""
    disabled = {entry.name for entry in changes.disabled}
    added = {entry.name: entry.weight for entry in changes.enabled}
    kept = {} if "*" in disabled else {name: weight for name, weight in base.items() if name not in disabled}
    merged = {name: added.get(name) or weight for name, weight in kept.items()}
    return merged | {name: weight or _DEFAULT_WEIGHT for name, weight in added.items() if name not in merged}


def _load(name: str, load: Callable[[], Any]) -> Any:
    """Import a plugin; KeyError for whatever goes wrong in its module."""
    try:
        return load()
    except (Exception, SystemExit) as error:
        raise KeyError(f"plugin {name!r} cannot be imported: {error!r}") from error


def _named(plugins: Plugins, order: Mapping[str, int], path: str) -> Iterable[tuple[str, str]]:
    """Yield every plugin named anywhere with the path where it stands."""
    turn = {entry.name: i for i, entry in enumerate(plugins.multi_point.enabled)}
    for name in order:
        yield name, f"{path}.plugins.multiPoint" + (f".enabled[{turn[name]}]" if name in turn else "")
    for point in POINTS:
        for i, entry in enumerate(getattr(plugins, point).enabled):
            yield entry.name, f"{path}.plugins.{_camel(point)}.enabled[{i}]"


def _out_of_place(plugins: Plugins, made: Mapping[str, Plugin], path: str) -> Iterable[str]:
    """Yield a problem for each plugin that is enabled at a point that it does not implement."""
    for point in POINTS:
        for i, entry in enumerate(getattr(plugins, point).enabled):
            is_idle = point in IDLE_POINTS.get(entry.name, ())
            if entry.name in made and not is_idle and not implements(made[entry.name], point):
                own = ", ".join(_camel(p) for p in POINTS if implements(made[entry.name], p))
                text = f"{entry.name} has no part in {_camel(point)}; allowed for it: {own}"
                yield f"{path}.plugins.{_camel(point)}.enabled[{i}]: {text}"


def _make(cls: type[Plugin], name: str, raw: Any, handle: Handle, path: str, problems: list[str]) -> Plugin | None:
    """Validate a plugin's arguments and make it, or note what is wrong."""
    if cls.Args is None and raw:
        problems.append(f"{path}: plugin {name} takes no arguments")
        return None
    meta = {"apiVersion", "kind"}
    plain = {key: value for key, value in (raw or {}).items() if key not in meta}
    args = None
    if cls.Args is not None:
        try:
            args = cls.Args.model_validate(plain, by_alias=True, by_name=False)
        except ValidationError as error:
            problems += [str(problem) for problem in problems_of(error, cls.Args, prefix=path)]
            return None
    try:
        return cls(args, handle)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a third party's constructor raises
        problems.append(f"{path}: plugin {name} cannot be made: {error!r}")
        return None


def _expand(point: str, changes: PluginSet, order: Mapping[str, int], made: Mapping[str, Plugin]) -> Iterable[Enabled]:
    """Yield a point's plugins: its own overrides first, then multiPoint's, then its own additions (as upstream)."""
    disabled = {entry.name for entry in changes.disabled}
    own = {entry.name: entry.weight for entry in changes.enabled}
    everywhere = {name: weight for name, weight in order.items() if implements(made[name], point)}
    for name, weight in own.items():
        if name in everywhere and "*" not in disabled:
            yield Enabled(made[name], weight or everywhere[name])
    if "*" not in disabled:
        for name, weight in everywhere.items():
            if name not in own and name not in disabled:
                yield Enabled(made[name], weight)
    for name, weight in own.items():
        if (name not in everywhere or "*" in disabled) and implements(made[name], point):
            yield Enabled(made[name], weight or _DEFAULT_WEIGHT)


def _check(resolved: ResolvedProfile, path: str) -> None:
    """Refuse what cannot work: not exactly one way to sort, no way to bind."""
    sorters = [type(e.plugin).NAME for e in resolved.points["queue_sort"]]
    if len(sorters) != 1:
        raise RegistryError(
            [f"{path}.plugins.queueSort: exactly one plugin must sort; enabled are {sorters or 'none'}"]
        )
    if not resolved.points["bind"]:
        raise RegistryError([f"{path}.plugins.bind: at least one plugin must bind; enabled are none"])


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)
