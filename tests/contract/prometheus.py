"""A real Prometheus on loopback, with a past of its own; for tests that are marked ``real``."""

import itertools
import os
import shutil
import socket
import subprocess
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from kaisched.units import MEMORY_UNIT
from tests.waiting import until

BINARIES = ("prometheus", "promtool")
MISSING = [name for name in BINARIES if shutil.which(name) is None]

needs_prometheus = pytest.mark.skipif(
    bool(MISSING), reason=f"{' and '.join(MISSING)} not installed; apt-get install prometheus"
)

ALLOCATED = {
    "cpu": ("kai_queue_allocated_cpu_cores", 1 / 1000),
    "memory": ("kai_queue_allocated_memory_bytes", MEMORY_UNIT),
    "gpu": ("kai_queue_allocated_gpus", 1 / 1000),
}
CAPACITY = {"cpu": "cpu", "memory": "memory", "gpu": "nvidia_com_gpu"}


_ports = itertools.count(20_000 + os.getpid() * 7 % 10_000)


def free_port():
    """A port that nobody is given by chance until it is taken: those lie above 32,767."""
    return next(port for port in _ports if _is_free(port))


def _is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class Prometheus:
    """A server whose data folder outlives it: it can be killed and started again."""

    def __init__(self, folder: Path, scrape: str = ""):
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: 1s}}\nscrape_configs: [{scrape}]\n"
        )

    def backfill(self, lines):
        """Take in OpenMetrics lines, sorted by series."""
        text = self.folder / "past.om"
        text.write_text("\n".join([*lines, "# EOF", ""]))
        subprocess.run(
            [
                "promtool",
                "tsdb",
                "create-blocks-from",
                "--max-block-duration=168h",
                "openmetrics",
                str(text),
                str(self.folder / "data"),
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )
        text.unlink()

    def start(self):
        with (self.folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [
                    "prometheus",
                    f"--config.file={self.folder / 'prometheus.yml'}",
                    f"--storage.tsdb.path={self.folder / 'data'}",
                    "--storage.tsdb.retention.time=60d",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stdout=log,
                stderr=log,
            )
        until(self._is_ready, what=f"a server at {self.url}, see {self.folder / 'log'},")
        return self

    def _is_ready(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=5):
            return True
        return False

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def past_of(samples, cut_at=()):
    """OpenMetrics lines of samples; at the times in ``cut_at`` another exporter takes over."""
    series = {}
    for sample in samples:
        pod = sum(sample.time_s >= at for at in cut_at)
        for row, resource in enumerate(sample.resources):
            metric, unit = ALLOCATED[resource]
            for column, queue in enumerate(sample.queues):
                name = f'{metric}{{queue_name="{queue}",pod="exporter-{pod}"}}'
                amount = sample.allocated[row, column] * unit
                series.setdefault(name, []).append(f"{name} {amount:.17g} {sample.time_s:.3f}")
            name = f'kube_node_status_capacity{{resource="{CAPACITY[resource]}",node="n0"}}'
            amount = sample.capacity[row] * unit
            series.setdefault(name, []).append(f"{name} {amount:.17g} {sample.time_s:.3f}")
    families = {}
    for name, lines in series.items():
        families.setdefault(name.partition("{")[0], []).append(lines)
    for family, parts in sorted(families.items()):
        yield f"# TYPE {family} gauge"
        for lines in parts:
            yield from lines
