"""A Dockerfile as a list of instructions: as much of the format as ours uses."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Instruction:
    """One instruction with its flags (`--from=build`) apart."""

    name: str
    value: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """One FROM and what follows it."""

    image: str
    name: str
    instructions: tuple[Instruction, ...]

    def all(self, name: str) -> list[Instruction]:
        """Return all instructions of a name."""
        return [instruction for instruction in self.instructions if instruction.name == name]


def read(path: Path) -> list[Stage]:
    """Return the stages of a Dockerfile, with ARGs before the first FROM filled in."""
    arguments: dict[str, str] = {}
    stages: list[tuple[str, list[Instruction]]] = []
    for instruction in _instructions(path.read_text()):
        if instruction.name == "FROM":
            stages.append((instruction.value, []))
        elif stages:
            stages[-1][1].append(instruction)
        else:
            key, _, value = instruction.value.partition("=")
            arguments[f"${{{key}}}"] = value
    result = []
    for value, instructions in stages:
        image, _, name = value.partition(" AS ")
        result.append(Stage(arguments.get(image, image), name, tuple(instructions)))
    return result


def _instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    found = []
    for line in joined:
        name, *words = line.split()
        flags = [word for word in words if word.startswith("--")] if name == "COPY" else []
        found.append(Instruction(name, " ".join(word for word in words if word not in flags), tuple(flags)))
    return found
