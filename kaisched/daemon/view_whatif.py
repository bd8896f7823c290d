"""What-if of the live view: tries other values, or another job, in a separate process.

The loop is asked for a recording of its next cycle, as by ``kaisched snapshot take``, and at most
every half minute: trials in between use the same one. The trial itself runs in a worker, one at a
time, with a deadline, and is ``kaisched whatif set`` or ``submit``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kaisched.clock import monotonic_s
from kaisched.engine.recording import encoded
from kaisched.errors import ClusterUnavailable, ConfigError
from kaisched.objects.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kaisched.daemon.recordings import Recordings
    from kaisched.engine.recording import Recording

SCHEMA: Final = "kaisched.io/whatif/v1"
KEPT_S: Final = 30.0
_PATIENCE_S: Final = 1.0
_RECORD_S: Final = 8.0
_FORESEE_S: Final = 8
_TRY_S: Final = 18.0
"""Together less than the time that an answer may take."""
_WORKER: Final = (
    "import os; os.nice(10); from kaisched.parent import end_with; end_with({parent});"
    " from kaisched.cli import main; main()"
)
_VALUE: Final = re.compile(
    r"((gpu|cpu|memory)\.(quota|limit|weight)|priority|kValue)=-?[0-9.]{1,12}"
)
_QUEUE: Final = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]{0,252}")
_TARGET: Final = re.compile(rf"queue/{_QUEUE.pattern}|shard")
_FIX: Final = (
    "write target=queue/NAME and set=gpu.quota=8,gpu.weight=2, or target=shard and set=kValue=0.5"
)


class _Kept(NamedTuple):
    taken_s: float
    recording: Recording


class Whatif:
    """Trials on the recordings of the shards, for any number of threads; one runs at a time."""

    def __init__(
        self,
        shards: Callable[[], Iterable[Recordings]],
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        """Start without a recording."""
        self._shards, self._now_s = shards, now_s
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def values(self, shard: str) -> dict[str, Any]:
        """Return the values that may be tried, as they are now."""
        with self._turn():
            recording = self._recording(shard)
        queues = []
        for data in recording.objects:
            raw: Any = msgspec.json.decode(data)
            if raw.get("kind") == Queue.KIND:
                resources = raw.get("spec", {}).get("resources", {})
                queues.append({"name": raw["metadata"]["name"], "gpu": resources.get("gpu", {})})
        spec: Any = recording.shard.get("spec", {})
        return {
            "schemaVersion": SCHEMA,
            "enabled": True,
            "kValue": spec.get("kValue"),
            "queues": sorted(queues, key=lambda it: str(it["name"])),
        }

    def difference(self, shard: str, target: str, assignments: Sequence[str]) -> bytes:
        """Return what other values would change, as ``kaisched whatif set -o json`` does.

        Raises:
            ConfigError: what is to be tried is none, or makes no difference.
            ClusterUnavailable: another one is tried, it takes too long, or the worker failed.

        """
        wrong = [it for it in assignments if not _VALUE.fullmatch(it)]
        if wrong or not assignments:
            value = wrong[0] if wrong else ""
            raise ConfigError("is no value to try", path="set", value=value, fix=_FIX)
        if not _TARGET.fullmatch(target):
            raise ConfigError("is nothing to change", path="target", value=target, fix=_FIX)
        return self._try(shard, "whatif set", ["--", target, *assignments], target)

    def submission(self, shard: str, queue: str, gpus: int, pods: int) -> bytes:
        """Return what a gang of equal pods would change, as ``kaisched whatif submit -o json``.

        Raises:
            ConfigError: there is no such queue.
            ClusterUnavailable: as :meth:`difference`.

        """
        if not _QUEUE.fullmatch(queue):
            raise ConfigError("is no queue", path="queue", value=queue, fix="write its name")
        words = ["--queue", queue, "--gpus", str(gpus), "--pods", str(pods)]
        return self._try(shard, "whatif submit", words, f"queue/{queue}")

    def forecast(self, shard: str, job: str) -> bytes:
        """Return when a job may start, as ``kaisched why --when -o json``.

        Raises:
            ClusterUnavailable: as :meth:`difference`.

        """
        words = ["--when", "--within", str(_FORESEE_S), "--", job]
        return self._try(shard, "why", words, job)

    def starts(self, shard: str) -> bytes:
        """Return when each waiting job may start, as ``kaisched jobs --when -o json``.

        Raises:
            ClusterUnavailable: as :meth:`difference`.

        """
        words = ["--when", "--within", str(_FORESEE_S), "--state", "waiting"]
        return self._try(shard, "jobs", words, "")

    def _try(self, shard: str, command: str, words: Sequence[str], target: str) -> bytes:
        with self._turn(), tempfile.TemporaryDirectory(prefix="kaisched-whatif-") as folder:
            file = Path(folder) / "cycle.json"
            file.write_bytes(encoded(self._recording(shard)))
            return _tried(file, command, words, target)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=_PATIENCE_S):
            raise ClusterUnavailable("another trial is under way", fix="try again in some seconds")
        try:
            yield
        finally:
            self._lock.release()

    def _recording(self, shard: str) -> Recording:
        known = list(self._shards())
        found = next((it for it in known if shard in {"", it.name}), None)
        if found is None:
            raise ConfigError(f"there is no shard {shard}", path="shard", value=shard)
        kept = self._kept.get(found.name)
        if kept is None or self._now_s() - kept.taken_s >= KEPT_S:
            kept = _Kept(self._now_s(), found.next_one(_RECORD_S))
            self._kept = {found.name: kept}
        return kept.recording


def _tried(file: Path, command: str, words: Sequence[str], target: str) -> bytes:
    """Return what the worker says; a refusal names the parameter that is wrong."""
    worker = _WORKER.format(parent=os.getpid())
    line = [sys.executable, "-c", worker, *command.split(), "--snapshot", str(file), "-o", "json"]
    try:
        done = subprocess.run(  # noqa: S603 - our own program, and words that were checked
            [*line, *words], capture_output=True, timeout=_TRY_S, check=False
        )
    except subprocess.TimeoutExpired:
        fix = f"use kaisched {command}, which may take its time"
        raise ClusterUnavailable(f"the trial took over {_TRY_S:.0f} s", fix=fix) from None
    if done.stdout.strip():
        return done.stdout
    told = done.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
    text = told[-1].removeprefix("kaisched: ").replace(f"{file}: ", "")
    if done.returncode != ConfigError.exit_code:
        # The worker failed at something that was asked rightly.
        why = text or f"it ended with {done.returncode}, without a word"
        raise ClusterUnavailable(f"the trial failed: {why}", fix=f"use kaisched {command}")
    # What is refused says itself what to write instead.
    is_target = bool(target) and text.startswith(f"{target}: ")
    path = "target" if is_target else "set"
    raise ConfigError(text.removeprefix(f"{target}: ") if is_target else text, path=path)


def whatif_off() -> dict[str, Any]:
    """Return what is said where recordings are not offered."""
    return {"schemaVersion": SCHEMA, "enabled": False, "kValue": None, "queues": []}
