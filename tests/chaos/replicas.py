"""The replicas: ``kaisched run`` as processes, started again when they end, and their logs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.chaos.facts import job_of
from tests.deploy.manifests import KUSTOMIZE
from tests.processes import environment

SHIPPED = KUSTOMIZE / "base" / "kaisched.yaml"
AGAIN_S = 2.0
"""How soon a process that ended is started again."""
_TOLD = frozenset(
    {"action_failed", "plugin_failed", "news_left_out", "write_failed", "report_refused"}
)


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
    has_led: bool = False
    port: int = 0
    read: int = 0
    """So much of its log has been read, in bytes."""
    is_read: bool = False
    """Whether all of it has been, since it is over."""
    samples: list = field(default_factory=list)

    @property
    def name(self):
        return f"replica-{self.replica}-{self.number}"

    @property
    def is_alive(self):
        return self.process.poll() is None

    def signal(self, number):
        """Send a signal to all of it, as to a container."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def _last_line(life):
    text = life.log.read_text(encoding="utf-8", errors="replace")
    return text.strip().rpartition("\n")[2]


def _settings_in(folder, kubeconfig):
    """Write the shipped settings; only on the loopback, where they listen on all interfaces."""
    settings = yaml.safe_load(SHIPPED.read_text(encoding="utf-8"))
    for name in ("metrics", "health"):
        settings[name] = {"bindAddress": "127.0.0.1", "port": 0}
    settings["kubernetes"] = {
        **settings.get("kubernetes", {}),
        "kubeconfig": str(kubeconfig),
        "namespace": "kaisched",
    }
    file = folder / "kaisched.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


class Replicas:
    """Two replicas on a cluster, and what their logs say."""

    def __init__(self, kubeconfig, folder, end, count=2):
        self.lives, self.count = [], count
        self.moving = set()
        """Evicted pods in whose plan some get another node."""
        self.evicted = {}
        """Pod to (action, beneficiary), as the log told; of a job without a pod group, its pod."""
        self.recent = []
        """(when, pod, action, beneficiary) of evictions, the latest last."""
        self.ends = []
        """(when, life, last words) of processes that ended while nothing was done to them."""
        self.lines = Counter()
        self.more = dict
        """Gives more of the environment of a process that is about to start."""
        self.bad = {}
        """(life, sort) to the number of lines that no fault excuses, the first and the last."""
        self._settings = _settings_in(folder, kubeconfig)
        self._folder, self._end = folder, end
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
        told = environment(
            KAISCHED_LEADER_ELECTION__IDENTITY=f"replica-{replica}-{number}",
            XDG_STATE_HOME=str(state),
            KAISCHED_LOG__LEVEL="debug",
            **self.more(),
        )
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "kaisched", "run", "--config", str(self._settings)],
                env=told,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.lives.append(Life(replica, number, process, log, time.monotonic(), state))

    def stop(self):
        self._thread.join(10)
        alive = self.alive()
        for life in alive:
            life.why = "the end of the run"
            life.signal(signal.SIGCONT)
            life.process.terminate()
        for life in alive:
            with suppress(subprocess.TimeoutExpired):
                life.process.wait(20)
            life.signal(signal.SIGKILL)
            life.process.wait()
        self._read_all()

    def alive(self):
        return [it for it in self.lives if it.is_alive]

    def named(self, holder):
        """Return the living process that holds the lease, or None."""
        return next((it for it in self.alive() if it.name == holder), None)

    def last_words(self):
        """Return the last line of each log, for when nothing comes of it."""
        texts = (
            (it.name, it.log.read_text(encoding="utf-8", errors="replace")) for it in self.lives
        )
        return [f"{name}: {text.strip().rpartition(chr(10))[2]}" for name, text in texts]

    def who_for(self, pod):
        return self.evicted.get(pod)

    def has_moves(self, pod):
        return pod in self.moving

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
                    life.signal(signal.SIGKILL)  # what it leaves behind ends with its container
                    self._read_all()  # its last words, which may be that it led
                    self._note_end(life)
                elif now_s - life.ended_s >= AGAIN_S:
                    self._start(replica)

    def _note_end(self, life):
        """Note an end that we did not bring about; a standby has no reason to end."""
        if life.why:
            return
        self.ends.append((life.ended_s, life, _last_line(life)))
        if not life.has_led:
            self._note_bad(life, "end of a standby", _last_line(life))

    def _read_all(self):
        with self._lock:
            for life in self.lives:
                if life.is_read:
                    continue
                life.is_read = not life.is_alive  # what follows is all there will be
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
            # What the command line says as it ends is for people.
            if not text.startswith(b"kaisched: "):
                self._note_bad(life, "lines that are not JSON", text.decode("utf-8", "replace"))
            return
        event, now_s = line.get("event", ""), time.monotonic()
        self.lines[event] += 1
        if event == "listening" and "/metrics" in line.get("pages", ()):
            life.port = int(line["port"])
        elif event in {"pod_evicted", "eviction_unanswered"}:
            told = line["action"], job_of(line["beneficiary"])
            self.evicted[line["pod"]] = told
            if "moved" in line["reason"] or "moving" in line["reason"]:
                self.moving.add(line["pod"])
            self.recent = [*self.recent[-50:], (now_s, line["pod"], *told)]
        elif event == "lease_won":
            life.has_led = True
        elif event in _TOLD or "exception" in line:
            self._note_bad(life, event, json.dumps(line)[:1500])

    def _note_bad(self, life, sort, text):
        """Count what no fault excuses; of each sort the first and the last are told."""
        found = self.bad.setdefault((life.name, sort), [0, text, text])
        found[0] += 1
        found[2] = text if text.strip(" -^~") else found[2]
