"""The definitions in crds/: what the API server will hold people to, and that the files say what the models say."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.cli import generate
from scheduler.model import api, dialects, node_topology, podgroup_api
from scheduler.model.dialects import own
from scheduler.model.gang import INCOMPLETE_POLICIES
from scheduler.model.podgroup import GROUP, VERSION

ROOT = Path(__file__).parents[2]
DEFINITION = yaml.safe_load((ROOT / "crds/podgroups.scheduling.ai-scheduler.io.yaml").read_text())
(VERSION_SPEC,) = DEFINITION["spec"]["versions"]
SCHEMA = VERSION_SPEC["schema"]["openAPIV3Schema"]


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema in a schema with its path."""
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from schemas(part, f"{path}.{name}")
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")


@pytest.mark.parametrize("path", generate.GENERATED)
def test_generated_file_is_what_the_code_says(path):
    """`make generate` was run."""
    assert (ROOT / path).read_text() == generate.GENERATED[path](), "run `make generate`"


def test_stale_files_are_found_and_named(tmp_path):
    """A missing file and a changed one are stale; an equal one is not."""
    made = {"a/equal": lambda: "1", "a/changed": lambda: "2", "missing": lambda: "3"}
    (tmp_path / "a").mkdir()
    (tmp_path / "a/equal").write_text("1")
    (tmp_path / "a/changed").write_text("1")
    assert generate.stale(tmp_path, made) == {"a/changed": "2", "missing": "3"}


def test_definition_has_the_names_that_people_type():
    """Group, version, plural, short name and category are a promise."""
    spec = DEFINITION["spec"]
    assert DEFINITION["metadata"]["name"] == f"podgroups.{GROUP}"
    assert (spec["group"], VERSION_SPEC["name"], spec["scope"]) == (
        "scheduling.ai-scheduler.io",
        "v1alpha1",
        "Namespaced",
    )
    assert spec["names"] == {
        "kind": "PodGroup",
        "listKind": "PodGroupList",
        "plural": "podgroups",
        "singular": "podgroup",
        "shortNames": ["aipg"],
        "categories": ["ai-scheduler"],
    }
    assert VERSION == "v1alpha1"


def test_group_and_label_are_those_that_the_scheduler_reads():
    """The models and the reader of groups agree."""
    assert dialects.GROUPS["ai-scheduler"] == GROUP
    assert own.GROUP_LABEL in SCHEMA["description"]


def test_status_is_a_subresource():
    """The scheduler's writes and the users' do not meet."""
    assert VERSION_SPEC["subresources"] == {"status": {}}


def rules(schema: dict[str, Any]) -> list[str]:
    """Return the validations of a schema."""
    return [entry["rule"] for entry in schema["x-kubernetes-validations"]]


def test_minimum_is_required_without_roles_and_positive():
    """A group of none makes no sense, and there is no default to be surprised by."""
    spec = SCHEMA["properties"]["spec"]
    assert SCHEMA["required"] == ["spec"]
    assert "required" not in spec
    assert "has(self.minMember) || has(self.roles)" in rules(spec)
    assert spec["properties"]["minMember"]["minimum"] == 1
    assert spec["properties"]["scheduleTimeoutSeconds"]["minimum"] == 1


def test_roles_have_unique_names_and_are_bounded():
    """A map by name; the bound keeps the rules cheap enough for an API server."""
    roles = SCHEMA["properties"]["spec"]["properties"]["roles"]
    assert (roles["x-kubernetes-list-type"], roles["x-kubernetes-list-map-keys"]) == ("map", ["name"])
    assert (roles["minItems"], roles["maxItems"]) == (1, own.MOST_ROLES)
    assert roles["items"]["required"] == ["name"]
    assert roles["items"]["properties"]["minMember"]["minimum"] == 0
    assert len(rules(roles)) == 2


def test_every_list_and_text_in_the_spec_is_bounded():
    """Rules over unbounded fields would be refused as too dear."""
    enums = [(path, part) for path, part in schemas(SCHEMA["properties"]["spec"]) if "enum" not in part]
    assert [path for path, part in enums if part["type"] == "string" and "maxLength" not in part] == []
    assert [path for path, part in enums if part["type"] == "array" and "maxItems" not in part] == []


