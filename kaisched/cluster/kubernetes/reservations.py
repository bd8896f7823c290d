"""Shared GPUs through reservation pods: the device plugin gives such a pod the GPU of a card.

Before a pod with a share is bound, the reservation pod of each of its cards is found or made, and
tells which GPU it got. Group and UUID travel in the Binding. Reservation pods are shared, so a bind
that fails leaves them; those without users are deleted after a cycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.bind_steps import (
    BindStep,
    Marks,
    PassingError,
    StepFailedError,
)
from kaisched.cluster.kubernetes.failpoints import passing
from kaisched.cluster.kubernetes.pods import CONFLICT, FORBIDDEN, GONE, is_passing, lacks_right
from kaisched.cluster.kubernetes.pods import path_of as path_of_pod
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.decode import decode_json, decode_list
from kaisched.objects.gpus import (
    Card,
    Reservation,
    Stage,
    reservation_name,
    reservation_of,
    reservation_pod,
)
from kaisched.objects.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kaisched.cluster.kubernetes.client import Answer
    from kaisched.cluster.kubernetes.lookup_maps import LookupMaps
    from kaisched.cluster.kubernetes.pods import Writers
    from kaisched.framework.intents import Bind
    from kaisched.objects.shard import GpuSharing

PODS: Final = f"/api/v1/namespaces/{labels.RESERVATION}/pods"
MOST_S: Final = 120.0
"""How long reservation pods may take to tell their GPUs: their image may have to be pulled."""
_FIRST_S, _LONGEST_S = 0.2, 2.0
"""Pauses between two looks at a reservation pod."""


class Maker:
    """Makes reservation pods, as the shard says."""

    def __init__(self, writers: Writers, sharing: GpuSharing, resource: str) -> None:
        """Keep what they are made of; ``resource`` is a GPU of the device plugin."""
        self.writers = writers
        self._sharing, self._resource = sharing, resource

    def make(self, card: Card, *, is_renewed: bool = False) -> Reservation | None:
        """Create the reservation pod of a card; None if there is one of its name already.

        Raises:
            StepFailedError: the server refuses it.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer; it may have been made.

        """
        body = reservation_pod(card, self._sharing, self._resource, is_renewed=is_renewed)
        passing("reserve.before_post")
        answer = self.writers.client.call("POST", PODS, body=body)
        passing("reserve.after_post")
        if answer.is_done:
            return _decoded(answer)
        if answer.code == CONFLICT:
            return None
        raise self._refused(answer, "create")

    def find(self, card: Card) -> list[Reservation]:
        """Return the reservation pods of a card as they are now, by name.

        Raises:
            StepFailedError: the server refuses the request.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        query = {"labelSelector": f"{labels.GPU_GROUP}={card.group}"}
        answer = self.writers.client.call("GET", PODS, query=query)
        if not answer.is_done:
            raise self._refused(answer, "list")
        pods = sorted(decode_list(answer.data, Pod).objects, key=lambda pod: pod.name)
        found = (reservation_of(pod) for pod in pods)
        return [it for it in found if it is not None and it.card == card]

    def read(self, key: str) -> Reservation | None:
        """Return a reservation pod as it is now; None if it is gone.

        Raises:
            StepFailedError: the server refuses the request.
            PassingError: the server asks for another try.
            ClusterUnavailable: no answer.

        """
        answer = self.writers.client.call("GET", path_of_pod(key))
        if answer.code == GONE:
            return None
        if not answer.is_done:
            raise self._refused(answer, "get")
        return _decoded(answer)

    def _refused(self, answer: Answer, verb: str) -> Exception:
        if lacks_right(answer):
            needs = f"{verb} on pods in namespace {labels.RESERVATION}"
            self.writers.log.error("reservation_forbidden", answer=answer.text(), needs=needs)
        if is_passing(answer) or answer.code == FORBIDDEN:
            return PassingError(answer, "reservation pod")
        return StepFailedError(f"no reservation pod can be made: {answer.text()}")


def _decoded(answer: Answer) -> Reservation | None:
    try:
        return reservation_of(decode_json(answer.data, Pod))
    except ObjectError as error:
        raise StepFailedError(f"a reservation pod is invalid: {error}") from error


