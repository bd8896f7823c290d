"""Evicting: the victims of one beneficiary are one piece of work, in order.

The first that cannot be evicted ends it: to go on would be to evict in vain. So a plan of several
victims is first asked for as a dry run, where the API server knows disruption budgets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.cluster.kubernetes.pods import (
    BUSY,
    CONFLICT,
    GONE,
    SERVER_FAULT,
    Desk,
    Note,
    is_passing,
    path_of,
)
from kaisched.errors import ClusterUnavailable
from kaisched.framework.intents import Evict
from kaisched.telemetry.adapter import DONE, DROPPED, FAILED, PROTECTED, RETRIED

DEADLINE_S: Final = 30.0
"""So long without any success the plan is tried; then the rest of it is decided again."""
PROTECTED_S: Final = 30.0
"""So long a pod that its budget protects is not asked for again."""


@dataclass(slots=True)
class EvictWork:
    """The victims of one beneficiary."""

    desk: Desk
    evictions: list[Evict]
    protect: Callable[[str, str, float], None]
    """Told (pod, UID, seconds) of each pod that its disruption budget protects."""
    asked: int = 0
    """So many of them the dry run has come through; it goes on where a fault has stopped it."""
    done: int = 0
    begun_s: float = -1.0
    """When there was success the last time, or the first try."""
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Evict one after the other; return None when all is settled."""
        if self.begun_s < 0:
            self.begun_s = monotonic_s()
        if len(self.evictions) == 1 or self.desk.is_deleting:
            self.asked = len(self.evictions)
        while self.asked < len(self.evictions):
            pause_s, is_over = self._one(self.evictions[self.asked], is_dry_run=True)
            if is_over or pause_s is not None:
                return pause_s
            self.asked += 1
        while self.done < len(self.evictions):
            pause_s, is_over = self._one(self.evictions[self.done], is_dry_run=False)
            if is_over or pause_s is not None:
                return pause_s
            self.done += 1
        return None

    def drop(self, why: str) -> None:
        """Let the rest live."""
        for evict in self.evictions[self.done :]:
            self.desk.counts.add("evict", DROPPED)
            self.desk.log.info("eviction_dropped", pod=evict.pod, why=why)
            self.desk.refute(evict.pod)
        self.done = len(self.evictions)

    def _one(self, evict: Evict, *, is_dry_run: bool) -> tuple[float | None, bool]:
        """Return (pause before the next try or None, whether the whole plan is over)."""
        passing("evict.before_post")
        try:
            answer = self._ask(evict, is_dry_run=is_dry_run)
        except ClusterUnavailable as error:
            return self._again(str(error))  # evicting twice does no harm
        passing("evict.after_post")
        if answer.is_done or _is_gone(answer):
            self.begun_s = monotonic_s()
            self.pauses.reset()
            if not is_dry_run:
                self._settled(evict, answer)
            return None, False
        is_protected = _is_budget(answer)
        if not is_protected and (answer.code == CONFLICT or is_passing(answer)):
            return self._again(answer.text(), answer.retry_after_s)
        if is_protected:
            self.desk.counts.add("evict", PROTECTED)
            self.protect(evict.pod, evict.uid, max(answer.retry_after_s, PROTECTED_S))
        self.drop(f"{evict.pod} may not be evicted: {answer.text()}")
        return None, True

    def _settled(self, evict: Evict, answer: Answer) -> None:
        if answer.is_done:
            self.desk.counts.add("evict", DONE)
            self._told(evict)
        else:
            self.desk.counts.add("evict", FAILED)
            self.desk.refute(evict.pod)  # what it held is free already

    def _again(self, why: str, asked_s: float = 0.0) -> tuple[float | None, bool]:
        if monotonic_s() - self.begun_s > DEADLINE_S:
            self.drop(why)
            return None, True
        self.desk.counts.add("evict", RETRIED)
        return self.pauses.next_s(asked_s), False

    def _ask(self, evict: Evict, *, is_dry_run: bool) -> Answer:
        desk = self.desk
        namespace, _, name = evict.pod.partition("/")
        options: dict[str, Any] = {"preconditions": {"uid": evict.uid}}
        if desk.grace_s is not None:
            options["gracePeriodSeconds"] = desk.grace_s
        if desk.is_deleting:
            desk.patch_status(evict.pod, evict.uid, {"conditions": _target(evict)})
            body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
            return desk.client.call("DELETE", path_of(evict.pod), body=body)
        if is_dry_run:
            options["dryRun"] = ["All"]
        metadata = {"name": name, "namespace": namespace, "annotations": desk.annotations()}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": metadata,
            "deleteOptions": options,
        }
        return desk.client.call("POST", path_of(evict.pod, "eviction"), body=body)

    def _told(self, evict: Evict) -> None:
        self.desk.log.info(
            "pod_evicted",
            pod=evict.pod,
            node=evict.node,
            action=evict.action,
            beneficiary=evict.beneficiary,
            reason=evict.reason,
        )
        self.desk.note(Note(evict.pod, evict.uid, "Evicted", "Evicting", evict.reason, True))


def _target(evict: Evict) -> list[dict[str, str]]:
    return [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": evict.reason,
        }
    ]


def _is_budget(answer: Answer) -> bool:
    """Tell a budget's refusal from that of a busy server; for two budgets on a pod it is a 500."""
    is_budget = b"DisruptionBudget" in answer.data or b"disruption budget" in answer.data
    return is_budget and answer.code in {BUSY, SERVER_FAULT}


def _is_gone(answer: Answer) -> bool:
    """Tell whether the pod that was meant is not there any more."""
    return answer.code == GONE or (answer.code == CONFLICT and b"UID" in answer.data)
