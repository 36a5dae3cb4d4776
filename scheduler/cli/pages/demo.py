"""docs/demo.svg: what `make demo` shows, as a picture."""

from __future__ import annotations

from pathlib import Path

from scheduler.config import SchedulerConfiguration
from scheduler.sim.loading import load_world
from scheduler.sim.picture import picture_of
from scheduler.sim.run import simulation_of

DEMO = Path(__file__).resolve().parents[3] / "examples" / "demo"


def demo_picture() -> str:
    """Return the picture of the demo, simulated now."""
    simulation = simulation_of(load_world([str(DEMO)]), SchedulerConfiguration())
    while simulation.advance():
        pass
    return picture_of(simulation.outcome())
