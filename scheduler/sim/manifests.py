"""Reads manifests: folders, files, standard input, several documents in one file, Lists and dumps, YAML or JSON.

For the loader (`defaults`), which makes sense of them.  It stops at mappings with an apiVersion and a kind; whatever is no
such thing becomes a Problem, and all problems of all files are told together.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from scheduler.config.strict_yaml import StrictConstructor, refuse_expansion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with the input: where it stands, which object, which field, and a sentence that says what is allowed."""

    source: str
    text: str
    line: int | None = None
    object: str = ""
    field: str = ""

    def __str__(self) -> str:
        """Return the line that a user reads."""
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return ": ".join(part for part in (place, self.object, self.field, self.text) if part)


class ManifestError(Exception):
    """Input that cannot be used; `problems` lists all that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Document:
    """One object as it was written, and where."""

    source: str
    line: int | None
    body: dict[str, Any]

    @property
    def api_version(self) -> str:
        """The apiVersion; the reader has made sure that there is one."""
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        """The kind; the reader has made sure that there is one."""
        return str(self.body["kind"])

    @property
    def title(self) -> str:
        """Kind, namespace and name, as messages show them."""
        found = self.body.get("metadata")
        meta = found if isinstance(found, dict) else {}
        name = meta.get("name") or (f"{meta['generateName']}*" if meta.get("generateName") else "without a name")
        return f"{self.kind} {meta['namespace']}/{name}" if meta.get("namespace") else f"{self.kind} {name}"

    def problem(self, field: str, text: str) -> Problem:
        """Return a problem of this object."""
        return Problem(self.source, text, self.line, self.title, field)


def read_paths(paths: Sequence[str]) -> tuple[list[Document], list[Problem]]:
    """Return all objects under the paths, in order (folders by file name), and what is wrong with them."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            files = [STDIN] if path == STDIN else _files(Path(path))
        except OSError as error:
            problems.append(
                Problem(path, f"{error.strerror or error}; allowed: a folder, a file, or - for standard input")
            )
            continue
        for name in files:
            try:
                data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
            except OSError as error:
                problems.append(Problem(name, f"cannot be read: {error.strerror or error}"))
                continue
            found, wrong = read_text(data, "standard input" if name == STDIN else name)
            documents += found
            problems += wrong
    if not documents and not problems:
        problems.append(Problem(", ".join(paths), "holds no Kubernetes object; allowed: YAML or JSON manifests"))
    return documents, problems


def _files(path: Path) -> list[str]:
    """Return the files of a path: itself, or all manifests below a folder, sorted."""
    if path.is_dir():
        return [str(file) for file in sorted(path.rglob("*")) if file.suffix in _SUFFIXES and file.is_file()]
    path.stat()
    return [str(path)]


def read_text(data: bytes, source: str) -> tuple[list[Document], list[Problem]]:
    """Return the objects of one file and what is wrong with them."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return [], [Problem(source, f"this is no UTF-8 text (byte {error.start}); allowed: YAML or JSON in UTF-8")]
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _objects([(json.loads(text), 1, [])], source)
        except json.JSONDecodeError as json_error:
            # Braces may also start YAML in flow style, or the first of several documents.
            if "\n---" not in text and '":' in text:
                text_ = f"this is no JSON: {json_error.msg}, column {json_error.colno}"
                return [], [Problem(source, text_, json_error.lineno)]
        except RecursionError:
            return [], [Problem(source, "this is nested too deeply")]
    loaded: list[tuple[Any, int, list[int]]] = []
    problems: list[Problem] = []
    try:
        loaded.extend(_yaml_documents(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", column {mark.column + 1}" if mark else ""
        said = error.problem or error.context or "it cannot be read"
        problems.append(Problem(source, f"this is no YAML: {said}{where}", mark.line + 1 if mark else None))
    except RecursionError:
        problems.append(Problem(source, "this is nested too deeply, or in itself"))
    except (yaml.YAMLError, ValueError) as error:
        problems.append(Problem(source, f"this is no YAML: {' '.join(str(error).split())}"))
    found, wrong = _objects(loaded, source)
    return found, problems + wrong


def _objects(loaded: Sequence[tuple[Any, int, list[int]]], source: str) -> tuple[list[Document], list[Problem]]:
    """Open Lists, and keep what is a mapping with an apiVersion and a kind."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for body, line, item_lines in loaded:
        if body is None:
            continue
        if isinstance(body, list):
            problems.append(Problem(source, "this is a list; allowed: an object, or kind List with items", line))
            continue
        for item, item_line in _items(body, line, item_lines):
            if text := _shape_problem(item):
                problems.append(Problem(source, text, item_line))
            else:
                documents.append(Document(source, item_line, item))
    return documents, problems


