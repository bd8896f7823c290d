"""Writes to the status of SchedulingShards whether they can be used, with an event on a change."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import structlog

from kaisched.cluster.kubernetes.client import MERGE, Answer, Pauses
from kaisched.cluster.kubernetes.pods import SERVER_FAULT, is_passing
from kaisched.daemon.stored_shards import MOST_MESSAGE, STORED, desired_status, is_told_wrong, read
from kaisched.errors import ClusterUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.clock import Clock
    from kaisched.cluster.kubernetes.client import Client
    from kaisched.daemon.stored_shards import Reading, StoredShard
    from kaisched.usage.history import ServerHealth

_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
"""Events of objects without a namespace are in this one."""
_CONTROLLER: Final = "kaisched"
_TRIES: Final = 3


class ShardReports:
    """Writes statuses in a thread of its own, so that nothing waits for the server's answers."""

    def __init__(self, client: Client, clock: Clock, identity: str) -> None:
        """Begin without reports."""
        self._client, self._clock, self._identity = client, clock, identity
        self._due: dict[str, StoredShard] = {}
        self._latest: dict[str, StoredShard] = {}
        self._servers: dict[str, ServerHealth] = {}
        self._lock, self._wake, self._end = threading.Lock(), threading.Event(), threading.Event()
        self._log: Any = structlog.get_logger()
        self._thread = threading.Thread(target=self._run, name="shard-reports", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread; reports that wait are not written."""
        self._end.set()
        self._wake.set()

    def add(self, stored: StoredShard) -> None:
        """Report on a shard; from any thread."""
        with self._lock:
            self._due[stored.name] = self._latest[stored.name] = stored
        self._wake.set()

    def note_server(self, shard: str, server: ServerHealth) -> None:
        """Report whether the server of a shard's usage history answers; from any thread."""
        with self._lock:
            self._servers[shard] = server
            if shard in self._latest:
                self._due[shard] = self._latest[shard]
        self._wake.set()

    def write(self, shards: Iterable[StoredShard]) -> None:
        """Report on some shards and wait until that is done, as before the process ends."""
        for stored in shards:
            self._write(stored)

    def _run(self) -> None:
        while not self._end.is_set():
            self._wake.wait()
            self._wake.clear()
            with self._lock:
                due, self._due = self._due, {}
            self.write(due.values())

    def _write(self, stored: StoredShard) -> None:
        reading = read(stored)
        server = self._servers.get(stored.name)
        desired = desired_status(stored, reading, self._now("%Y-%m-%dT%H:%M:%SZ"), server)
        if desired is None:
            return
        # The server refuses it if the shard has changed since; then there is a later report.
        version = {"resourceVersion": stored.metadata.resource_version}
        body = {"metadata": version, "status": desired}
        answer = self._send("PATCH", f"{STORED.path}/{stored.name}/status", body, MERGE)
        if not answer.is_done:
            self._log.info("shard_status_refused", shard=stored.name, answer=answer.text())
        elif reading.errors and not is_told_wrong(stored, reading):
            self._send("POST", _EVENTS, self._event(stored, reading))

    def _send(
        self, method: str, path: str, body: dict[str, Any], content_type: str = "application/json"
    ) -> Answer:
        pauses, answer = Pauses(), Answer(SERVER_FAULT, b"")
        for _ in range(_TRIES):
            try:
                answer = self._client.call(method, path, body=body, content_type=content_type)
            except ClusterUnavailable:
                answer = Answer(SERVER_FAULT, b"")
            if not is_passing(answer) or self._end.wait(pauses.next_s(answer.retry_after_s)):
                break
        return answer

    def _event(self, stored: StoredShard, reading: Reading) -> dict[str, Any]:
        text = "; ".join(map(str, reading.errors))
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{stored.name[:200]}-", "namespace": "default"},
            "eventTime": self._now("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": _CONTROLLER,
            "reportingInstance": self._identity[:128],
            "action": "Read",
            "reason": "ShardWrong",
            "note": text[:MOST_MESSAGE],
            "type": "Warning",
            "regarding": {
                "apiVersion": stored.API_VERSION,
                "kind": stored.KIND,
                "name": stored.name,
                "uid": stored.metadata.uid,
            },
        }

    def _now(self, form: str) -> str:
        return datetime.fromtimestamp(self._clock.now_s(), UTC).strftime(form)
