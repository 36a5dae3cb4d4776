"""The definitions in crds/: what the API server will hold people to, and that the files say what the models say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.cli import generate
from scheduler.model import dialects
from scheduler.model.dialects import own
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


def test_minimum_is_required_and_positive():
    """A group of none makes no sense, and there is no default to be surprised by."""
    spec = SCHEMA["properties"]["spec"]
    assert SCHEMA["required"] == ["spec"]
    assert spec["required"] == ["minMember"]
    assert spec["properties"]["minMember"]["minimum"] == 1
    assert spec["properties"]["scheduleTimeoutSeconds"]["minimum"] == 1


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
