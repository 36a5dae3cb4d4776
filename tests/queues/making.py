"""Queues and worlds for tests of queues, in few words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from scheduler.engine import inputs as i
from scheduler.model.owners import Namespace
from scheduler.model.queue import QUEUE_LABEL, Queue, Quota
from tests.builders import GPU, PodBuilder, a_node, a_pod
from tests.engine.world import World


def a_queue(name: str, guaranteed: int | None = 0, limit: int | None = None, weight: int = 1, **fields: Any) -> Queue:
    """Return a queue that names GPUs."""
    quota = Quota(guaranteed, limit, Fraction(weight))
    return Queue(name=name, quotas={GPU: quota}, weight=Fraction(weight), **{"uid": f"uid-{name}", **fields})


def of_queue(name: str, pod: PodBuilder) -> PodBuilder:
    """Return a pod that names a queue."""
    return pod.label(QUEUE_LABEL, name)


def queued(name: str, queue: str, gpus: int = 1, created: float = 0.0) -> PodBuilder:
    """Return a pod of a queue that asks for GPUs."""
    return of_queue(queue, a_pod(name).gpus(gpus).created(created))


def know(world: World, *things: Any) -> World:
    """Let a world's engine know objects that are only read."""
    for thing in things:
        world.engine.handle(i.ObjectChanged(thing))
    return world


def a_world(gpus: int, *queues: Queue, nodes: int = 1) -> World:
    """Return a world with equal nodes and some queues."""
    world = World(*(a_node(f"n{number}").gpus(gpus).cpu(64).memory("256Gi") for number in range(nodes)))
    return know(world, *queues)


def a_namespace(name: str, **labels: str) -> Namespace:
    """Return a namespace."""
    return Namespace(name=name, labels=labels)
