"""Writes of marks: in which node pool a job is, as a condition of a pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kaisched.cluster.kubernetes.change import Change
from kaisched.cluster.kubernetes.client import STRATEGIC
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.cluster.kubernetes.pods import SERVER_FAULT, Writers, path_of
from kaisched.cluster.pools.owners import Mark
from kaisched.errors import ClusterUnavailable, ObjectError
from kaisched.objects.decode import decode_json
from kaisched.objects.labels import IN_POOL
from kaisched.objects.pod import Pod
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

_REASON: Final = "PassedOn"


@dataclass(slots=True)
class MarkWork:
    """The write of one mark; it has no effect if the pod has changed since it was seen."""

    writers: Writers
    mark: Mark
    settled: Callable[[Mark], None]
    """Called in the thread of the store, after the pod was taken in as it is now."""
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Write the mark; return None when its outcome is known, else when to try again."""
        mark, writers = self.mark, self.writers
        condition = {
            "type": IN_POOL,
            "status": "True",
            "reason": _REASON,
            "message": mark.text,
        }
        metadata = {"uid": mark.uid, "resourceVersion": mark.version}
        body = {"metadata": metadata, "status": {"conditions": [condition]}}
        try:
            answer = writers.client.call(
                "PATCH", path_of(mark.pod, "status"), body=body, content_type=STRATEGIC
            )
            if answer.is_done:
                writers.post(Change(decode_json(answer.data, Pod), is_read=True))
            elif answer.code >= SERVER_FAULT:
                return self._again(answer.retry_after_s)
            else:
                writers.read(mark.pod, mark.uid)  # it has changed, or is gone
        except (ClusterUnavailable, ObjectError):
            return self._again()
        writers.counts.add("mark", DONE if answer.is_done else FAILED)
        writers.post(lambda _: self.settled(mark))
        return None

    def _again(self, asked_s: float = 0.0) -> float:
        self.writers.counts.add("mark", RETRIED)
        return self.pauses.next_s(asked_s)

    def drop(self, why: str) -> None:
        """Give the mark up; the process ends, or does not lead."""
        del why
        self.writers.counts.add("mark", DROPPED)
        self.writers.post(lambda _: self.settled(self.mark))
