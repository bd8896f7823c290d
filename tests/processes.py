"""``kaisched run`` as a process of its own: starting it, reading what it says, ending it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ANY_PORTS = ("--metrics-port", "0", "--health-port", "0", "--log-format", "json")
_TICKS = os.sysconf("SC_CLK_TCK")


def environment(**variables):
    """Return the environment with these variables, and without other settings of ours."""
    inherited = {key: it for key, it in os.environ.items() if not key.startswith("KAISCHED_")}
    return {**inherited, **variables}


class Daemon:
    """A process, what it writes, and what the system says of it."""

    def __init__(self, log, *words, stderr=None, **variables):
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kaisched", "run", *map(str, words)],
                env=environment(**{"KAISCHED_LOG__LEVEL": "debug", **variables}),
                stdout=out,
                stderr=out if stderr is None else stderr,
            )

    def events(self):
        """Return the lines of a log in JSON that are whole."""
        lines = self.log.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def said(self, event):
        assert self.process.poll() is None, self.log.read_text(encoding="utf-8")[-2000:]
        return any(it["event"] == event for it in self.events())

    def cycles(self):
        """Return how long each cycle took, in milliseconds."""
        return [it["dur_ms"] for it in self.events() if it["event"] == "cycle_completed"]

    def ports(self):
        """Return page to port, of those that are served so far."""
        served = [it for it in self.events() if it["event"] == "listening"]
        return {page: it["port"] for it in served for page in it["pages"]}

    def end(self, patience_s=30.0):
        """End it, also when it was stopped."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    @property
    def cpu_s(self):
        fields = (self.proc / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def peak_mb(self):
        return self._status("VmHWM")

    @property
    def rss_mb(self):
        return self._status("VmRSS")

    def _status(self, name):
        status = (self.proc / "status").read_text(encoding="utf-8")
        return int(status.partition(f"{name}:")[2].split()[0]) / 1024

    @property
    def proc(self):
        """The folder of the system about it."""
        return Path(f"/proc/{self.process.pid}")
