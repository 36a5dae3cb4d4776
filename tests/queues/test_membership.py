"""Membership: who belongs where, and who may not."""

from __future__ import annotations

import pytest

from scheduler.model.label_tests import LabelTest
from scheduler.model.queue import OWN, QueueKey, QueueUse
from scheduler.queues.membership import Membership, Wish
from scheduler.queues.tree import build
from scheduler.state.objects import Objects

from .making import a_namespace, a_queue

TEAM = (LabelTest("team", "In", ("a",)),)


@pytest.fixture
def membership():
    """Return three queues, one of them for the namespaces of a team; and one of Kueue's."""
    objects = Objects()
    for thing in (
        a_namespace("ns-a", team="a"),
        a_namespace("ns-b", team="b"),
        QueueUse(namespace="ns-b", name="user-queue", queue=QueueKey("kueue", "cq")),
    ):
        objects.put(thing)
    queues = [
        a_queue("a-team", namespaces=TEAM),
        a_queue("b-team", namespaces=TEAM),
        a_queue("open"),
        a_queue("org"),
        a_queue("closed", is_closed=True),
        a_queue("sub", parent="org"),
        a_queue("cq", dialect="kueue"),
    ]
    return Membership(build(queues, {}), objects)


@pytest.mark.parametrize(
    ("namespace", "named", "queue"),
    [
        ("ns-a", None, "a-team"),
        ("ns-b", None, "default"),
        ("unknown", None, "default"),
        ("ns-a", (OWN, "b-team"), "b-team"),
        ("ns-b", (OWN, "open"), "open"),
        ("ns-b", ("kueue", "user-queue"), "kueue/cq"),
        ("ns-b", ("volcano", "whatever"), "default"),
    ],
)
def test_workloads_belong_by_label_then_by_namespace_then_to_default(membership, namespace, named, queue):
    """The first queue by name that selects the namespace; what another project says counts where its queues are."""
    home = membership.home(Wish(namespace, named))
    assert (str(home.node.key), home.problem) == (queue, "")


@pytest.mark.parametrize(
    ("namespace", "named", "code", "text"),
    [
        (
            "ns-b",
            (OWN, "a-team"),
            "QueueNotAllowed",
            "namespace ns-b may not use queue a-team; allowed are default, open",
        ),
        ("ns-a", (OWN, "nowhere"), "UnknownQueue", "there is no queue nowhere; allowed are a-team, b-team, default"),
        ("ns-a", (OWN, "org"), "QueueNotAllowed", "queue org is divided into queues"),
        ("ns-a", (OWN, "closed"), "QueueNotAllowed", "queue closed is closed"),
        ("ns-a", ("kueue", "user-queue"), "UnknownQueue", "there is no LocalQueue ns-a/user-queue"),
    ],
)
def test_who_may_not_use_a_queue_is_told_which_are_allowed(membership, namespace, named, code, text):
    """What such a workload has on nodes counts in `default`."""
    home = membership.home(Wish(namespace, named))
    assert home.code == code
    assert text in home.problem
    assert str(home.node.key) == "default"
