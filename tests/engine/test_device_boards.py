"""What is kept about nodes and claims is what the allocator says when it is asked anew, whatever happens and in whatever order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.config import SchedulerConfiguration
from scheduler.devices.ledger import Ledger
from scheduler.engine import inputs as i
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.status import Status
from scheduler.model.device_api import ApiDeviceClass, ApiDeviceTaintRule
from scheduler.model.device_claims import EXTENDED_RESOURCE_ANNOTATION, DeviceClaim
from scheduler.model.devices import DeviceTaintRule, device_class_from_api, device_taint_rule_from_api
from scheduler.model.node_topology import Links, NodeTopology, ToldGpu, ToldMachine
from scheduler.plugins.dynamic_resources.answers import FULL_FOR_NOW, Answers, freed_claims, waiting
from scheduler.plugins.dynamic_resources.asking import is_refused
from scheduler.plugins.dynamic_resources.claimants import is_local, lifted
from scheduler.plugins.dynamic_resources.scoring import FULL, connection, preference
from tests.builders import a_gang, a_node, a_pod
from tests.devices.cases import device, either, gpus, request, result

from .device_world import DeviceWorld, claim_of, claiming, node_slice, shared_claim

if TYPE_CHECKING:
    from scheduler.model import Pod
    from scheduler.plugins.dynamic_resources.plugin import DynamicResources
    from scheduler.state.rows import Row
    from scheduler.state.snapshot import Snapshot

NODES = ("a", "b", "c", "d")
EXTENDED = "example.com/gpu"
V100 = "Tesla V100-SXM2-32GB"
SICK = {"key": "sick", "effect": "NoSchedule"}
EVEN = 'device.attributes["gpu.example.com"].index % 2 == 0'
#: No device has the attribute, so that an evaluation that comes to it fails.
BROKEN = 'device.attributes["gpu.example.com"].nothing == 1'
WISHES: dict[str, dict[str, Any]] = {
    "one": {"requests": [request()]},
    "two": {"requests": [request(count=2)]},
    "even": {"requests": [request(where=EVEN)]},
    "all": {"requests": [request(allocationMode="All")]},
    "part": {"requests": [request(capacity={"requests": {"memory": "3"}})]},
    "admin": {"requests": [request(adminAccess=True)]},
    "tough": {"requests": [request(tolerations=[{"operator": "Exists"}])]},
    "choice": {"requests": [either(request("first", count=3), request("second", where=EVEN))]},
    "alike": {"requests": [request(count=2)], "constraints": [{"matchAttribute": "gpu.example.com/numa"}]},
    "broken": {"requests": [request(where=BROKEN)]},
}


def claim_like(make: Any, name: str, kind: str) -> dict[str, Any]:
    """Return a claim of a kind, made as `make` makes it."""
    wish = WISHES[kind]
    manifest: dict[str, Any] = make(name, *wish["requests"], constraints=wish.get("constraints", ()))
    return manifest


class Reference:
    """Answers without any memory: the allocator is asked for each node, with everybody who stands there looked at again."""

    def __init__(self, plugin: DynamicResources, snapshot: Snapshot) -> None:
        self.plugin, self.snapshot, self.world = plugin, snapshot, plugin._world

    def others(self, rows: list[Row]) -> list[Any]:
        placed = [(pod, row.node) for row in rows for pod in row.pods.values() if not pod.node_name]
        return waiting(self.world, [(pod, node) for pod, node in placed if pod.claims or pod.extended])

    def standing(self, pod: Pod, row: Row) -> tuple[Status | None, int]:
        """Return the status of a node, and its raw score."""
        plugin, world = self.plugin, self.world
        claims = plugin._needed(pod).claims
        others = self.others([row] if is_local(world, claims) else self.snapshot.all_rows)
        releases, place = plugin.args.preemption_releases_claims, world.place(row.node)
        freed = freed_claims(lifted(plugin.handle.cluster.view(row.node.name), row), world) if releases else []
        answer = Answers(world).serve(claims, place, others, freed)
        if releases and is_refused(answer.status) and (gone := plugin._asking.releasable(row)):
            emptied = Answers(world).serve(claims, place, others, [*freed, *gone])
            if emptied.status is None:
                return Status.unschedulable(FULL_FOR_NOW), 0
        if answer.status is not None:
            return answer.status, 0
        preferred = preference(claims, answer.given)
        if not plugin.args.prefers_connected:
            return None, preferred
        return None, preferred * (FULL + 1) + connection(place, (), answer.given, world.assumed.ledger)


def told(status: Status | None) -> Any:
    """Return what a person is told."""
    return None if status is None else (status.code, [reason.text for reason in status.reasons])


class Boards(RuleBasedStateMachine):
    """Devices, classes, claims and pods come, change and go; after every step all that is kept is compared."""

    BASE = "ai-scheduler"

    @initialize()
    def start(self) -> None:
        self.made = 0
        profile = {"schedulerName": "ai-scheduler", "base": self.BASE}
        configuration = SchedulerConfiguration.model_validate({"profiles": [profile]})
        self.world = DeviceWorld(configuration=configuration, classes=())
        self.classify(is_picky=False)
        for node in NODES:
            self.world.add(a_node(node).cpu(64).label("zone", "x" if node in "ab" else "y"))
        for node in "ab":
            self.publish(node, "linked", 1)
        self.publish("c", "shared", 1)
        self.publish("d", "counted", 1)
        self.probes: list[Pod] = []
        for kind in WISHES:
            self.probe(claim_like(claim_of, f"own-{kind}", kind), f"own-{kind}-gpu", f"own-{kind}")
        for number in "12":
            self.probe(claim_like(shared_claim, f"free-{number}", "one"), f"free-{number}", f"free-{number}")
        self.probe(claim_like(claim_of, "other-broken", "broken"), "other-broken-gpu", "other-broken")
        pod = claiming(a_pod("pair").cpu(1), "free-1", "free-2")
        self.probes.append(pod.build())

    def probe(self, manifest: dict[str, Any], claim: str, pod: str) -> None:
        """Keep a pod that is never let into the world, with its claim, which is there."""
        self.world.claim(manifest)
        builder = (
            claiming(a_pod(pod).cpu(1)) if pod.startswith(("own", "other")) else claiming(a_pod(pod).cpu(1), claim)
        )
        self.probes.append(builder.build())

    def classify(self, *, is_picky: bool) -> None:
        selectors = [{"cel": {"expression": EVEN}}] if is_picky else []
        spec = {"extendedResourceName": EXTENDED, "selectors": selectors}
        manifest = {"metadata": {"name": "gpu"}, "spec": spec}
        self.world.tell(device_class_from_api(msgspec.convert(manifest, ApiDeviceClass)))

    def publish(self, node: str, kind: str, generation: int) -> None:
        devices: list[dict[str, Any]] = []
        match kind:
            case "linked":
                devices = [device(f"g{k}", index=k, numa=k // 2) for k in range(4)]
                for each in devices:
                    each["attributes"]["productName"] = {"string": V100}
            case "shared":
                devices = gpus(2, allowMultipleAllocations=True, capacity={"memory": {"value": "4"}})
            case "sick":
                devices = gpus(2, taints=[SICK])
            case "counted":
                for k, amount in enumerate(("2", "1", "1")):
                    used = [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]
                    devices.append(device(f"part-{k}", index=k, numa=0, consumesCounters=used))
        count = 2 if kind == "counted" else 1
        self.world.withdraw(f"counters-{node}")
        self.world.publish(node_slice(node, *devices, generation=generation, count=count))
        if kind == "counted":
            counters = [{"name": "card", "counters": {"memory": {"value": "2"}}}]
            slice_ = node_slice(node, generation=generation, count=2, sharedCounters=counters)
            slice_["metadata"]["name"] = f"counters-{node}"
            del slice_["spec"]["devices"]
            self.world.publish(slice_)

    # What may happen

    @rule(kind=st.sampled_from(sorted(WISHES)), priority=st.integers(0, 1))
    def pod(self, kind: str, priority: int) -> None:
        self.made += 1
        self.world.claim(claim_like(claim_of, f"p{self.made}", kind))
        self.world.add(claiming(a_pod(f"p{self.made}").cpu(1).priority(priority)))

    @rule(size=st.integers(2, 4), kind=st.sampled_from(["one", "part", "two"]))
    def gang(self, size: int, kind: str) -> None:
        self.made += 1
        name = f"g{self.made}"
        self.world.add(a_gang(name, size))
        for turn in range(size):
            self.world.claim(claim_like(claim_of, f"{name}x{turn}", kind))
            self.world.add(claiming(a_pod(f"{name}x{turn}").cpu(1).gang(name, size)))

    @rule(count=st.integers(1, 3))
    def sharers(self, count: int) -> None:
        self.made += 1
        self.world.claim(shared_claim(f"s{self.made}"))
        for turn in range(count):
            self.world.add(claiming(a_pod(f"s{self.made}x{turn}").cpu(1), f"s{self.made}"))

    @rule(count=st.integers(1, 2))
    def extended(self, count: int) -> None:
        self.made += 1
        self.world.add(a_pod(f"e{self.made}").cpu(1).request(EXTENDED, count))

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        names = sorted(pod.name for pod in self.world.pods.values())
        if names:
            name = data.draw(st.sampled_from(names))
            self.world.remove(name)
            if f"default/{name}-gpu" in self.world.server.claims:
                self.world.delete_claim(f"{name}-gpu")

    @rule(seconds=st.sampled_from([0, 0, 1, 300]))
    def decide(self, seconds: int) -> None:
        self.world.wait(seconds)

    @rule(
        node=st.sampled_from(NODES),
        kind=st.sampled_from(["linked", "shared", "sick", "counted"]),
        generation=st.integers(1, 2),
    )
    def slices_change(self, node: str, kind: str, generation: int) -> None:
        self.publish(node, kind, generation)

    @rule(node=st.sampled_from(NODES))
    def slices_go(self, node: str) -> None:
        self.world.withdraw(f"slice-{node}")

    @rule(where=st.sampled_from(["all", "zone", "none"]))
    def network_attached(self, where: str) -> None:
        if where == "none":
            self.world.withdraw("slice-net")
            return
        term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}
        made = node_slice("net", *gpus(2, numa=0))
        del made["spec"]["nodeName"]
        made["spec"] |= {"allNodes": True} if where == "all" else {"nodeSelector": {"nodeSelectorTerms": [term]}}
        self.world.publish(made)

    @rule(is_picky=st.booleans())
    def class_changes(self, is_picky: bool) -> None:
        self.classify(is_picky=is_picky)

    @rule(pool=st.sampled_from([*NODES, ""]))
    def devices_are_tainted(self, pool: str) -> None:
        if not pool:
            self.world.engine.handle(i.ObjectRemoved(DeviceTaintRule, ("", "r")))
            return
        manifest = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": pool}, "taint": SICK}}
        self.world.tell(device_taint_rule_from_api(msgspec.convert(manifest, ApiDeviceTaintRule)))

    @rule(node=st.sampled_from(NODES), zone=st.sampled_from(["x", "y", ""]))
    def node_changes(self, node: str, zone: str) -> None:
        if zone:
            self.world.add(a_node(node).cpu(64).label("zone", zone))
        elif node in self.world.nodes:
            self.world.remove_node(node)

    @rule(node=st.sampled_from(NODES), is_there=st.booleans())
    def machine_is_told(self, node: str, is_there: bool) -> None:
        if is_there:
            self.world.tell(NodeTopology(name=node, machine=ToldMachine((), (), None)))
        else:
            self.world.engine.handle(i.ObjectRemoved(NodeTopology, ("", node)))

    @rule(node=st.sampled_from(NODES), name=st.sampled_from(["g0", "g1", "gpu-0", "part-0"]), is_taken=st.booleans())
    def others_take_and_release(self, node: str, name: str, is_taken: bool) -> None:
        has = [result(name, pool=node)] if is_taken else []
        if name == "gpu-0" and is_taken:
            has[0] |= {"shareID": "11111111-1111-4111-8111-111111111111", "consumedCapacity": {"memory": "2"}}
        self.world.server.claims.pop(f"default/elsewhere-{node}", None)
        self.world.claim(shared_claim(f"elsewhere-{node}", has=has))

    @rule(data=st.data())
    def reservation_is_dropped(self, data: st.DataObject) -> None:
        """Somebody takes the users off a claim, or puts them on: the devices stay."""
        known = sorted(
            key for key, each in self.world.server.claims.items() if (each.get("status") or {}).get("allocation")
        )
        if known:
            claim = self.world.server.claims[data.draw(st.sampled_from(known))]
            is_used: bool = data.draw(st.booleans())
            users = [{"resource": "pods", "name": "x", "uid": "uid-x"}] if is_used else []
            self.world.claim({**claim, "status": {**claim["status"], "reservedFor": users}})

    @rule(is_blind=st.booleans())
    def watch(self, is_blind: bool) -> None:
        self.world.is_blind = is_blind
        self.world.watch()

    @rule(is_late=st.booleans())
    def undoing(self, is_late: bool) -> None:
        self.world.holds_releases = is_late
        if not is_late:
            self.world.let_release()

    @rule(data=st.data())
    def bindings_fail(self, data: st.DataObject) -> None:
        pending = sorted(self.world.waiting)
        if pending:
            self.world.failing[data.draw(st.sampled_from(pending))] = ["no"]

    @precondition(lambda self: hasattr(self, "world"))
    @rule(data=st.data())
    def what_if(self, data: st.DataObject) -> None:
        """Pods are placed on the snapshot and taken off it, as gangs and preemption do, and all of that is undone."""
        snapshot, undos = self.snapshot(), []
        for _ in range(data.draw(st.integers(1, 3))):
            if not snapshot.all_rows:
                return
            row = data.draw(st.integers(0, len(snapshot.all_rows) - 1))
            there = sorted(uid for uid, pod in snapshot.all_rows[row].pods.items() if pod.node_name)
            free = [
                p
                for p in self.world.pods.values()
                if not p.node_name and not any(p.uid in r.pods for r in snapshot.all_rows)
            ]
            is_removal: bool = data.draw(st.booleans())
            if there and is_removal:
                uid = data.draw(st.sampled_from(there))
                undos.append(snapshot.remove(uid, row))
                self.compare(snapshot)
                is_gone: bool = data.draw(st.booleans())
                if is_gone:  # for good, while the what-if goes on
                    self.world.remove(self.world.pods[uid].name)
            elif free:
                undos.append(snapshot.place(data.draw(st.sampled_from(free)), row))
            self.compare(snapshot)
        for undo in reversed(undos):
            undo()

    # What has to hold

    def snapshot(self) -> Snapshot:
        return self.world.engine.state.snapshot()

    @precondition(lambda self: hasattr(self, "world"))
    @invariant()
    def what_is_kept_is_what_is_true(self) -> None:
        self.compare(self.snapshot())

    def compare(self, snapshot: Snapshot) -> None:
        compare(self.world, self.probes, snapshot)


def plugin_of(world: DeviceWorld) -> Any:
    """Return the plugin that the engine asks."""
    return world.engine._core.runtimes["ai-scheduler"].profile.plugins["DynamicResources"]


def compare(world: DeviceWorld, probes: list[Pod], snapshot: Snapshot) -> list[dict[str, int]]:
    """Hold that Filter and Score say what the reference says; return, for each pod, the nodes that can take it, with raw scores."""
    plugin, nodes, answers = plugin_of(world), snapshot.nodes, []
    reference = Reference(plugin, snapshot)
    check_ledger(plugin)
    for pod in probes:
        if plugin._needed(pod).objection:
            continue
        expected = [reference.standing(pod, row) for row in snapshot.all_rows]
        verdicts = plugin.filter_all(CycleState(), pod, nodes)
        found = [verdicts.status_at(row) for row in range(len(snapshot.all_rows))]
        assert [told(each) for each in found] == [told(status) for status, _ in expected], pod.name
        rows = np.array([row for row, each in enumerate(found) if each is None], dtype=np.int64)
        scores = plugin.score_all(CycleState(), pod, nodes.select(rows)).tolist()
        assert scores == [expected[row][1] for row in rows], pod.name
        answers.append(dict(zip(nodes.select(rows).names, scores, strict=True)))
    return answers


def check_ledger(plugin: DynamicResources) -> None:
    """Hold that what is in use is what all claims together have."""
    assumed, rebuilt = plugin._world.assumed, Ledger()
    known = assumed.objects.all(DeviceClaim)
    for key in known:
        claim = assumed.claim(*key)
        if claim is not None and claim.allocation is not None:
            rebuilt.add(claim.allocation.devices)
    made = [hold.given for key, hold in assumed._holds.items() if key not in known and hold.made is not None]
    for given in made:
        rebuilt.add(given.allocation.devices)
    ledger = assumed.ledger
    assert (ledger._exclusive, ledger._shares, ledger._consumed) == (
        rebuilt._exclusive,
        rebuilt._shares,
        rebuilt._consumed,
    )


class BoardsOfKubeDefault(Boards):
    """The same with kube-scheduler's plugins: no devices of victims count, and no links."""

    BASE = "kube-default"


