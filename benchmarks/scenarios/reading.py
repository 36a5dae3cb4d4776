"""Reads scenario files: one JSON object a line.

For the command.  All problems of all lines are told together, each with file, line, field and what is allowed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from scheduler.config import Problem, problems_of

from .checking import problems_of_scenario
from .form import Scenario

if TYPE_CHECKING:
    from pathlib import Path


class ScenarioError(Exception):
    """What is wrong with a file, one line each."""

    def __init__(self, lines: list[str]) -> None:
        """Keep the lines."""
        super().__init__("\n".join(lines))
        self.lines = lines


def read_scenarios(path: Path) -> list[Scenario]:
    """Return the scenarios of a file in its order; ScenarioError with everything that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError([f"{path}: cannot be read: {error}"]) from error
    problems: list[str] = []
    scenarios: list[Scenario] = []
    lines_by_id: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        found = _scenario(line)
        if isinstance(found, Scenario):
            former = lines_by_id.setdefault(found.id, number)
            if former == number:
                scenarios.append(found)
                continue
            found = [Problem("id", f"{found.id!r} stands on line {former} already; allowed: each id once")]
        problems += [f"{path}:{number}: {problem}" for problem in found]
    if not scenarios and not problems:
        problems = [f"{path}: it is empty; allowed: one scenario a line"]
    if problems:
        raise ScenarioError(problems)
    return scenarios


def _scenario(line: str) -> Scenario | list[Problem]:
    """Return the scenario of a line, or what is wrong with it."""
    try:
        scenario = Scenario.model_validate(json.loads(line, object_pairs_hook=_object, parse_constant=_constant))
    except ValidationError as error:
        return problems_of(error, Scenario)
    except (ValueError, RecursionError) as error:
        return [Problem("", f"no JSON: {error}; allowed: one JSON object a line")]
    return problems_of_scenario(scenario) or scenario


def _constant(name: str) -> float:
    """Refuse what Python takes for JSON and nobody else does."""
    raise ValueError(f"{name} is no number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; ValueError for a key that stands twice, of which JSON would silently keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return found
