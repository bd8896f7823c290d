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
from typing import Any, Final, NamedTuple

import yaml

from kaisched.errors import ConfigError
from kaisched.files import replace_file
from kaisched_apiserver.controllers import Controllers
from kaisched_apiserver.kubelets import AGENT, Kubelets
from kaisched_apiserver.server import ApiServer

# Definitions of KAI-Scheduler's kinds, so that its manifests can be applied.
#
# They take any spec and status: kaisched itself checks what it reads, and says more than a schema
# can.


_ANY: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
# Group, version, plural, kind, short names, whether it is namespaced, columns as title to path.
_KINDS: Final[
    tuple[tuple[str, str, str, str, tuple[str, ...], bool, dict[str, tuple[str, str]]], ...]
] = (
    (
        "scheduling.run.ai",
        "v2",
        "queues",
        "Queue",
        (),
        False,
        {
            "Priority": ("integer", ".spec.priority"),
            "Parent": ("string", ".spec.parentQueue"),
            "DisplayName": ("string", ".spec.displayName"),
        },
    ),
    (
        "scheduling.run.ai",
        "v2alpha2",
        "podgroups",
        "PodGroup",
        ("pg",),
        True,
        {
            "Queue": ("string", ".spec.queue"),
            "MinMember": ("integer", ".spec.minMember"),
            "PriorityClass": ("string", ".spec.priorityClassName"),
        },
    ),
    (
        "kai.scheduler",
        "v1",
        "schedulingshards",
        "SchedulingShard",
        (),
        False,
        {"Partition": ("string", ".spec.partitionLabelValue")},
    ),
    ("kai.scheduler", "v1alpha1", "topologies", "Topology", (), False, {}),
)


def kai_definitions() -> Iterator[dict[str, Any]]:
    """Yield a CustomResourceDefinition for each kind of KAI's that is read here."""
    for group, version, plural, kind, short_names, is_namespaced, columns in _KINDS:
        shown = [
            {"name": title, "type": type_, "jsonPath": path}
            for title, (type_, path) in columns.items()
        ]
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced" if is_namespaced else "Cluster",
                "names": {"plural": plural, "kind": kind, "shortNames": list(short_names)},
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "additionalPrinterColumns": [*shown, _AGE],
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {"spec": _ANY, "status": _ANY},
                            }
                        },
                    }
                ],
            },
        }


# What a cluster to play with starts with: KAI's kinds, nodes with GPUs, and a way in.


DRIVER = "gpu.nvidia.com"
"""The driver of the nodes with claims, and its device class."""
_CARD_MIB = "81920"
_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")


def add_kai_kinds(server: ApiServer) -> None:
    """Serve the kinds of KAI-Scheduler that kaisched reads."""

    def add() -> None:
        for definition in kai_definitions():
            server.api.create(*_DEFINITIONS, definition)

    server.call(add)


def add_namespace(server: ApiServer, name: str) -> None:
    """Add a namespace."""
    server.call(lambda: server.api.create("", "namespaces", {"metadata": {"name": name}}))


def add_nodes(server: ApiServer, count: int, gpus: int, *, has_claims: bool = False) -> None:
    """Add nodes ``gpu-node-1`` and so on, each with 64 CPUs, 512 GiB and so many GPUs.

    With claims (``has_claims``) no device plugin counts the GPUs: see :func:`add_claims`.
    """

    def add() -> None:
        for name in _names(count):
            server.api.create("", "nodes", _node(name, gpus, has_claims=has_claims))

    server.call(add)


def add_shard(server: ApiServer, *, has_claims: bool) -> None:
    """Add the shard: pods may share GPUs, by reservation pods or, where there are claims, by these.

    Reservation pods run in a namespace of their own.
    """
    spec: dict[str, Any] = {"gpuSharing": {"deviceClass": DRIVER}, "resourceClaims": True}
    if not has_claims:
        add_namespace(server, AGENT)
        spec = {"gpuSharing": {"image": "playground/agent"}}
    shard: dict[str, object] = {"metadata": {"name": "default"}, "spec": spec}
    server.call(lambda: server.api.create("kai.scheduler", "schedulingshards", shard))


def add_claims(server: ApiServer, count: int, gpus: int, *, can_share: bool = False) -> None:
    """Let a driver offer the GPUs of the nodes to claims, several of which may have parts of one.

    Without ``can_share`` a GPU belongs to one claim.
    """

    def add() -> None:
        cel = {"expression": f'device.driver == "{DRIVER}"'}
        class_ = {"metadata": {"name": DRIVER}, "spec": {"selectors": [{"cel": cel}]}}
        server.api.create("resource.k8s.io", "deviceclasses", class_)
        for name in _names(count):
            server.api.create(
                "resource.k8s.io", "resourceslices", _slice(name, gpus, can_share=can_share)
            )

    server.call(add)


def _names(count: int) -> list[str]:
    width = len(str(count))
    return [f"gpu-node-{number:0{width}}" for number in range(1, count + 1)]


