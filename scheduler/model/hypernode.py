"""HyperNode: Volcano's way of telling the network, as nodes and HyperNodes that are members of HyperNodes.

For the edges, which watch or load them, and for `topology.hypernodes`, which makes levels of them.  Read is
`topology.volcano.sh/v1alpha1`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .api import LabelSelector, ObjectMeta
from .label_tests import Selector, SelectorError, selector_of
from .volume_api import ApiStruct

HYPERNODE_GROUP: Final = "topology.volcano.sh"
HYPERNODE_VERSION: Final = "v1alpha1"


class ExactMatch(ApiStruct, frozen=True):
    """One name."""

    name: str = ""


class RegexMatch(ApiStruct, frozen=True):
    """All names in which a pattern is found."""

    pattern: str = ""


class MemberSelector(ApiStruct, frozen=True):
    """Which ones are members; one of the three is set."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class ApiMember(ApiStruct, frozen=True):
    """Some members of one type, Node or HyperNode."""

    type: str = ""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(ApiStruct, frozen=True):
    """The spec of a HyperNode; the first versions of Volcano wrote the tier as a text."""

    tier: int | str = 0
    tier_name: str = ""
    members: list[ApiMember] | None = None


class ApiHyperNode(ApiStruct, frozen=True):
    """A HyperNode (topology.volcano.sh/v1alpha1), cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HyperNodeSpec = HyperNodeSpec()


class Member(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Members of a HyperNode: nodes or HyperNodes by name or by a pattern in their name, or nodes by their labels."""

    is_hypernode: bool = False
    name: str = ""
    pattern: str = ""
    selector: Selector | None = None


class HyperNode(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Nodes that are near each other; the lower the tier, the nearer."""

    name: str
    uid: str = ""
    tier: int = 0
    tier_name: str = ""
    members: tuple[Member, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """No namespace, and the name."""
        return "", self.name


def hypernode_from_api(api: ApiHyperNode) -> HyperNode:
    """Return the view of an API object; members that make no sense are left out and named in its problems."""
    problems: list[str] = []
    members = [_member(member, f"spec.members[{i}]", problems) for i, member in enumerate(api.spec.members or ())]
    tier = str(api.spec.tier)
    if not (tier.isascii() and tier.isdigit()):
        problems.append(f"spec.tier: {tier!r} is no tier; allowed are whole numbers from 0; it is left out")
    return HyperNode(
        name=api.metadata.name,
        uid=api.metadata.uid,
        tier=int(tier) if tier.isascii() and tier.isdigit() else -1,
        tier_name=api.spec.tier_name,
        members=tuple(member for member in members if member is not None),
        problems=tuple(problems),
    )


def _member(api: ApiMember, path: str, problems: list[str]) -> Member | None:
    """Return one entry of the members, or None with a problem."""
    selector, is_hypernode = api.selector, api.type == "HyperNode"
    if api.type not in ("Node", "HyperNode"):
        problems.append(f"{path}.type: {api.type!r} is unknown; allowed: Node, HyperNode")
    elif selector.exact_match is not None and selector.exact_match.name:
        return Member(is_hypernode=is_hypernode, name=selector.exact_match.name)
    elif selector.regex_match is not None and selector.regex_match.pattern:
        return Member(is_hypernode=is_hypernode, pattern=selector.regex_match.pattern)
    elif selector.label_match is None or is_hypernode:
        allowed = "exactMatch, regexMatch" if is_hypernode else "exactMatch, regexMatch, labelMatch"
        problems.append(f"{path}.selector: it selects nothing; allowed: {allowed}")
    else:
        try:
            return Member(selector=selector_of(selector.label_match))
        except SelectorError as error:
            problems.append(f"{path}.selector.labelMatch: {error}; allowed is a label selector")
    return None
