"""Allocations that were sent and that no claim shows yet: their devices count as taken.

Several pods may wait for one claim: all their binds carry the same allocation, and whichever comes
first writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kaisched.cluster.claims.drafts import Draft
from kaisched.objects.devices import ClaimAllocation

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
    draft: Draft | None = None
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
        """Forget what claims show and nobody writes any more.

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
