"""HTTP: a daemon at work while connections drip at its ports. Do probes and cycles suffer?"""

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml

from kaisched.daemon.http_server import Server, listen, probe_page
from kaisched.daemon.loop import Check
from tests.benchmarks.harness import Measured, Watch, expect
from tests.processes import ANY_PORTS, Daemon

_DRIPPING = Path(__file__).with_name("dripping.py")
_PROBE_S = 0.05
_START_S = 60.0


def _objects(nodes: int, pods: int) -> str:
    amounts = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "110"}
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
    # As many jobs as the cluster has GPUs start; the rest, each of its own size, waits.
    containers = [
        [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": f"{at % 50}m"}}}]
        for at in range(pods)
    ]
    return yaml.safe_dump_all(
        [
            *(
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": f"n{at}"},
                    "status": {"allocatable": amounts},
                }
                for at in range(nodes)
            ),
            *({**queue, "metadata": {"name": f"q{at}"}, "spec": {}} for at in range(20)),
            *(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"p{at}",
                        "namespace": "default",
                        "labels": {"kai.scheduler/queue": f"q{at % 20}"},
                    },
                    "spec": {"schedulerName": "kaisched", "containers": containers[at]},
                }
                for at in range(pods)
            ),
        ]
    )


class _Daemon(Daemon):
    """A daemon on a file of objects, with a live view."""

    def __init__(self, folder: Path, nodes: int, pods: int) -> None:
        file = folder / "objects.yaml"
        file.write_text(_objects(nodes, pods), encoding="utf-8")
        words = ("--filename", file, "--schedule-period", "100ms", "--view", "--view-port", "0")
        super().__init__(folder / "log", *words, *ANY_PORTS)

    def wait(self) -> None:
        """Wait for its ports and for three cycles."""
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s and self.process.poll() is None:
            if len(self.cycles()) > 3 and {"/livez", "/api/v1"} <= self.ports().keys():
                return
            time.sleep(0.05)
        expect(False, f"the daemon did not start: {self.log.read_text(encoding='utf-8')[-500:]}")

    def count(self, what: str) -> int:
        """Return how many threads (``task``) or files (``fd``) it has."""
        return len(list((self.proc / what).iterdir()))


def _probe(port: int) -> float:
    """Return how long a probe takes, over a connection of its own as the kubelet's."""
    start_s = time.perf_counter()
    connection = HTTPConnection("127.0.0.1", port, timeout=_START_S)
    try:
        connection.request("GET", "/livez")
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    expect(answer.status == 200, f"the probe failed: {said!r}")
    return time.perf_counter() - start_s


@contextmanager
def _control() -> Iterator[int]:
    """Serve the same page from this process, which does nothing else and which nobody attacks.

    What its probes take is the machine's doing: on a busy one, a process waits for its turn.
    """
    pages = {"/livez": probe_page(lambda: (Check("loop", True, "none"),))}
    server = Server([listen("127.0.0.1", 0, pages, "control")])
    try:
        yield server.port
    finally:
        server.close()


def _spread(probes: list[float], name: str) -> dict[str, float]:
    ordered = sorted(probes)
    return {
        f"{name}_median_s": statistics.median(ordered),
        f"{name}_p99_s": ordered[math.ceil(0.99 * len(ordered)) - 1],
        f"{name}_s": ordered[-1],
    }


@contextmanager
def _running(nodes: int, pods: int) -> Iterator[_Daemon]:
    with tempfile.TemporaryDirectory() as folder:
        daemon = _Daemon(Path(folder), nodes, pods)
        try:
            daemon.wait()
            yield daemon
        finally:
            daemon.end()


def _phase(daemon: _Daemon, control: int, seconds: float) -> dict[str, Any]:
    """Probe for a while, in turns with the control; return what the daemon did meanwhile."""
    done, cpu_s, end_s = len(daemon.cycles()), daemon.cpu_s, time.monotonic() + seconds
    probes, controls, threads, descriptors, livez = [], [], 0, 0, daemon.ports()["/livez"]
    # A part is too short for a cycle where the machine is slow: one of them has to end in it.
    while time.monotonic() < end_s or (
        len(daemon.cycles()) == done and time.monotonic() < end_s + _START_S
    ):
        probes.append(_probe(livez))
        controls.append(_probe(control))
        threads = max(threads, daemon.count("task"))
        descriptors = max(descriptors, daemon.count("fd"))
        time.sleep(_PROBE_S)
    cycles = daemon.cycles()[done:]
    expect(cycles, "no cycle has ended")
    return {
        "probes": len(probes),
        **_spread(probes, "probe"),
        **_spread(controls, "control"),
        "threads": threads,
        "descriptors": descriptors,
        "cycles": len(cycles),
        "cycle_ms": statistics.median(cycles),
        "cycle_worst_ms": max(cycles),
        "cpu_ms_a_cycle": 1000 * (daemon.cpu_s - cpu_s) / len(cycles),
    }


def dripping(
    repeat: int, seconds: float, calm: float, connections: int, nodes: int, pods: int
) -> Measured:
    """Drip at all ports for some seconds, after a calm of some others."""
    del repeat
    watch = Watch()
    with _running(nodes, pods) as daemon, _control() as control:
        before = _phase(daemon, control, calm)
        ports = [str(daemon.ports()[page]) for page in ("/livez", "/metrics", "/api/v1")]
        command = [sys.executable, str(_DRIPPING), str(seconds), str(connections), *ports]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dripping:
            during = watch.time(lambda: _phase(daemon, control, seconds))
            said, _ = dripping.communicate()
        after = _phase(daemon, control, calm)
        refused = [it for it in daemon.events() if it["event"] == "http_clients_refused"]
    came, _ = map(int, said.split())
    expect(came >= 2 * connections, "the connections did not come")
    expect(during["threads"] <= before["threads"], "threads have become more")
    calm_ms = (before["cpu_ms_a_cycle"] + after["cpu_ms_a_cycle"]) / 2
    detail = {
        **{name: during[name] for name in ("probe_s", "probe_median_s", "probe_p99_s")},
        "control_s": during["control_s"],
        # Of parts too short for a cycle there is nothing to compare.
        "cycle_growth": during["cpu_ms_a_cycle"] / calm_ms if calm_ms else 0.0,
        "came": came,
        "log_lines": len(refused),
        "phases": {"before": before, "during": during, "after": after},
    }
    return Measured(watch, detail)
