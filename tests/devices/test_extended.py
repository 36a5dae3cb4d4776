"""Extended resources as requests for devices: the vectors of kube-scheduler's own tests (`extendeddynamicresources_test.go`, 1.37)."""

from __future__ import annotations

import pytest

from scheduler.devices.extended import requests_for
from tests.builders import PodBuilder, a_pod

X = "extended.resource.name/x"
X1, XINIT = f"{X}1", f"{X}init"
IMPLICIT = "deviceclass.resource.kubernetes.io/classInit"
CLASSES = {X: "class", X1: "class1"}
WITH_INIT = {X: "class", XINIT: "classInit"}

ONE = a_pod().request(X, 1).request(X1, 2)
TWO = a_pod().request(X, 1).container("con1", **{X1: "2"})
INIT = a_pod().request(X, 1).init("init-con0", **{XINIT: "2"})
TWO_INITS = a_pod().request(X, 1).init("init-con0", **{XINIT: "1"}).init("init-con1", **{XINIT: "2"})
SIDECAR = (
    a_pod()
    .request(X, 1)
    .init("init-con0", **{XINIT: "1"})
    .init("sidecar-con1", sidecar=True, **{XINIT: "1"})
    .init("init-con2", **{XINIT: "2"})
)


def found(pod: PodBuilder, classes: dict[str, str]) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, str]]]:
    """Return requests as (name, class, count), and mappings as (container, resource, request), sorted by request and container."""
    requests, mappings = requests_for(pod.build().extended, classes)
    made = []
    for request in requests:
        assert request.exactly is not None
        assert request.exactly.mode == "ExactCount"
        made.append((request.name, request.exactly.class_name, request.exactly.count))
    return made, sorted([tuple(each) for each in mappings], key=lambda each: (each[2], each[0]))  # type: ignore[misc]


def main_name(pod: PodBuilder) -> str:
    """Return the name of a pod's first container."""
    name: str = pod.manifest()["spec"]["containers"][0]["name"]
    return name


@pytest.mark.parametrize(
    ("pod", "classes", "requests", "mappings"),
    [
        (ONE, {}, [], []),
        (ONE, {X: "class"}, [("container-0-request-0", "class", 1)], [("main", X, "container-0-request-0")]),
        (
            ONE,
            CLASSES,
            [("container-0-request-0", "class", 1), ("container-0-request-1", "class1", 2)],
            [("main", X, "container-0-request-0"), ("main", X1, "container-0-request-1")],
        ),
        (
            TWO,
            CLASSES,
            [("container-0-request-0", "class", 1), ("container-1-request-0", "class1", 2)],
            [("main", X, "container-0-request-0"), ("con1", X1, "container-1-request-0")],
        ),
        (
            INIT,
            WITH_INIT,
            [("container-0-request-0", "classInit", 2), ("container-1-request-0", "class", 1)],
            [("init-con0", XINIT, "container-0-request-0"), ("main", X, "container-1-request-0")],
        ),
        (
            TWO_INITS,
            WITH_INIT,
            [("container-1-request-0", "classInit", 2), ("container-2-request-0", "class", 1)],
            [
                ("init-con0", XINIT, "container-1-request-0"),
                ("init-con1", XINIT, "container-1-request-0"),
                ("main", X, "container-2-request-0"),
            ],
        ),
        (
            SIDECAR,
            WITH_INIT,
            [
                ("container-1-request-0", "classInit", 1),
                ("container-2-request-0", "classInit", 2),
                ("container-3-request-0", "class", 1),
            ],
            [
                ("init-con0", XINIT, "container-1-request-0"),
                ("sidecar-con1", XINIT, "container-1-request-0"),
                ("init-con2", XINIT, "container-2-request-0"),
                ("main", X, "container-3-request-0"),
            ],
        ),
        (
            a_pod().init("init-con0", **{XINIT: "1", IMPLICIT: "2"}),
            {XINIT: "classInit", IMPLICIT: "classInit"},
            [("container-0-request-0", "classInit", 2), ("container-0-request-1", "classInit", 1)],
            [("init-con0", IMPLICIT, "container-0-request-0"), ("init-con0", XINIT, "container-0-request-1")],
        ),
    ],
)
def test_containers_ask_as_in_kube_scheduler(
    pod: PodBuilder, classes: dict[str, str], requests: list[object], mappings: list[tuple[str, str, str]]
) -> None:
    """One request for each container and resource; short-lived init containers share the largest, after what later ones lend."""
    named = [(main_name(pod) if each[0] == "main" else each[0], *each[1:]) for each in mappings]
    assert found(pod, classes) == (requests, named)


def test_an_init_container_uses_what_several_later_ones_will_have() -> None:
    """3 of the 4 that it needs: 1 more is asked for, and a later init container that needs no more than the last has none of its own."""
    pod = a_pod().request(X, 1).container("side", **{X: "2"}).init("first", **{X: "4"}).init("second", **{X: "1"})
    requests, mappings = found(pod, {X: "class"})
    assert requests == [
        ("container-0-request-0", "class", 1),
        ("container-2-request-0", "class", 1),
        ("container-3-request-0", "class", 2),
    ]
    assert [request for container, _, request in mappings if container == "first"] == [
        "container-0-request-0",
        "container-2-request-0",
        "container-3-request-0",
    ]
    assert [request for container, _, request in mappings if container == "second"] == ["container-2-request-0"]
