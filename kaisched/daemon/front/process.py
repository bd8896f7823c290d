"""Main function of the front process: serves until the parent is gone."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import signal
import socket
import sys
from typing import Any, Final

from kaisched.daemon.front.channel import Channel
from kaisched.daemon.front.listener import Listener

_SPARE_DESCRIPTORS: Final = 64
_LONGEST_FAULT: Final = 200


def main() -> None:
    """Serve according to the last argument, which is JSON."""
    settings = json.loads(sys.argv[-1])
    # A terminal sends its signals to this process too; only the parent ends it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Faults are counted and reported through the channel. The parent reads standard error only at
    # the end, and a full pipe would block us.
    logging.disable(logging.CRITICAL)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings["limits"]["connections"] + _SPARE_DESCRIPTORS
    if most != resource.RLIM_INFINITY:
        wanted = min(wanted, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    asyncio.run(_run(settings))


async def _run(settings: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    sockets = [socket.socket(fileno=settings[name]) for name in ("channel", "listening")]
    for sock in sockets:
        sock.setblocking(False)
    channel = Channel(settings["limits"]["asked"])
    await loop.connect_accepted_socket(lambda: channel, sockets[0])
    listener = Listener(loop, sockets[1], channel, settings)

    def count(_: object, context: dict[str, Any]) -> None:
        fault = f"fault: {context.get('exception') or context['message']}"
        listener.refused[fault[:_LONGEST_FAULT]] += 1

    loop.set_exception_handler(count)
    await asyncio.Event().wait()
