"""The replicas: ``kaisched run`` as processes, started again when they end, and their logs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.deploy.manifests import KUSTOMIZE

SETTINGS = KUSTOMIZE / "base" / "kaisched.yaml"
AGAIN_S = 2.0
"""How soon a process that ended is started again."""
_TOLD = frozenset({"action_failed", "plugin_failed", "news_left_out", "write_failed"})


@dataclass(slots=True)
class Life:
    """One process from its start to its end."""

    replica: int
    number: int
    process: object
    log: Path
    begun_s: float
    state: Path
    ended_s: float = 0.0
    why: str = ""
    """What was done to it, if it was ended by us."""
    port: int = 0
    read: int = 0
    samples: list = field(default_factory=list)

    @property
    def name(self):
        return f"replica-{self.replica}-{self.number}"

    @property
    def is_alive(self):
        return self.process.poll() is None


class Replicas:
    """Two replicas on a cluster, and what their logs say."""

    def __init__(self, kubeconfig, folder, end, count=2):
        self.lives, self.count = [], count
        self.evicted = {}
        """Pod to (action, beneficiary), as the log told."""
        self.recent = []
        """(when, pod, action, beneficiary) of evictions, the latest last."""
        self.losses = []
        """(when, life, why) of leases that were lost."""
        self.lines = Counter()
        self.bad = []
        """Lines of the logs that no fault excuses."""
        self._kubeconfig, self._folder, self._end = kubeconfig, folder, end
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="replicas", daemon=True)

    def start(self):
        for replica in range(self.count):
            self._start(replica)
        self._thread.start()

    def _start(self, replica):
        number = 1 + sum(it.replica == replica for it in self.lives)
        state = self._folder / f"state-{replica}"
        state.mkdir(exist_ok=True)
        log = self._folder / f"replica-{replica}-{number}.log"
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("KAISCHED_")},
            "KUBECONFIG": "",
            "KAISCHED_KUBERNETES__KUBECONFIG": str(self._kubeconfig),
            "KAISCHED_LEADER_ELECTION__IDENTITY": f"replica-{replica}-{number}",
            # What is shipped listens on all interfaces; a test stays on the loopback.
            "KAISCHED_METRICS__BIND_ADDRESS": "127.0.0.1",
            "KAISCHED_METRICS__PORT": "0",
            "KAISCHED_HEALTH__BIND_ADDRESS": "127.0.0.1",
            "KAISCHED_HEALTH__PORT": "0",
            "XDG_STATE_HOME": str(state),
        }
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "kaisched", "run", "--config", str(SETTINGS)],
                env=environment, stdout=out, stderr=out,
            )  # fmt: skip
        self.lives.append(Life(replica, number, process, log, time.monotonic(), state))

    def stop(self):
        self._thread.join(10)
        for life in self.alive():
            life.process.send_signal(signal.SIGCONT)
            life.process.terminate()
        for life in self.alive():
            try:
                life.process.wait(20)
            except subprocess.TimeoutExpired:
                life.process.kill()
                life.process.wait()
        self._read_all()

    def alive(self):
        return [it for it in self.lives if it.is_alive]

    def named(self, holder):
        """Return the living process that holds the lease, or None."""
        return next((it for it in self.alive() if it.name == holder), None)

    def who_for(self, pod):
        return self.evicted.get(pod)

    # -- watching over them ----------------------------------------------------------------------

    def _run(self):
        while not self._end.wait(0.5):
            self._read_all()
            now_s = time.monotonic()
            for replica in range(self.count):
                life = [it for it in self.lives if it.replica == replica][-1]
                if life.is_alive:
                    continue
                if not life.ended_s:
                    life.ended_s = now_s
                elif now_s - life.ended_s >= AGAIN_S:
                    self._start(replica)

    def _read_all(self):
        with self._lock:
            for life in self.lives:
                with life.log.open("rb") as file:
                    file.seek(life.read)
                    text = file.read()
                whole = text.rpartition(b"\n")[0]
                if whole:
                    life.read += len(whole) + 1
                    for line in whole.split(b"\n"):
                        self._line(life, line)

    def _line(self, life, text):
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            self._note_bad(life, text.decode("utf-8", "replace"))
            return
        event, now_s = line.get("event", ""), time.monotonic()
        self.lines[event] += 1
        if event == "listening" and "/metrics" in line.get("pages", ()):
            life.port = int(line["port"])
        elif event == "pod_evicted":
            told = line["action"], line["beneficiary"]
            self.evicted[line["pod"]] = told
            self.recent = [*self.recent[-50:], (now_s, line["pod"], *told)]
        elif event == "lease_lost":
            self.losses.append((now_s, life, line.get("why", "")))
        elif event in _TOLD or "exception" in line:
            self._note_bad(life, json.dumps(line)[:1500])

    def _note_bad(self, life, text):
        if len(self.bad) < 200:
            self.bad.append((time.monotonic(), life.name, text))
