"""DeviceClasses by extended resource: which class serves a name, as kube-scheduler's `ExtendedResourceCache` says."""

from __future__ import annotations

from scheduler.model.devices import DeviceClass
from scheduler.state.device_classes import DeviceClasses
from scheduler.state.objects import Objects
from tests.builders import a_pod

GPU = "example.com/gpu"


def known(*classes: DeviceClass) -> DeviceClasses:
    """Return what is known of some classes."""
    objects = Objects()
    for each in classes:
        objects.put(each)
    return DeviceClasses(objects)


def test_a_class_stands_for_the_resource_that_it_names_and_for_one_of_its_own_name() -> None:
    """And for no other."""
    one = DeviceClass(name="gpu", extended_resource=GPU)
    classes = known(one)
    assert classes.serving(GPU) is one
    assert classes.serving("deviceclass.resource.kubernetes.io/gpu") is one
    assert classes.serving("deviceclass.resource.kubernetes.io/other") is None
    assert classes.serving("example.com/fpga") is None


def test_of_two_classes_the_newer_serves_then_the_lower_name() -> None:
    """The older one keeps the name that is its own."""
    old, new = (
        DeviceClass(name="a", created=1.0, extended_resource=GPU),
        DeviceClass(name="b", created=2.0, extended_resource=GPU),
    )
    same = DeviceClass(name="c", created=2.0, extended_resource=GPU)
    classes = known(old, same, new)
    assert classes.serving(GPU) is new
    assert classes.serving("deviceclass.resource.kubernetes.io/a") is old


def test_what_becomes_of_a_class_counts_at_once() -> None:
    """It comes, changes its resource, and goes."""
    objects = Objects()
    classes = DeviceClasses(objects)
    assert classes.serving(GPU) is None
    objects.put(DeviceClass(name="gpu", extended_resource=GPU))
    assert classes.serving(GPU) is not None
    objects.put(DeviceClass(name="gpu", extended_resource="example.com/other"))
    assert classes.serving(GPU) is None
    objects.drop(DeviceClass, ("", "gpu"))
    assert classes.serving("deviceclass.resource.kubernetes.io/gpu") is None


def test_a_pod_asks_for_what_is_served_and_for_what_is_not() -> None:
    """Kubernetes' own resources are neither, nor is a request for nothing."""
    classes = known(DeviceClass(name="gpu", extended_resource=GPU))
    pod = a_pod().cpu(1).request(GPU, 1).request("example.com/fpga", 2).request("example.com/none", 0).build()
    assert classes.served(pod) == (GPU,)
    assert classes.not_served(pod) == ("example.com/fpga",)