def _slice(node: str, gpus: int, *, can_share: bool) -> dict[str, Any]:
    memory: dict[str, Any] = {"value": "80Gi"}
    more: dict[str, Any] = {}
    if can_share:  # a claim that says nothing has the whole GPU
        more["allowMultipleAllocations"] = True
        bounds = {"min": "1Mi", "max": "80Gi", "step": "1Mi"}
        memory["requestPolicy"] = {"default": "80Gi", "validRange": bounds}
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-{node}-{number}"},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "resource.kubernetes.io/numaNode": {"int": number * 2 // max(gpus, 1)},
            },
            "capacity": {"memory": memory},
            **more,
        }
        for number in range(gpus)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {
        "metadata": {"name": f"{node}-{DRIVER}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices},
    }


def _node(name: str, gpus: int, *, has_claims: bool) -> dict[str, Any]:
    room = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    if not has_claims:
        room["nvidia.com/gpu"] = str(gpus)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": _CARD_MIB,
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": room, "allocatable": dict(room)},
    }


def kubeconfig_of(url: str, token: str = "") -> str:
    """Return a kubeconfig for a server, as YAML."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "playground", "cluster": {"server": url}}],
        "users": [{"name": "playground", "user": {"token": token} if token else {}}],
        "contexts": [
            {"name": "playground", "context": {"cluster": "playground", "user": "playground"}}
        ],
        "current-context": "playground",
    }
    return yaml.safe_dump(config, sort_keys=False)


# The playground: an API server, stand-ins for all that acts in a cluster, and the scheduler.


_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_NAMESPACE: Final = "kaisched"
"""Where the scheduler keeps its lease, as where it is deployed."""
_VIEW_PORT: Final = 8083
_RECORDED: Final = {"KAISCHED_SNAPSHOTS__ENABLED": "true", "KAISCHED_SNAPSHOTS__PORT": "0"}
"""The page's what-if works on recordings."""
_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.5
_RUN: Final = (
    "from kaisched.parent import end_with; end_with({parent});"
    " from kaisched.cli import main; main()"
)
"""The command line of kaisched, as a process that ends with this one."""


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
    """Serve a cluster, and schedule it, until SIGTERM, SIGINT or SIGHUP.

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
        log = Path(folder) / "scheduler.log"
        scheduler = _start_scheduler(path, view_port, log) if has_scheduler else None
        _print_addresses(server, path, size, view_port, log)
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


def _start_scheduler(kubeconfig: Path, view_port: int, log: Path) -> subprocess.Popen[bytes]:
    """Start ``kaisched run`` on the cluster of a kubeconfig, with its page; it logs to a file.

    It is a process of its own, as it would be in a cluster: it has the other core to itself. It
    ends with the playground, whatever ends that.
    """
    program = _RUN.format(parent=os.getpid())
    line = [sys.executable, "-c", program, "run", "--cluster", "kubernetes"]
    ports = ["--metrics-port", "0", "--health-port", "0", "--view", "--view-port", str(view_port)]
    with log.open("wb") as told:
        return subprocess.Popen(  # noqa: S603 - our own program
            [*line, *ports, "--log-format", "text"],
            env={**os.environ, "KUBECONFIG": str(kubeconfig), **_RECORDED},
            stderr=told,
            # Ctrl-C reaches the whole group; the scheduler is to end when it is told to.
            start_new_session=True,
        )


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode())
    except OSError as wrong:
        raise ConfigError(
            f"cannot be written: {wrong.strerror or wrong}",
            file=str(path),
            path="--kubeconfig",
            fix="name a file in a folder that you may write to",
        ) from wrong


def _print_addresses(
    server: ApiServer, kubeconfig: Path, size: Size, view_port: int, log: Path
) -> None:
    """Say where everything is; without a port of the view there is no scheduler."""
    scheduler = "none, as you wished; pods stay pending"
    page = ""
    if view_port:
        scheduler = f"kaisched, for pods with schedulerName: kaisched\nits log     {log}"
        page = f"page        http://localhost:{view_port}/\n"
    offered = f", offered to claims by the driver {DRIVER}" if size.has_claims else ""
    text = (
        f"API server  {server.url}\n"
        f"nodes       {size.nodes} with {size.gpus_per_node} GPUs each{offered}\n"
        f"scheduler   {scheduler}\n"
        f"kubeconfig  {kubeconfig}\n\n"
        "Ctrl-C ends it, and all that is in it.\n\n"
        f"{page}"
        f"next        export KUBECONFIG={kubeconfig}; kubectl get nodes"
    )
    print(text, flush=True)  # noqa: T201


def _wait(stopped: threading.Event, scheduler: subprocess.Popen[bytes] | None) -> None:
    """Wait for the end; a scheduler that ends before is told of once."""
    while not stopped.wait(_POLL_S):
        if scheduler is not None and (code := scheduler.poll()) is not None:
            text = (
                f"kaisched: the scheduler has ended with exit code {code}; the API server goes on"
            )
            with suppress(OSError):  # the terminal may be gone
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