def test_choices_are_those_that_the_scheduler_reads():
    """The schema and the reader agree, the default first."""
    spec = SCHEMA["properties"]["spec"]["properties"]
    assert tuple(spec["whenIncomplete"]["properties"]["policy"]["enum"]) == INCOMPLETE_POLICIES
    assert tuple(spec["disruptionMode"]["enum"]) == own.DISRUPTION_MODES


def test_schema_and_wire_types_have_the_same_fields():
    """A field that is documented is read, and the other way round; minResources is Coscheduling's."""

    def names(struct: type) -> set[str]:
        return {field.encode_name for field in msgspec.structs.fields(struct)}

    spec = SCHEMA["properties"]["spec"]["properties"]
    assert set(spec) == names(api.PodGroupSpec) - {"minResources"}
    assert set(spec["roles"]["items"]["properties"]) == names(podgroup_api.Role)
    assert set(spec["topology"]["properties"]) == names(podgroup_api.TopologyWish)
    assert set(spec["topology"]["properties"]["segment"]["properties"]) == names(podgroup_api.Segment)
    assert set(spec["whenIncomplete"]["properties"]) == names(podgroup_api.WhenIncomplete)


def test_name_fits_into_a_label():
    """A name that no pod could carry in its label is refused at once."""
    (rule,) = SCHEMA["x-kubernetes-validations"]
    assert rule["rule"] == "size(self.metadata.name) <= 63"
    assert "63" in rule["message"]


def test_conditions_are_a_map_by_type_with_observed_generation():
    """Writers of different conditions do not overwrite each other, and readers see which spec they speak of."""
    conditions = SCHEMA["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    item = conditions["items"]
    assert item["required"] == ["type", "status", "reason", "lastTransitionTime"]
    assert item["properties"]["observedGeneration"] == {
        "description": item["properties"]["observedGeneration"]["description"],
        "type": "integer",
        "format": "int64",
        "minimum": 0,
    }


def test_schema_is_structural():
    """The API server takes types and no references, alternatives or nulls."""
    for path, schema in schemas(SCHEMA):
        assert isinstance(schema.get("type"), str), path
        assert not {"$ref", "anyOf", "$defs", "title", "additionalProperties"} & schema.keys(), path


def test_every_field_is_described():
    """`kubectl explain` has something to say."""
    ours = [path for path, schema in schemas(SCHEMA) if "description" not in schema]
    assert ours == [".apiVersion", ".kind", ".metadata"]


def test_columns_show_what_exists():
    """A column with a wrong path would be empty for ever, in silence."""
    known = {path for path, _ in schemas(SCHEMA)} | {".metadata.creationTimestamp"}
    columns = {column["name"]: column for column in VERSION_SPEC["additionalPrinterColumns"]}
    paths = [column["jsonPath"].replace('[?(@.type=="Scheduled")]', "[]") for column in columns.values()]
    assert [path for path in paths if path not in known] == []
    narrow = [name for name, column in columns.items() if not column.get("priority")]
    assert narrow == ["Min", "Phase", "Bound", "Running", "Age"]


def test_kustomization_lists_every_definition():
    """`kubectl apply -k crds` installs all of them."""
    files = {path.name for path in (ROOT / "crds").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(yaml.safe_load((ROOT / "crds/kustomization.yaml").read_text())["resources"]) == files


TOPOLOGY = yaml.safe_load((ROOT / "crds/topologies.scheduling.ai-scheduler.io.yaml").read_text())
(TOPOLOGY_VERSION,) = TOPOLOGY["spec"]["versions"]
TOPOLOGY_SCHEMA = TOPOLOGY_VERSION["schema"]["openAPIV3Schema"]
LEVELS = TOPOLOGY_SCHEMA["properties"]["spec"]["properties"]["levels"]


def test_topology_is_cluster_scoped_and_has_a_short_name():
    """One network serves all namespaces; `topo` is taken by others."""
    assert TOPOLOGY["metadata"]["name"] == f"topologies.{GROUP}"
    assert TOPOLOGY["spec"]["scope"] == "Cluster"
    assert TOPOLOGY["spec"]["names"]["shortNames"] == ["aitopo"]
    assert TOPOLOGY_VERSION["subresources"] == {"status": {}}


def test_topology_has_one_to_sixteen_levels_with_name_and_label():
    """As Kueue's and KAI's have."""
    assert (LEVELS["minItems"], LEVELS["maxItems"]) == (1, 16)
    assert LEVELS["items"]["required"] == ["name", "nodeLabel"]
    assert LEVELS["x-kubernetes-list-type"] == "atomic"


def test_names_and_labels_of_levels_are_unique():
    """By rules in CEL, with a sentence each; and nothing stands below a node."""
    rules = {rule["rule"]: rule["message"] for rule in LEVELS["x-kubernetes-validations"]}
    assert "self.all(x, self.exists_one(y, y.name == x.name))" in rules
    assert "self.all(x, self.exists_one(y, y.nodeLabel == x.nodeLabel))" in rules
    assert any("kubernetes.io/hostname" in rule for rule in rules)
    assert all(rules.values())


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("name", ["rack", "tier-0", "a"], ["Rack", "-a", "a b", ""]),
        ("nodeLabel", ["zone", "a.example.com/Rack_1", "kubernetes.io/hostname"], ["a/b/c", "/x", "x/", "é", "a b"]),
    ],
)  # fmt: skip
def test_words_and_label_keys_are_told_from_others(field, good, bad):
    """By the patterns of the schema."""
    pattern = LEVELS["items"]["properties"][field]["pattern"]
    assert [word for word in good if not re.search(pattern, word)] == []
    assert [word for word in bad if re.search(pattern, word)] == []


