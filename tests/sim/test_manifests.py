"""Reading manifests: all forms in which users have them, and all problems at once."""

import io
import json
from pathlib import Path

import pytest

from scheduler.sim.manifests import read_paths, read_text

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"


def names(documents) -> list[str]:
    """Return the names of objects."""
    return [document.body["metadata"]["name"] for document in documents]


#: Eleven lines that stand for ten thousand million values.
BOMB = "apiVersion: v1\nkind: Pod\nk: &k0 [1]\n" + "".join(
    f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 10)}]\n" for i in range(1, 11)
)


def test_a_folder_is_read_by_file_name_and_below(tmp_path: Path) -> None:
    """All manifests under a folder are found, in the order of their names; other files are not touched."""
    (tmp_path / "b.yml").write_text(POD % "second")
    (tmp_path / "a.yaml").write_text(POD % "first")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "d.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "third"}})
    )
    (tmp_path / "notes.txt").write_text("not: [a manifest")
    documents, problems = read_paths([str(tmp_path)])
    assert names(documents) == ["first", "second", "third"]
    assert problems == []


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path - stands for standard input."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((POD % "piped").encode())))
    documents, problems = read_paths(["-"])
    assert names(documents) == ["piped"]
    assert problems == []


def test_several_documents_know_their_lines() -> None:
    """Each document of a file knows its line; empty ones do not count."""
    text = f"# a comment\n---\n{POD % 'a'}---\n---\n# nothing\n---\n{POD % 'b'}"
    documents, problems = read_text(text.encode(), "f.yaml")
    assert [(d.body["metadata"]["name"], d.line) for d in documents] == [("a", 3), ("b", 10)]
    assert problems == []


@pytest.mark.parametrize("as_json", [True, False])
def test_lists_are_opened(as_json: bool) -> None:
    """A List, as `kubectl get -o yaml` or `-o json` prints it, counts as its items."""
    items = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}} for name in ("a", "b")]
    listed = {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}
    text = json.dumps(listed, indent=2) if as_json else json.dumps(listed).replace('"', "'")
    documents, problems = read_text(text.encode(), "f")
    assert names(documents) == ["a", "b"]
    assert problems == []


def test_items_of_a_typed_list_have_its_kind() -> None:
    """The items of a PodList, as the API server sends it, say neither kind nor apiVersion."""
    documents, _ = read_text(b'{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "a"}}]}', "f")
    assert [(d.kind, d.api_version) for d in documents] == [("Pod", "v1")]


def test_times_and_clock_like_numbers_stay_text() -> None:
    """What YAML takes for times, or for numbers in base 60, is text to the API server."""
    text = "apiVersion: v1\nkind: Pod\nmetadata: {creationTimestamp: 2026-01-01T00:00:00Z, annotations: {at: 12:30:45}}"
    documents, _ = read_text(text.encode(), "f")
    meta = documents[0].body["metadata"]
    assert (meta["creationTimestamp"], meta["annotations"]["at"]) == ("2026-01-01T00:00:00Z", "12:30:45")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a: 1\nb: [\n", "f.yaml:3: this is no YAML"),
        (b"a:\n\tb: 1\n", "f.yaml:2: this is no YAML"),
        (b"a: 1\na: 2\n", "f.yaml:2: this is no YAML: the key 'a' is there twice"),
        (b'{"apiVersion": "v1",}', "f.yaml:1: this is no JSON"),
        (b"- kind: Pod\n", "f.yaml:1: this is a list"),
        (b"just words\n", "f.yaml:1: this is no Kubernetes object but plain text; allowed: a mapping"),
        (b"kind: Pod\nmetadata: {name: x}\n", "f.yaml:1: this is no Kubernetes object: apiVersion is missing from x"),
        (b"apiVersion: v1\nmetadata: {name: x}\n", "f.yaml:1: this is no Kubernetes object: kind is missing"),
        (b"apiVersion: 1\nkind: Pod\n", "f.yaml:1: apiVersion: 1 is a number; allowed: text"),
        (b"\xff\xfe\x00", "f.yaml: this is no UTF-8 text"),
        (b"apiVersion: v1\nkind: List\nitems: [1]\n", "f.yaml:3: this is no Kubernetes object but a number"),
        (b"apiVersion: v1\nkind: List\nitems: {}\n", "f.yaml:1: items is "),
        (b"apiVersion: v1\nkind: Pod\nspec: &a {foo: *a}\n", "f.yaml: this is nested too deeply, or in itself"),
        (BOMB.encode(), "f.yaml:1: this is no YAML: its aliases stand for more than 100,000 values"),
        (b"a: 1" + b"0" * 5000 + b"\n", "f.yaml:1: this is no YAML: the value is no int"),
        (b"a: !!python/object:os.system {}\n", "f.yaml:1: this is no YAML"),
    ],
)
def test_what_is_no_manifest_is_told_with_its_line(text: bytes, expected: str) -> None:
    """Every malformed file is told with its name, its line, and what is allowed."""
    documents, problems = read_text(text, "f.yaml")
    assert documents == []
    assert len(problems) == 1
    assert str(problems[0]).startswith(expected)


def test_a_broken_document_does_not_hide_the_ones_before_it() -> None:
    """Objects that were read before a syntax error are still checked, so that all problems come at once."""
    documents, problems = read_text((POD % "a" + "---\na: [").encode(), "f")
    assert names(documents) == ["a"]
    assert len(problems) == 1


@pytest.mark.parametrize("path", ["", "no-such-file.yaml"])
def test_a_path_that_does_not_exist_or_holds_nothing_is_a_problem(tmp_path: Path, path: str) -> None:
    """An empty folder and a missing file are problems, not an empty simulation."""
    documents, problems = read_paths([str(tmp_path / path)])
    assert documents == []
    assert len(problems) == 1
    assert str(tmp_path) in str(problems[0])


def test_deep_nesting_is_a_problem_and_no_crash() -> None:
    """Nesting beyond reason is told as a problem."""
    for text in (b"[" * 100_000, b'{"a":' * 100_000):
        documents, problems = read_text(text, "f")
        assert documents == []
        assert len(problems) == 1
