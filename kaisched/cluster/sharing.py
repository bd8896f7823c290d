"""Shared GPUs: which pods use each card and which reservation pods hold it, and what is amiss.

A reservation pod holds a GPU of its node for a group of pods. Pods count as users from the moment
that a bind was sent, until they are gone or have ended. Nothing here is remembered besides what
the objects say and what was sent: a process that starts anew comes to the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from kaisched.objects.gpus import Card, Reservation, Stage

if TYPE_CHECKING:
    from collections.abc import Container, Mapping
    from collections.abc import Set as AbstractSet


class Use(NamedTuple):
    """How a pod uses cards of its node."""

    node: str
    groups: tuple[str, ...]
    gpus: tuple[str, ...] = ()
    """The UUIDs of their GPUs, in the same order; none where the pod does not say."""
    is_sent: bool = False
    """Its bind was sent, and is not seen yet."""


class CardState(Enum):
    """Whether a card may take more shares."""

    OPEN = auto()
    CLOSED = auto()
    """Its reservation pod is about to go."""
    LOST = auto()
    """Pods use its GPU and no reservation pod holds it: the device plugin may give it away."""


class SharedCards:
    """The users and reservation pods of each card."""

    def __init__(self, leaving: Container[str]) -> None:
        """Start without shared GPUs; ``leaving`` has the pods whose deletion was sent."""
        self._leaving = leaving
        self._use_of: dict[str, Use] = {}
        self._users: dict[Card, set[str]] = defaultdict(set)
        self._reservation_of: dict[str, Reservation] = {}
        self._held: dict[Card, set[str]] = defaultdict(set)
        self._changed: set[Card] = set()
        self._stale: set[Card] = set()
        """Cards that ``_closed`` and ``_awaited`` may be wrong about."""
        self._closed: dict[Card, CardState] = {}
        self._awaited: set[Card] = set()

    # -- what is told ----------------------------------------------------------------------------

    def note_use(self, key: str, use: Use | None) -> None:
        """Note how a pod uses cards; None: not, or no more."""
        old = self._use_of.get(key)
        if old == use:
            return
        if old is not None:
            for group in old.groups:
                self._drop(self._users, Card(old.node, group), key)
        if use is None:
            self._use_of.pop(key, None)
            return
        self._use_of[key] = use
        for group in use.groups:
            self._users[Card(use.node, group)].add(key)
            self.look_again(Card(use.node, group))

    def hear(self, found: Reservation) -> None:
        """Take in a reservation pod that came or changed."""
        old = self._reservation_of.get(found.key)
        if old is not None and (old.uid, old.card) != (found.uid, found.card):
            self.forget(found.key)
        self._reservation_of[found.key] = found
        self._held[found.card].add(found.key)
        self.look_again(found.card)

    def forget(self, key: str, uid: str = "") -> None:
        """Drop a reservation pod that is gone; with a UID, only if it is still that one."""
        old = self._reservation_of.get(key)
        if old is not None and uid in {"", old.uid}:
            del self._reservation_of[key]
            self._drop(self._held, old.card, key)

    def _drop(self, index: dict[Card, set[str]], card: Card, key: str) -> None:
        keys = index[card]
        keys.discard(key)
        if not keys:
            del index[card]
        self.look_again(card)

    def look_again(self, card: Card) -> None:
        """Count a card as changed, so that it is looked at again."""
        self._changed.add(card)
        self._stale.add(card)

    # -- questions -------------------------------------------------------------------------------

    def reservations_of(self, card: Card) -> list[Reservation]:
        """Return the reservation pods of a card, by name."""
        return [self._reservation_of[key] for key in sorted(self._held.get(card, ()))]

    def uses_of(self, card: Card) -> list[Use]:
        """Return how pods use a card."""
        return [self._use_of[key] for key in sorted(self._users.get(card, ()))]

    def is_known(self, card: Card) -> bool:
        """Tell whether a pod uses a card, or a reservation pod is there for it."""
        return bool(self._users.get(card) or self.reservations_of(card))

    def users_of(self, card: Card) -> list[str]:
        """Return the pods that use a card."""
        return sorted(self._users.get(card, ()))

    def gpus_of(self, card: Card) -> frozenset[str]:
        """Return the UUIDs that the users of a card have got; one, unless something is amiss."""
        return frozenset(
            gpu
            for use in self.uses_of(card)
            for group, gpu in zip(use.groups, use.gpus, strict=False)
            if group == card.group
        )

    def state_of(self, card: Card) -> CardState:
        """Return whether a card may take more shares."""
        found, gpus = self.reservations_of(card), self.gpus_of(card)
        for it in found:
            is_held = it.stage is Stage.HOLDS and it.key not in self._leaving
            if is_held and (not it.is_renewed or not gpus or it.gpu in gpus):
                return CardState.OPEN
        if any(not use.is_sent for use in self.uses_of(card)):
            return CardState.LOST
        is_going = any(it.stage is not Stage.ENDED for it in found)
        return CardState.CLOSED if is_going else CardState.OPEN

    def closed(self) -> Mapping[Card, CardState]:
        """Return the cards that take no more shares."""
        self._look()
        return self._closed

    def awaited(self) -> AbstractSet[Card]:
        """Return the cards to which a bind was sent, and whose reservation pods are to come."""
        self._look()
        return self._awaited

    def _look(self) -> None:
        for card in self._stale:
            state = self.state_of(card)
            if state is CardState.OPEN:
                self._closed.pop(card, None)
            else:
                self._closed[card] = state
            if not self._held.get(card) and any(use.is_sent for use in self.uses_of(card)):
                self._awaited.add(card)
            else:
                self._awaited.discard(card)
        self._stale.clear()

    # -- what is to be done ----------------------------------------------------------------------

    def changed(self) -> set[Card]:
        """Return the cards of which something has changed since this was asked last."""
        changed, self._changed = self._changed, set()
        return changed

    def to_release(self, card: Card) -> Iterator[Reservation]:
        """Yield the reservation pods of a card that hold no GPU which is in use.

        Those are the pods that have ended, those of a card without users, and those that were made
        for pods which had lost theirs and got another GPU.
        """
        used, gpus = self._users.get(card), self.gpus_of(card)
        for it in self.reservations_of(card):
            if it.key in self._leaving or it.stage is Stage.LEAVES:
                continue
            is_wrong = it.is_renewed and it.gpu and gpus and it.gpu not in gpus
            if it.stage is Stage.ENDED or not used or is_wrong:
                yield it

    def is_to_renew(self, card: Card) -> bool:
        """Tell whether no reservation pod holds a card any more that pods use on a known GPU."""
        return not self._held.get(card) and bool(self.gpus_of(card))
