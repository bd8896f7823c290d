"""Allocations that were sent and that no claim shows yet, and claims that are left over.

The devices of what was sent count as taken. Several pods may wait for one claim: all their binds
carry the same allocation, and whichever comes first writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kaisched.cluster.pods import PodRow
from kaisched.objects.devices import ClaimAllocation, ResourceClaim, ResourceClaimSpec


class Mapped(NamedTuple):
    """Which request of the claim a container gets for a resource."""

    container: str
    resource: str
    request: str


class GeneratedSpec(NamedTuple):
    """What a claim for extended resources asks for."""

    spec: ResourceClaimSpec
    mappings: tuple[Mapped, ...]


class GeneratedClaim(NamedTuple):
    """A claim that no server has yet."""

    claim: ResourceClaim
    content: GeneratedSpec


PodId = tuple[str, str]
"""``namespace/name`` and UID of a pod."""


class Wanted(NamedTuple):
    """What a claim is to have when a pod is bound that uses it."""

    key: str
    uid: str
    """Of the claim; empty if there is none."""
    allocation: ClaimAllocation | None
    is_new: bool = False
    """Whether the allocation is to be written; else the claim has it already."""
    generated: GeneratedClaim | None = None
    """The claim that is to be made first."""


@dataclass(slots=True)
class SentClaim:
    """An allocation that is on its way into a claim."""

    uid: str
    """Of the claim: another of its name has nothing to do with it."""
    allocation: ClaimAllocation
    pods: set[PodId] = field(default_factory=set)
    """Whose binds write it, and may be under way."""
    is_seen: bool = False
    """Whether the claim has shown an allocation since."""
    read_s: float = 0.0
    """When the claim is to be read, on the monotonic clock; 0 for at once."""


class SentClaims:
    """Allocations by claim, until the claim shows them or they are known to have failed."""

    def __init__(self) -> None:
        """Nothing was sent."""
        self._sent: dict[str, SentClaim] = {}

    def __contains__(self, key: str) -> bool:
        """Tell whether an allocation is on its way into a claim."""
        return key in self._sent

    def get(self, key: str, uid: str) -> SentClaim | None:
        """Return what is on its way into a claim, if it is still that claim."""
        found = self._sent.get(key)
        return found if found is not None and found.uid == uid else None

    def items(self) -> Iterator[tuple[str, SentClaim]]:
        """Yield (claim, allocation on its way)."""
        yield from list(self._sent.items())

    def put(self, key: str, sent: SentClaim) -> None:
        """Note an allocation that is about to be sent."""
        self._sent[key] = sent

    def take_back(self, pod: str, uid: str) -> None:
        """Forget that the bind of a pod writes allocations; without a UID of any pod of the name.

        What it may have written still counts, until a claim shows or a read has found what it has.
        """
        for sent in self._sent.values():
            sent.pods = {it for it in sent.pods if it[0] != pod or uid not in {"", it[1]}}

    def drop(self, key: str) -> None:
        """Forget an allocation: the claim shows what there is."""
        self._sent.pop(key, None)

    def settled(self, is_open: Callable[[PodId], bool], now_s: float) -> list[str]:
        """Forget allocations that claims show and no bind writes any more.

        Return the claims to be read, since it is not known what became of their allocation.
        """
        doubtful = []
        for key, sent in self.items():
            sent.pods = {it for it in sent.pods if is_open(it)}
            if sent.pods:
                continue
            if sent.is_seen:
                self.drop(key)
            elif sent.read_s <= now_s:
                doubtful.append(key)
        return doubtful


# -- left-over claims ------------------------------------------------------------------------------
# Given back, the devices can be chosen anew: the pods may no longer fit where these are.


class Leftover(NamedTuple):
    """A claim to be given back."""

    key: str
    uid: str
    pods: frozenset[str]
    """UIDs of the pods that use it, all of which wait."""


class Leftovers:
    """Finds the claims that are left over."""

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
