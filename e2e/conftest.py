"""Fixtures for tests against a real control plane, which is built once per machine and started once per session.

Where the programs can be neither found nor built, the tests are skipped with the reason; on CI (`CI=true`) they fail
instead, since a skipped suite would look green.
"""

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.controlplane import build
from e2e.controlplane.client import ApiError
from e2e.controlplane.cluster import ControlPlane
from e2e.deployment import Replica, apply_manifests
from e2e.objects import DefaultWorld, World
from e2e.upstream import KubeScheduler
from e2e.waiting import wait_until

#: How many pods a request for their deletion may name.
PODS_A_PAGE = 200


@pytest.fixture(scope="session")
def assets(request: pytest.FixtureRequest) -> Path:
    """The folder with the programs of a control plane; a first build shows its progress in spite of captured output."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            return build.build()
    except build.ControlPlaneUnavailableError as unavailable:
        if os.environ.get("CI") == "true":
            pytest.fail(str(unavailable), pytrace=False)
        pytest.skip(str(unavailable))


@pytest.fixture(scope="session")
def control_plane(assets: Path) -> Iterator[ControlPlane]:
    """A control plane with the controller manager and kwok, shared by the whole session: use your own namespace and nodes."""
    with ControlPlane(controller_manager=True, kwok=True, programs=assets) as running:
        yield running


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh namespace for one test, with its default ServiceAccount; its pods are gone when the test is over."""
    with fresh_namespace(control_plane, request.node.name) as name:
        yield name


@contextmanager
def fresh_namespace(plane: ControlPlane, test: str) -> Iterator[str]:
    """Makes a namespace that is named after a test, and removes it and its pods."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.lower()).removeprefix("test-")[:40].strip("-")
    name = f"{slug}-{secrets.token_hex(3)}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    wait_until(lambda: _has_default_account(plane, name), what=f"the default ServiceAccount in {name}")
    yield name
    plane.request("DELETE", f"/api/v1/namespaces/{name}")
    _delete_pods(plane, name)


def _delete_pods(plane: ControlPlane, namespace: str) -> None:
    """Deletes all pods of a namespace at once, in pages: a request that lasts over a minute is cut off by the server."""
    path = f"/api/v1/namespaces/{namespace}/pods?limit={PODS_A_PAGE}"
    position = ""
    while True:
        page = plane.request("DELETE", f"{path}&continue={position}", {"gracePeriodSeconds": 0})
        position = page.get("metadata", {}).get("continue", "")
        if not position:
            return


def _has_default_account(control_plane: ControlPlane, namespace: str) -> bool:
    try:
        control_plane.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
    except ApiError:
        return False
    return True


@pytest.fixture(scope="session")
def installed(control_plane: ControlPlane) -> ControlPlane:
    """The shared control plane with everything from `manifests/` in it."""
    apply_manifests(control_plane)
    return control_plane


@pytest.fixture(scope="session")
def scheduler(installed: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """The scheduler itself, started as its Deployment says, with its ServiceAccount's token; it leads."""
    replica = Replica(installed, tmp_path_factory.mktemp("scheduler"))
    try:
        yield replica.wait_ready().wait_leading()
    finally:
        replica.kill()


@pytest.fixture
def world(scheduler: Replica, control_plane: ControlPlane, namespace: str) -> Iterator[World]:
    """Nodes and objects of one test, before a running scheduler."""
    del scheduler
    own = World(control_plane, namespace)
    yield own
    own.close()


@pytest.fixture(scope="module")  # it goes before others are tested: it would write Queue statuses as well
def default_scheduler(
    installed: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Replica | KubeScheduler]:
    """The scheduler in kube-scheduler's place, with a configuration file of that one's kind; or that one itself."""
    folder = tmp_path_factory.mktemp("default-scheduler")
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
    running: Replica | KubeScheduler
    if os.environ.get("E2E_SCHEDULER") == "kube-scheduler":
        running = KubeScheduler(installed, folder, configuration)
    else:
        running = Replica(installed, folder, **configuration)
    try:
        if isinstance(running, Replica):
            running.wait_ready().wait_leading()
        yield running
    finally:
        running.kill()


@pytest.fixture
def default_world(
    default_scheduler: Replica | KubeScheduler, control_plane: ControlPlane, namespace: str
) -> Iterator[DefaultWorld]:
    """Nodes and objects of one test, before the scheduler in kube-scheduler's place."""
    del default_scheduler
    own = DefaultWorld(control_plane, namespace)
    yield own
    own.close()