# What seldom happens, step by step


def one_device_each(*nodes: str, count: int = 1) -> tuple[DeviceWorld, Pod]:
    """Return nodes with devices, and a pod that wants one of them and is never let in."""
    world = DeviceWorld([a_node(name).cpu(64) for name in nodes], slices=[node_slice(n, *gpus(count)) for n in nodes])
    world.claim(claim_of("probe"))
    return world, claiming(a_pod("probe").cpu(1)).build()


def open_to(world: DeviceWorld, probe: Pod, snapshot: Snapshot) -> set[str]:
    """Return the nodes that can take a pod, after comparing with the reference."""
    return set(compare(world, [probe], snapshot)[0])


def test_a_claim_that_comes_for_a_pod_in_a_what_if_takes_a_device() -> None:
    """The pod stands there already, and nothing of its row changes: it waits for nothing before its claim is there."""
    world, probe = one_device_each("a", "b")
    snapshot = world.engine.state.snapshot()
    undo = snapshot.place(claiming(a_pod("p").cpu(1)).build(), snapshot.row_of["a"])
    assert open_to(world, probe, snapshot) == {"a", "b"}
    world.claim(claim_of("p"))
    assert open_to(world, probe, snapshot) == {"b"}
    world.delete_claim("p-gpu")
    assert open_to(world, probe, snapshot) == {"a", "b"}
    undo()
    assert open_to(world, probe, snapshot) == {"a", "b"}