class _Hold:
    """The reservation pod of one card, as one bind sees it."""

    def __init__(self, maker: Maker, card: Card, expected: frozenset[str]) -> None:
        """Begin without one; ``expected`` are UUIDs of the GPU that users of the card have."""
        self._maker, self.card, self._expected = maker, card, expected
        self._known: Reservation | None = None
        self.gpu = ""
        """The UUID of the GPU; empty until it is told."""

    def look(self) -> None:
        """Find or make the reservation pod, and take note of the GPU that it tells.

        Raises:
            StepFailedError: it is gone, has ended, or holds another GPU than its users have.

        """
        before = self._known
        self._known = self._find() if before is None else self._maker.read(before.key)
        now = self._known
        name = before.key if before is not None else reservation_name(self.card)
        if before is not None and (now is None or now.uid != before.uid):
            raise StepFailedError(f"reservation pod {name} was deleted")
        if now is None:
            return
        if now.stage is Stage.ENDED:
            raise StepFailedError(f"reservation pod {now.key} has ended: {now.why_ended}")
        if now.stage is Stage.LEAVES:
            raise StepFailedError(f"reservation pod {now.key} is being deleted")
        # Only one that was made in place of a lost one may hold another GPU than its users have.
        # The first of a card holds theirs, whatever users write on their pods.
        if now.is_renewed and now.gpu and self._expected and now.gpu not in self._expected:
            raise StepFailedError(
                f"reservation pod {now.key} holds GPU {now.gpu}, its users have"
                f" {', '.join(sorted(self._expected))}"
            )
        self.gpu = now.gpu

    def _find(self) -> Reservation | None:
        """Return the reservation pod that holds the card; one that is about to go is awaited."""
        there = self._maker.find(self.card)
        for it in there:
            if it.stage is Stage.HOLDS:
                return it
        return None if there else self._maker.make(self.card)


class ShareStep(BindStep):
    """The reservation pods of the cards that a pod gets, and what its Binding says of them."""

    __slots__ = ("_begun_s", "_holds", "_lookup", "_pause_s", "_portion")

    def __init__(
        self,
        maker: Maker,
        bind: Bind,
        expected: Sequence[frozenset[str]],
        portion: Mapping[str, str],
        lookup: LookupMaps | None = None,
    ) -> None:
        """Begin with none of them found.

        Args:
            maker: makes reservation pods.
            bind: the bind.
            expected: UUIDs that the users of each card have already.
            portion: annotations that say how much of each card the pod has.
            lookup: the ConfigMaps that its containers read; None for nearly every pod.

        """
        cards = [Card(bind.node, group) for group in bind.cards]
        self._holds = [_Hold(maker, card, gpus) for card, gpus in zip(cards, expected, strict=True)]
        self._portion, self._begun_s, self._pause_s = portion, -1.0, _FIRST_S
        self._lookup = lookup

    def settle(self) -> float | None:
        """Find or make the reservation pods, wait until they tell their GPUs, and tell the pod."""
        if self._begun_s < 0:
            self._begun_s = monotonic_s()
        for hold in self._holds:
            if not hold.gpu:
                hold.look()
        waiting = [hold.card for hold in self._holds if not hold.gpu]
        if not waiting:
            if len({hold.gpu for hold in self._holds}) < len(self._holds):
                raise StepFailedError("two of its reservation pods tell the same GPU")
            if self._lookup is not None:
                self._lookup.write([hold.gpu for hold in self._holds])
            return None
        if self.is_overdue:
            names = ", ".join(map(reservation_name, waiting))
            raise StepFailedError(f"no GPU told by reservation pod {names} in {MOST_S:.0f} s")
        self._pause_s, pause_s = min(self._pause_s * 2, _LONGEST_S), self._pause_s
        return pause_s

    @property
    def is_overdue(self) -> bool:
        """Whether the time for reservation pods and ConfigMaps is over."""
        return self._begun_s >= 0 and monotonic_s() - self._begun_s > MOST_S

    def marks(self) -> Marks:
        """Return the groups as labels, as KAI-Scheduler reads them, and the GPUs."""
        groups = [hold.card.group for hold in self._holds]
        named = {labels.GPU_GROUP: groups[0]}
        if len(groups) > 1:
            named |= {f"{labels.GPU_GROUP}/{group}": group for group in groups}
        told = {
            labels.GPU_GROUPS: ",".join(groups),
            labels.GPU_UUIDS: ",".join(hold.gpu for hold in self._holds),
        }
        return Marks(named, {**self._portion, **told})
