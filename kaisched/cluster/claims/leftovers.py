"""Claims with devices that only waiting pods use: a failed bind or a former leader left them so.

Given back, the devices can be chosen anew: the pods may no longer fit where these are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kaisched.cluster.claims.sent import SentClaims
    from kaisched.cluster.pods import PodRow
    from kaisched.objects.devices import ResourceClaim


class Leftover(NamedTuple):
    """A claim to be given back."""

    key: str
    uid: str
    pods: frozenset[str]
    """UIDs of the pods that use it, all of which wait."""


class Leftovers:
    """Finds such claims among those that may be."""

    def __init__(self) -> None:
        """Know none."""
        self.clearing: set[str] = set()
        """Claims whose devices are being given back: who uses them waits."""
        self._suspects: set[str] = set()

    def suspect(self, key: str) -> None:
        """Note a claim with devices that has changed, or that a pod without a node uses."""
        self._suspects.add(key)

    def found(
        self,
        claims: Mapping[str, ResourceClaim],
        users: Mapping[str, Mapping[str, PodRow]],
        sent: SentClaims,
        is_waiting: Callable[[PodRow], bool],
    ) -> list[Leftover]:
        """Return the claims to be given back, after a cycle has left their pods waiting."""
        found = []
        for key in sorted(self._suspects):
            claim, pods = claims.get(key), users.get(key, {})
            if claim is None or claim.status.allocation is None or not pods:
                self._suspects.discard(key)
            elif key not in sent and key not in self.clearing:
                waiting = {it.uid for it in pods.values() if is_waiting(it)}
                reserved = {it.uid for it in claim.status.reserved_for}
                if len(waiting) == len(pods) and reserved <= waiting:
                    found.append(Leftover(key, claim.metadata.uid, frozenset(waiting)))
                elif not waiting:
                    self._suspects.discard(key)
        return found
