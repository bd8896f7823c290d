"""The requests of an eviction plan to the API server, and the meaning of the answers.

A dry run shows beforehand whether a disruption budget would refuse an eviction. The status of the
pod that waits names the node that is to be freed: the next leader finds the promise there, and the
answer shows whether that pod is still the one for which the plan was made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.pods import (
    BUSY,
    CONFLICT,
    GONE,
    SERVER_FAULT,
    Note,
    Writers,
    is_passing,
    path_of,
    why_not_waiting,
)
from kaisched.errors import ClusterUnavailable, ObjectError
from kaisched.framework.intents import Evict, Nominate
from kaisched.objects.decode import decode_json
from kaisched.objects.pod import Pod
from kaisched.telemetry.metrics import DONE, FAILED, PROTECTED

INVALID: Final = 422
PROTECTED_S: Final = 30.0
"""How long no plan includes a pod that its budget protects."""


class Verdict(NamedTuple):
    """The meaning of an answer for the plan."""

    why: str = ""
    """Why the request was not granted; empty if it was."""
    is_final: bool = False
    """A second try would not help: the plan is over."""
    asked_s: float = 0.0
    """The pause that the server asks for."""
    is_unwanted: bool = False
    """No pod waits for the room that the plan frees."""


GRANTED: Final = Verdict()


@dataclass(frozen=True, slots=True)
class Evictor:
    """Sends the requests of the steps of a plan."""

    writers: Writers
    protect: Callable[[str, str, float], None]
    """Called with (pod, UID, seconds) for each pod that its disruption budget protects."""

    def promise(self, nominate: Nominate) -> Verdict:
        """Write the promised node into the status of a waiting pod; check that it still waits."""
        status = {"nominatedNodeName": nominate.node}
        try:
            answer = self.writers.patch_status(nominate.pod, nominate.uid, status)
        except ClusterUnavailable as error:
            return Verdict(str(error))
        if answer.code in (GONE, CONFLICT, INVALID):  # the UID of a pod cannot be changed
            return Verdict(
                f"{nominate.pod} is another pod than planned for", True, is_unwanted=True
            )
        if is_passing(answer):
            return Verdict(answer.text(), asked_s=answer.retry_after_s)
        self.writers.counts.add("nominate", DONE if answer.is_done else FAILED)
        why = _why_unwanted(answer, nominate.uid) if answer.is_done else ""
        return Verdict(f"{nominate.pod}: {why}", True, is_unwanted=True) if why else GRANTED

    def try_out(self, evict: Evict) -> Verdict:
        """Send the eviction of a victim as a dry run."""
        try:
            answer = self._ask(evict, is_dry_run=True)
        except ClusterUnavailable as error:
            return Verdict(str(error))
        return GRANTED if answer.is_done or _is_gone(answer) else self._refused(evict, answer)

    def evict(self, evict: Evict, unanswered: set[str]) -> Verdict:
        """Evict a victim; if it is gone already, the plan goes on.

        Args:
            evict: the victim.
            unanswered: the pods of the plan that were asked to go without an answer; the victim is
                put there when there is none.

        """
        try:
            answer = self._ask(evict, is_dry_run=False)
        except ClusterUnavailable as error:
            unanswered.add(evict.pod)
            return Verdict(str(error))  # a second eviction does no harm
        if not (answer.is_done or _is_gone(answer)):
            return self._refused(evict, answer)
        if answer.is_done:
            self.writers.counts.add("evict", DONE)
            self._report(evict)
        else:
            self.writers.counts.add("evict", FAILED)
            if evict.pod in unanswered:
                self._tell(evict, "eviction_unanswered", why="it is gone, perhaps by this eviction")
            self.writers.refute_eviction(evict)  # its room is free already
        return GRANTED

    def _refused(self, evict: Evict, answer: Answer) -> Verdict:
        is_protected = _is_budget(answer)
        if not is_protected and (answer.code == CONFLICT or is_passing(answer)):
            return Verdict(answer.text(), asked_s=answer.retry_after_s)
        if is_protected:
            self.writers.counts.add("evict", PROTECTED)
            self.protect(evict.pod, evict.uid, max(answer.retry_after_s, PROTECTED_S))
        return Verdict(f"{evict.pod} may not be evicted: {answer.text()}", is_final=True)

    def _ask(self, evict: Evict, *, is_dry_run: bool) -> Answer:
        passing("evict.before_post")
        answer = self._sent(evict, is_dry_run=is_dry_run)
        passing("evict.after_post")
        return answer

    def _sent(self, evict: Evict, *, is_dry_run: bool) -> Answer:
        writers = self.writers
        namespace, _, name = evict.pod.partition("/")
        options: dict[str, Any] = {"preconditions": {"uid": evict.uid}}
        if writers.grace_s is not None:
            options["gracePeriodSeconds"] = writers.grace_s
        if writers.is_deleting:
            writers.patch_status(evict.pod, evict.uid, {"conditions": _target(evict)})
            body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
            return writers.client.call("DELETE", path_of(evict.pod), body=body)
        if is_dry_run:
            options["dryRun"] = ["All"]
        metadata = {"name": name, "namespace": namespace, "annotations": writers.annotations()}
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": metadata,
            "deleteOptions": options,
        }
        return writers.client.call("POST", path_of(evict.pod, "eviction"), body=body)

    def _report(self, evict: Evict) -> None:
        self._tell(evict, "pod_evicted")
        self.writers.note(Note(evict.pod, evict.uid, "Evicted", "Evicting", evict.reason, True))

    def _tell(self, evict: Evict, event: str, **more: str) -> None:
        self.writers.log.info(
            event,
            pod=evict.pod,
            node=evict.node,
            action=evict.action,
            beneficiary=evict.beneficiary,
            reason=evict.reason,
            **more,
        )


def _target(evict: Evict) -> list[dict[str, str]]:
    return [
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": evict.reason,
        }
    ]


def _why_unwanted(answer: Answer, uid: str) -> str:
    """Return why a pod no longer waits, by the object in the server's answer."""
    try:
        return why_not_waiting(decode_json(answer.data, Pod), uid)
    except ObjectError as error:
        return str(error)


def _is_budget(answer: Answer) -> bool:
    """Tell whether a disruption budget refused; for two budgets on a pod the code is 500."""
    is_budget = b"DisruptionBudget" in answer.data or b"disruption budget" in answer.data
    return is_budget and answer.code in {BUSY, SERVER_FAULT}


def _is_gone(answer: Answer) -> bool:
    """Tell whether the victim is gone."""
    return answer.code == GONE or (answer.code == CONFLICT and b"UID" in answer.data)
