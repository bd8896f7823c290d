"""Storage claims whose volumes are provisioned once their pod has a node.

As in kube-scheduler, an annotation on the claim names the node; the provisioner makes a volume for
that node, or removes the annotation if that fails. The annotation is never removed here: a volume
may be in the making.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.bind_steps import BindStep, PassingError, StepFailedError
from kaisched.cluster.kubernetes.client import MERGE, Answer
from kaisched.cluster.kubernetes.pods import (
    CONFLICT,
    FORBIDDEN,
    GONE,
    Writers,
    is_passing,
    lacks_right,
)
from kaisched.errors import ObjectError
from kaisched.objects.decode import decode_json
from kaisched.objects.pod import SELECTED_NODE, PersistentVolumeClaim

if TYPE_CHECKING:
    from kaisched.cluster.kubernetes.outbox import Work
    from kaisched.cluster.store import StateStore
    from kaisched.framework.intents import Bind, Nominate

MOST_S: Final = 600.0
"""How long the volumes of a pod may take: kube-scheduler's bound."""
PAUSE_S: Final = 1.0


class VolumeBackend:
    """Makes steps for pods with claims whose volumes wait for a node."""

    def step(self, bind: Bind, writers: Writers, store: StateStore) -> VolumeClaims | None:
        """Return the claims of a pod that need a volume; None if all have one."""
        keys = store.volumes.to_select(store.pods.pod(bind.pod))
        return VolumeClaims(writers, bind.node, keys) if keys else None

    def upkeep(
        self, nominations: Sequence[Nominate], writers: Writers, store: StateStore
    ) -> tuple[Work, ...]:
        """Clear nothing away: a volume may be in the making."""
        del nominations, writers, store
        return ()


@dataclass(slots=True)
class VolumeClaims(BindStep):
    """The claims of one pod that have no volume yet, and the requests about them."""

    writers: Writers
    node: str
    left: list[str]
    """``namespace/name`` of the claims that are not bound."""
    named: int = 0
    """How many of them, from the first on, have the annotation."""
    begun_s: float = -1.0

    def settle(self) -> float | None:
        """Annotate the claims, then wait for volumes; return None when all are bound, else a pause.

        Raises:
            StepFailedError: a volume cannot be provisioned.
            ClusterUnavailable: no answer.

        """
        if self.begun_s < 0:
            self.begun_s = monotonic_s()
        while self.named < len(self.left):
            claim = self._read(self.left[self.named])
            if not claim.is_bound:
                self._name_node(claim)
            self.named += 1
        while self.left:
            claim = self._read(self.left[0])
            if not claim.is_bound:
                return self._wait(claim)
            self.left.pop(0)
        return None

    @property
    def is_overdue(self) -> bool:
        """Whether the time for the volumes is over."""
        return self.begun_s >= 0 and monotonic_s() - self.begun_s > MOST_S

    def _wait(self, claim: PersistentVolumeClaim) -> float:
        if claim.metadata.annotations.get(SELECTED_NODE) != self.node:
            raise StepFailedError(f"no volume could be made for claim {claim.name}")
        if self.is_overdue:
            raise StepFailedError(f"claim {claim.name} has no volume after {MOST_S:.0f} s")
        return PAUSE_S

    def _name_node(self, claim: PersistentVolumeClaim) -> None:
        node = claim.metadata.annotations.get(SELECTED_NODE)
        if node and node != self.node:
            raise StepFailedError(f"claim {claim.name} waits for its volume on {node}")
        if node:
            return
        meta: dict[str, Any] = {
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
            "annotations": {SELECTED_NODE: self.node},
        }
        answer = self.writers.client.call(
            "PATCH", _path(claim.key), body={"metadata": meta}, content_type=MERGE
        )
        if lacks_right(answer):
            needs = "patch on persistentvolumeclaims"
            self.writers.log.error("claim_forbidden", answer=answer.text(), needs=needs)
        if not answer.is_done:
            raise _refused(answer, claim.key)

    def _read(self, key: str) -> PersistentVolumeClaim:
        answer = self.writers.client.call("GET", _path(key))
        if answer.code == GONE:
            raise StepFailedError(f"claim {key} is gone")
        if not answer.is_done:
            raise _refused(answer, key)
        try:
            return decode_json(answer.data, PersistentVolumeClaim)
        except ObjectError as error:
            raise StepFailedError(f"claim {key} is invalid: {error}") from error


def _refused(answer: Answer, key: str) -> Exception:
    if is_passing(answer) or answer.code in {CONFLICT, FORBIDDEN}:
        return PassingError(answer, f"claim {key}")
    return StepFailedError(f"claim {key}: {answer.text()}")


def _path(key: str) -> str:
    namespace, _, name = key.partition("/")
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
