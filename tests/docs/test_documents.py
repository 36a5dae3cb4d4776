"""What the documents promise can be done: links lead somewhere, commands and targets exist, YAML loads, and code runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
import yaml
from click.testing import CliRunner

from scheduler import config
from scheduler.cli.main import main
from scheduler.cli.pages import contract, tutorial

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
TUTORIAL = TEXTS[tutorial.PAGE]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: What may stand before the command in a line of a shell.
_PREFIX = re.compile(r"(?:\$ )?(?:\w+=\S* )*(?:\.venv/bin/)?")


def blocks(text: str, *languages: str) -> list[str]:
    """Return the fenced blocks in one of the languages."""
    return [body for language, body in FENCE.findall(text) if language in languages]


def commands(text: str) -> Iterator[str]:
    """Yield the lines of shell blocks, each part of a pipe by itself, and what stands in backquotes."""
    for block in blocks(text, "sh", "bash", "console"):
        for line in block.splitlines():
            for part in re.split(r"\||&&|;", line.partition(" #")[0]):
                yield _PREFIX.sub("", part.strip(), count=1)
    for span in re.findall(r"`([^`]+)`", FENCE.sub("", text)):
        yield _PREFIX.sub("", " ".join(span.split()), count=1)


def slug(heading: str) -> str:
    """Return the anchor that a heading gets."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page."""
    return {slug(heading) for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", path.read_text()), re.MULTILINE)}


def broken_links(page: str) -> list[str]:
    """Return the relative links of a page that lead nowhere."""
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", TEXTS[page]))
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def unknown_parts(line: str) -> list[str]:
    """Return what a call of the command names that does not exist: subcommands and options."""
    command: click.Command = main
    unknown = []
    for word in shlex.split(line)[1:]:
        if word.startswith("-") and word != "-":
            known = {"-h", "--help"} | {name for p in command.params for name in (*p.opts, *p.secondary_opts)}
            unknown += [] if word.partition("=")[0] in known else [word]
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return [*unknown, word]
            command = found
    return unknown


@pytest.mark.parametrize("page", TEXTS)
def test_relative_links_lead_somewhere(page: str) -> None:
    """Files exist, and so do headings."""
    assert broken_links(page) == []


@pytest.mark.parametrize("page", TEXTS)
def test_targets_that_are_named_exist(page: str) -> None:
    """`make X` can be typed."""
    explained = set(re.findall(r"^([a-z0-9]+):.*## \S", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = {line.split()[1] for line in commands(TEXTS[page]) if re.match(r"make [a-z0-9]", line)}
    assert named <= explained


@pytest.mark.parametrize("page", TEXTS)
def test_commands_that_are_named_can_be_called(page: str) -> None:
    """Subcommands and options exist, and the subcommand has help."""
    for line in commands(TEXTS[page]):
        if re.match(r"ai-scheduler( |$)", line):
            assert unknown_parts(line) == [], line
            path = [word for word in shlex.split(line)[1:3] if re.fullmatch(r"[a-z]+", word)]
            assert CliRunner().invoke(main, [*path, "--help"]).exit_code == 0, line


def test_a_call_that_is_wrong_is_noticed() -> None:
    """The check above sees a subcommand and an option that do not exist."""
    assert unknown_parts("ai-scheduler describe pod") == ["describe"]
    assert unknown_parts("ai-scheduler simulate . --nonsense --config=x") == ["--nonsense"]
    assert list(commands("`ai-scheduler  run\n--config X`")) == ["ai-scheduler run --config X"]


@pytest.mark.parametrize("page", TEXTS)
def test_yaml_blocks_load(page: str) -> None:
    """What looks like YAML is YAML, and configurations are configurations."""
    for block in blocks(TEXTS[page], "yaml"):
        for document in yaml.safe_load_all(block):
            assert isinstance(document, dict), block
            if "profiles" in document:
                config.parse(yaml.safe_dump(document))


def test_blocks_of_the_tutorial_are_the_files_that_they_show() -> None:
    """Each block between markers says what its file says, and all example plugins are shown."""
    shown = dict(re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```\n<!-- end -->", TUTORIAL, re.DOTALL))
    assert {path for path, text in shown.items() if text != (ROOT / path).read_text()} == set()
    assert {path.name for path in (ROOT / "examples/plugins").glob("*.py")} <= {Path(path).name for path in shown}


def test_tables_of_the_tutorial_say_what_the_framework_says() -> None:
    """Each table between markers is the one made from docstrings, and all of them are shown."""
    shown = dict(re.findall(r"<!-- table: (\S+) -->\n(.*?)\n<!-- end -->", TUTORIAL, re.DOTALL))
    assert shown == {name: "\n".join(lines()) for name, lines in contract.BLOCKS.items()}


def test_block_is_filled_from_its_file(tmp_path: Path) -> None:
    """Whatever stood between the markers is replaced; the rest stays."""
    (tmp_path / "a.py").write_text("new\n")
    text = "before\n<!-- file: a.py -->\nold\n<!-- end -->\nafter\n"
    filled = "before\n<!-- file: a.py -->\n```python\nnew\n```\n<!-- end -->\nafter\n"
    assert tutorial.filled(text, tmp_path) == filled
    assert tutorial.filled(filled, tmp_path) == filled
