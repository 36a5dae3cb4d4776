"""The agent as a process: a client, the loop, and an orderly end at SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from scheduler.kube.auth import Login, load_connection
from scheduler.kube.client import Client

from .agent import Agent

if TYPE_CHECKING:
    from .agent import Looking


def main(node_name: str, kubeconfig: str, looking: Looking, period_seconds: float) -> None:
    """Run until a signal comes; ConfigException if there is no way to an API server."""
    login = Login(lambda: load_connection(kubeconfig))
    asyncio.run(_run(login, node_name, looking, period_seconds))


async def _run(login: Login, node_name: str, looking: Looking, period_seconds: float) -> None:
    client = Client(login, user_agent="ai-scheduler-node-agent")
    task = asyncio.create_task(Agent(client, node_name, looking).run(period_seconds))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return
    finally:
        await client.close()
