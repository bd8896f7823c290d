"""The playground: an API server, stand-ins for all that acts in a cluster, and the scheduler."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from kaisched.errors import ConfigError
from kaisched_apiserver import ApiServer
from kaisched_apiserver.controllers import Controllers
from kaisched_apiserver.furnish import (
    DRIVER,
    add_claims,
    add_kai_kinds,
    add_namespace,
    add_nodes,
    add_shard,
    kubeconfig_of,
)
from kaisched_apiserver.kubelets import Kubelets

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_NAMESPACE: Final = "kaisched"
"""Where the scheduler keeps its lease, as where it is deployed."""
_VIEW_PORT: Final = 8083
_RECORDED: Final = {"KAISCHED_SNAPSHOTS__ENABLED": "true", "KAISCHED_SNAPSHOTS__PORT": "0"}
"""The page's what-if works on recordings."""
_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.5


class Size(NamedTuple):
    """How large a playground is, and how fast."""

    nodes: int
    gpus_per_node: int
    start_delay_s: float = 1.0
    has_claims: bool = False
    """Whether a driver offers the GPUs to claims; else a device plugin counts them."""


@contextmanager
def playground(size: Size, *, port: int = 0) -> Iterator[ApiServer]:
    """Serve a furnished cluster without a scheduler.

    Raises:
        ConfigError: the port is taken.

    """
    with ApiServer(port=port) as server:
        add_kai_kinds(server)
        add_namespace(server, _NAMESPACE)
        add_shard(server, has_claims=size.has_claims)
        Controllers(server)
        Kubelets(server, start_delay_s=size.start_delay_s)
        add_nodes(server, size.nodes, size.gpus_per_node, has_claims=size.has_claims)
        if size.has_claims:
            add_claims(server, size.nodes, size.gpus_per_node, can_share=True)
        yield server


def run_playground(size: Size, *, port: int, kubeconfig: Path | None, has_scheduler: bool) -> None:
    """Serve a cluster, and schedule it, until SIGTERM or SIGINT.

    Raises:
        ConfigError: the port is taken or the kubeconfig cannot be written.

    """
    with (
        tempfile.TemporaryDirectory(prefix="kaisched-playground-") as folder,
        _stopped_by_signals() as stopped,
        playground(size, port=port) as server,
    ):
        path = Path(folder) / "kubeconfig" if kubeconfig is None else kubeconfig.absolute()
        _write(path, kubeconfig_of(server.url))
        view_port = _free_port() if has_scheduler else 0
        scheduler = _start_scheduler(path, view_port) if has_scheduler else None
        _tell(server, path, size, view_port)
        try:
            _wait(stopped, scheduler)
        finally:
            _stop(scheduler)
            if kubeconfig is not None:
                path.unlink(missing_ok=True)  # the server it leads to is gone


def _free_port() -> int:
    """Return the usual port of the view, or a free one if somebody has it already."""
    for port in (_VIEW_PORT, 0):
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                sock.bind(("127.0.0.1", port))
                return int(sock.getsockname()[1])
    return 0


def _start_scheduler(kubeconfig: Path, view_port: int) -> subprocess.Popen[bytes]:
    """Start ``kaisched run`` on the cluster of a kubeconfig, with its page.

    It is a process of its own, as it would be in a cluster: it has the other core to itself.
    """
    line = [sys.executable, "-m", "kaisched", "run", "--cluster", "kubernetes"]
    ports = ["--metrics-port", "0", "--health-port", "0", "--view", "--view-port", str(view_port)]
    return subprocess.Popen(  # noqa: S603 - our own program
        [*line, *ports],
        env={**os.environ, "KUBECONFIG": str(kubeconfig), **_RECORDED},
        # Ctrl-C reaches the whole group; the scheduler is to end when it is told to.
        start_new_session=True,
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as wrong:
        raise ConfigError(
            f"cannot be written: {wrong.strerror or wrong}",
            file=str(path),
            path="--kubeconfig",
            fix="name a file in a folder that you may write to",
        ) from wrong


def _tell(server: ApiServer, kubeconfig: Path, size: Size, view_port: int) -> None:
    """Say where everything is; without a port of the view there is no scheduler."""
    scheduler = "none, as you wished; pods stay pending"
    if view_port:
        scheduler = (
            "kaisched, for pods with schedulerName: kaisched\n"
            f"page        http://localhost:{view_port}/"
        )
    offered = f", offered to claims by the driver {DRIVER}" if size.has_claims else ""
    text = (
        f"API server  {server.url}\n"
        f"nodes       {size.nodes} with {size.gpus_per_node} GPUs each{offered}\n"
        f"scheduler   {scheduler}\n"
        f"kubeconfig  {kubeconfig}\n\n"
        f"  export KUBECONFIG={kubeconfig}\n"
        "  kubectl get nodes\n\n"
        "Ctrl-C ends it, and all that is in it."
    )
    print(text, flush=True)  # noqa: T201


def _wait(stopped: threading.Event, scheduler: subprocess.Popen[bytes] | None) -> None:
    """Wait for the end; a scheduler that ends before is told of once."""
    while not stopped.wait(_POLL_S):
        if scheduler is not None and (code := scheduler.poll()) is not None:
            text = (
                f"kaisched: the scheduler has ended with exit code {code}; the API server goes on"
            )
            print(text, file=sys.stderr, flush=True)  # noqa: T201
            scheduler = None


def _stop(scheduler: subprocess.Popen[bytes] | None) -> None:
    if scheduler is None or scheduler.poll() is not None:
        return
    scheduler.terminate()
    try:
        scheduler.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        scheduler.kill()
        scheduler.wait()


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in _SIGNALS}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
