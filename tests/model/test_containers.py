"""What containers ask one by one, and the quality of service, by the rules of kube-apiserver (ComputePodQOS)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model import pod_from_api
from scheduler.model.api import ApiPod
from scheduler.model.containers import Turn, qos_of, steady_requests
from scheduler.model.quantity import QuantityError

GI = 2**30
FULL = {"cpu": "2", "memory": "1Gi"}


def pod(*containers: dict[str, Any], inits: Any = (), status: Any = (), level: Any = None) -> ApiPod:
    """Return a pod of containers, each given as its `resources`; an init container may be a pair with its restart policy."""
    spec: dict[str, Any] = {"containers": [{"resources": r} for r in containers]}
    spec["initContainers"] = [{"resources": r, "restartPolicy": policy} for r, policy in inits]
    if level is not None:
        spec["resources"] = level
    return msgspec.convert({"spec": spec, "status": dict(status)}, ApiPod)


@pytest.mark.parametrize(
    ("api", "qos"),
    [
        (pod({}), "BestEffort"),
        (pod({"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}), "BestEffort"),
        (pod({"requests": {"cpu": "0"}}), "BestEffort"),
        (pod({"requests": FULL}), "Burstable"),
        (pod({"limits": FULL}), "Guaranteed"),
        (pod({"requests": FULL, "limits": FULL}), "Guaranteed"),
        (pod({"requests": FULL, "limits": {"cpu": "2000m", "memory": GI}}), "Guaranteed"),
        (pod({"requests": FULL, "limits": {"cpu": "3", "memory": "1Gi"}}), "Burstable"),
        (pod({"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}), "Burstable"),
        (pod({"limits": FULL}, {}), "Burstable"),
        (pod({"limits": FULL}, inits=[({}, None)]), "Burstable"),
        (pod({"limits": FULL}, inits=[({"limits": FULL}, "Always")]), "Guaranteed"),
        (pod({}, {}, level={"requests": FULL, "limits": FULL}), "Guaranteed"),
        (pod({"limits": FULL}, level={"requests": {"cpu": "1"}}), "Burstable"),
        (pod({"limits": FULL}, status={"qosClass": "Burstable"}), "Burstable"),
        (pod({"limits": FULL}, status={"qosClass": "Unheard"}), "Guaranteed"),
    ],
)
def test_quality_of_service_is_what_the_api_server_says(api: ApiPod, qos: str) -> None:
    """What the status tells wins; else every container counts, or the pod-level resources alone."""
    assert qos_of(api) == qos


def test_containers_come_in_the_order_in_which_a_kubelet_admits_them() -> None:
    """Init containers first; a sidecar is one that restarts always."""
    api = pod({"limits": FULL}, inits=[({"limits": {"cpu": "5"}}, None), ({"limits": {"cpu": "1"}}, "Always")])
    view = pod_from_api(api)
    assert [(c.turn, c.requests) for c in view.containers] == [
        (Turn.INIT, {"cpu": 5000}),
        (Turn.SIDECAR, {"cpu": 1000}),
        (Turn.APP, {"cpu": 2000, "memory": GI}),
    ]
    assert steady_requests(view.containers) == {"cpu": 5000, "memory": GI}


def test_pods_with_other_containers_have_another_shape() -> None:
    """The sums are equal, but a kubelet may align the one and not the other."""
    one, two = pod({"requests": {"cpu": "4"}}), pod({"requests": {"cpu": "2"}}, {"requests": {"cpu": "2"}})
    assert pod_from_api(one).requests == pod_from_api(two).requests
    assert pod_from_api(one).shape != pod_from_api(two).shape


def test_bad_limit_names_its_path() -> None:
    """As a bad request does."""
    with pytest.raises(QuantityError, match=r"spec\.containers\[0\]\.resources\.limits\[cpu\]"):
        pod_from_api(pod({"requests": {"cpu": "1"}, "limits": {"cpu": "much"}}))