def _items(body: Any, line: int, item_lines: list[int]) -> Iterator[tuple[Any, int]]:
    """Yield a body, or the items of a List; items of a typed list (PodList) get the kind that the list leaves out."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(body.get("items", []), list):
        yield body, line
        return
    implied = {} if kind == "List" else {"apiVersion": body.get("apiVersion"), "kind": kind.removesuffix("List")}
    for number, item in enumerate(body.get("items", [])):
        item_line = item_lines[number] if number < len(item_lines) else line
        yield (implied | item if isinstance(item, dict) else item), item_line


def _shape_problem(body: Any) -> str:
    """Return what is wrong with the outermost shape of an object, or nothing."""
    if not isinstance(body, dict):
        return f"this is no Kubernetes object but {_word(body)}; allowed: a mapping with apiVersion, kind and metadata"
    if str(body.get("kind")).endswith("List") and not isinstance(body.get("items", []), list):
        return f"items is {_word(body['items'])}; allowed: a list of objects"
    missing = [key for key in ("apiVersion", "kind") if not body.get(key)]
    if missing:
        meta = body.get("metadata")
        name = meta.get("name") if isinstance(meta, dict) else None
        lack = (
            f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing{f' from {name}' if name else ''}"
        )
        hint = "; a configuration of the scheduler is given with --config" if "profiles" in body else ""
        return f"this is no Kubernetes object: {lack}{hint}"
    wrong = [key for key in ("apiVersion", "kind") if not isinstance(body[key], str)]
    return f"{wrong[0]}: {body[wrong[0]]!r} is {_word(body[wrong[0]])}; allowed: text" if wrong else ""


def _word(value: object) -> str:
    """Return what a value of YAML is, in plain words."""
    words = {
        dict: "a mapping",
        list: "a list",
        str: "plain text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return words.get(type(value), "null")


def _yaml_documents(text: str) -> Iterator[tuple[Any, int, list[int]]]:
    """Yield each document with its line and the lines of its `items`."""
    loader = _Loader(text)
    has_aliases = "&" in text and "*" in text
    try:
        while loader.check_node():
            node = loader.get_node()
            if has_aliases:
                refuse_expansion(node)
            lines = [item.start_mark.line + 1 for item in _item_nodes(node)]
            yield loader.construct_document(node), node.start_mark.line + 1, lines
    finally:
        loader.dispose()


def _item_nodes(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "items" and isinstance(value, yaml.SequenceNode):
                return list(value.value)
    return []


_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(StrictConstructor, _Base):  # type: ignore[misc]
    """YAML as the API server's clients read it: times stay text, as JSON has none; a key that is there twice is an error."""


#: Numbers in base 60 (`12:30:45`) are text to the API server's clients, so they are taken out, like times.
_PLAIN_NUMBERS = {
    "tag:yaml.org,2002:int": re.compile(
        r"^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"
    ),
    "tag:yaml.org,2002:float": re.compile(
        r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, _PLAIN_NUMBERS.get(tag, pattern)) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"
    ]
    for first, resolvers in _Base.yaml_implicit_resolvers.items()
}