def test_schema_of_topology_is_structural_and_described():
    """Types everywhere, and words for `kubectl explain`."""
    for path, schema in schemas(TOPOLOGY_SCHEMA):
        assert isinstance(schema.get("type"), str), path
        assert not {"$ref", "anyOf", "$defs", "title", "additionalProperties"} & schema.keys(), path
    bare = [path for path, schema in schemas(TOPOLOGY_SCHEMA) if "description" not in schema]
    assert bare == [".apiVersion", ".kind", ".metadata"]


def test_columns_of_topology_show_what_exists():
    """A column with a wrong path would be empty for ever, in silence."""
    known = {path for path, _ in schemas(TOPOLOGY_SCHEMA)} | {".metadata.creationTimestamp"}
    paths = [column["jsonPath"] for column in TOPOLOGY_VERSION["additionalPrinterColumns"]]
    plain = [re.sub(r"\[[^]]*\]", "[]", path.replace('[?(@.type=="Usable")]', "[]")) for path in paths]
    assert [path for path in plain if path not in known] == []


NODE_TOPOLOGY = yaml.safe_load((ROOT / "crds/nodetopologies.scheduling.ai-scheduler.io.yaml").read_text())
(NODE_TOPOLOGY_VERSION,) = NODE_TOPOLOGY["spec"]["versions"]
NODE_TOPOLOGY_SCHEMA = NODE_TOPOLOGY_VERSION["schema"]["openAPIV3Schema"]


def test_node_topology_is_cluster_scoped_like_the_node_that_it_is_named_after():
    """And has a status of its own, which the agent writes with each pod."""
    assert NODE_TOPOLOGY["metadata"]["name"] == f"nodetopologies.{GROUP}"
    assert NODE_TOPOLOGY["spec"]["scope"] == "Cluster"
    assert NODE_TOPOLOGY["spec"]["names"]["shortNames"] == ["aintopo"]
    assert NODE_TOPOLOGY_VERSION["subresources"] == {"status": {}}


def test_schema_of_node_topology_is_structural_and_described():
    """Types everywhere, and words for `kubectl explain`."""
    for path, schema in schemas(NODE_TOPOLOGY_SCHEMA):
        assert isinstance(schema.get("type"), str), path
        assert not {"$ref", "anyOf", "$defs", "title", "additionalProperties"} & schema.keys(), path
        assert not {"exclusiveMaximum", "exclusiveMinimum"} & schema.keys(), (
            f"{path}: the API server has them as booleans"
        )
    bare = [path for path, schema in schemas(NODE_TOPOLOGY_SCHEMA) if "description" not in schema]
    assert bare == [".apiVersion", ".kind", ".metadata"]