def test_a_stale_claim_for_extended_resources_that_goes_makes_its_pod_wait() -> None:
    """While it is there its pod gets no devices, and in a what-if takes none; the pod does not name it."""
    world, probe = one_device_each("a", "b")
    world.tell_class("gpu", EXTENDED)
    stale = shared_claim("stale")
    stale["metadata"]["annotations"] = {EXTENDED_RESOURCE_ANNOTATION: "true"}
    stale["metadata"]["ownerReferences"] = claim_of("p")["metadata"]["ownerReferences"]
    world.claim(stale)
    snapshot = world.engine.state.snapshot()
    undo = snapshot.place(a_pod("p").cpu(1).request(EXTENDED, 1).build(), snapshot.row_of["a"])
    assert open_to(world, probe, snapshot) == {"a", "b"}
    world.delete_claim("stale")
    assert open_to(world, probe, snapshot) == {"b"}
    undo()
    assert open_to(world, probe, snapshot) == {"a", "b"}


def test_a_pod_that_goes_while_it_is_taken_off_in_a_what_if_frees_nothing_any_more() -> None:
    """Its claim keeps the device until somebody takes it back, and nobody is left whose going would free it."""
    world, probe = one_device_each("a")
    world.claim(claim_of("p"))
    world.add(claiming(a_pod("p").cpu(1))).run()
    snapshot = world.engine.state.snapshot()
    assert open_to(world, probe, snapshot) == set()
    snapshot.remove("uid-p", snapshot.row_of["a"])
    assert open_to(world, probe, snapshot) == {"a"}
    world.remove("p")
    assert open_to(world, probe, snapshot) == set()


def test_what_is_told_of_a_machine_counts_at_once() -> None:
    """Of two nodes alike, one is told to have NVLink between its devices; then it is the better one."""
    world, _ = one_device_each("a", "b", count=2)
    world.claim(claim_of("pair", request(count=2)))
    pair, snapshot = claiming(a_pod("pair").cpu(1)).build(), world.engine.state.snapshot()
    (before,) = compare(world, [pair], snapshot)
    assert before["a"] == before["b"]
    gpus_told = [ToldGpu(k, None, ((1 - k, Links(4, 100)),), None, ()) for k in range(2)]
    world.tell(NodeTopology(name="b", machine=ToldMachine(tuple(gpus_told), (), None)))
    (after,) = compare(world, [pair], snapshot)
    assert (after["a"], after["b"] > before["b"]) == (before["a"], True)


_SETTINGS = settings(max_examples=8, stateful_step_count=16, deadline=None, suppress_health_check=list(HealthCheck))
Boards.TestCase.settings = BoardsOfKubeDefault.TestCase.settings = _SETTINGS
TestWhatIsKeptIsWhatIsTrue = Boards.TestCase
TestWhatIsKeptIsWhatIsTrueInKubeDefault = BoardsOfKubeDefault.TestCase