def test_reader_of_node_topology_knows_the_fields_of_the_definition():
    """What the definition has and the reader lacks would be lost in silence; these are for people only."""

    def names(struct: type) -> set[str]:
        return {field.encode_name for field in msgspec.structs.fields(struct)}

    spec, status = (NODE_TOPOLOGY_SCHEMA["properties"][part]["properties"] for part in ("spec", "status"))
    assert set(spec) == names(node_topology.ApiMachine)
    assert set(spec["gpus"]["items"]["properties"]) == names(node_topology.ApiGpu)
    assert set(spec["gpus"]["items"]["properties"]["nvlinkPeers"]["items"]["properties"]) == names(
        node_topology.ApiPeer
    )
    assert set(spec["nics"]["items"]["properties"]) == names(node_topology.ApiNic)
    assert set(status) - {"conditions"} == names(node_topology.ApiReport)
    assert set(status["allocations"]["items"]["properties"]) == names(node_topology.ApiHolder)


def test_columns_of_node_topology_show_what_exists():
    """A column with a wrong path would be empty for ever, in silence."""
    known = {path for path, _ in schemas(NODE_TOPOLOGY_SCHEMA)} | {".metadata.creationTimestamp"}
    paths = [column["jsonPath"] for column in NODE_TOPOLOGY_VERSION["additionalPrinterColumns"]]
    plain = [re.sub(r"\[[^]]*\]", "[]", path.replace('[?(@.type=="Ready")]', "[]")) for path in paths]
    assert [path for path in plain if path not in known] == []


QUEUE = yaml.safe_load((ROOT / "crds/queues.scheduling.ai-scheduler.io.yaml").read_text())
(QUEUE_VERSION,) = QUEUE["spec"]["versions"]
QUEUE_SCHEMA = QUEUE_VERSION["schema"]["openAPIV3Schema"]
RESOURCE = QUEUE_SCHEMA["properties"]["spec"]["properties"]["resources"]["items"]


def test_queue_is_cluster_scoped_and_has_a_status_of_its_own():
    """Queues are for all namespaces; `queue` and `q` are taken by others."""
    assert QUEUE["metadata"]["name"] == f"queues.{GROUP}"
    assert QUEUE["spec"]["scope"] == "Cluster"
    assert QUEUE["spec"]["names"]["shortNames"] == ["aiq"]
    assert QUEUE_VERSION["subresources"] == {"status": {}}


@pytest.mark.parametrize("amount", ["guaranteed", "limit"])
def test_amounts_of_queues_are_quantities_that_are_not_negative(amount):
    """Written as numbers or as text, as everywhere in Kubernetes."""
    schema = RESOURCE["properties"][amount]
    assert schema["x-kubernetes-int-or-string"] is True
    assert "type" not in schema
    assert schema["minimum"] == 0
    good, bad = ["8", "1500m", "1.5Gi", ".5", "1e3", "+2"], ["-1", "many", "", "1 Gi", "0x10", "1Kib"]
    assert [text for text in good if not re.search(schema["pattern"], text)] == []
    assert [text for text in bad if re.search(schema["pattern"], text)] == []


def test_schema_of_queue_is_structural_and_described():
    """Types everywhere but where text and numbers are both right, and words for `kubectl explain`."""
    for path, schema in schemas(QUEUE_SCHEMA):
        assert isinstance(schema.get("type"), str) or schema.get("x-kubernetes-int-or-string"), path
        assert not {"$ref", "anyOf", "$defs", "title"} & schema.keys(), path
    bare = [path for path, schema in schemas(QUEUE_SCHEMA) if "description" not in schema]
    assert bare == [".apiVersion", ".kind", ".metadata"]


def test_columns_of_queue_show_what_exists():
    """A column with a wrong path would be empty for ever, in silence."""
    known = {path for path, _ in schemas(QUEUE_SCHEMA)} | {".metadata.creationTimestamp"}
    paths = [column["jsonPath"] for column in QUEUE_VERSION["additionalPrinterColumns"]]
    plain = [re.sub(r"\[\?\(.*?\)\]", "[]", path) for path in paths]
    assert [path for path in plain if path not in known] == []
