"""Known pods, and the facts about them that their objects do not say, or do not say yet."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, MutableMapping
from typing import Final, NamedTuple

from kaisched.cluster.disruptions import Disruptions
from kaisched.cluster.grouping import Membership
from kaisched.cluster.pods import Leaving, PodRow
from kaisched.cluster.shared_gpus import SharedCards
from kaisched.core.axis import TaskState


class KnownPods(dict[str, tuple[PodRow, Membership | None]]):
    """Pods that have a task, each with its membership; None for a pod of another scheduler."""

    def __init__(self) -> None:
        """Start without pods."""
        super().__init__()
        self.strangers: dict[str, PodRow] = {}
        """Pods of other schedulers on unknown nodes."""

    def pod(self, key: str) -> PodRow | None:
        """Return a pod; None if there is no such pod."""
        found = self.get(key)
        return None if found is None else found[0]

    def is_ours(self, key: str) -> bool:
        """Tell whether a pod is one that is placed here."""
        return (pod := self.pod(key)) is not None and pod.is_ours

    def drop_stranger(self, key: str, uid: str = "") -> None:
        """Remove a stranger; with a UID, only the pod of that UID."""
        pod = self.strangers.get(key)
        if pod is not None and uid in {"", pod.uid}:
            del self.strangers[key]

    def version_of(self, key: str) -> tuple[str, str]:
        """Return (UID, resource version) of a pod; both empty if there is no such pod."""
        pod = self.pod(key)
        return ("", "") if pod is None else (pod.uid, pod.meta.resource_version)

    def is_waiting(self, key: str) -> bool:
        """Tell whether the object of a pod names no node, whatever binds are unconfirmed."""
        return (pod := self.pod(key)) is not None and not pod.node

    def is_nominated(self, key: str, node: str) -> bool:
        """Tell whether the status of a pod names the node that is promised to it."""
        return (pod := self.pod(key)) is not None and pod.nominated == node


_ON_NODE = frozenset({TaskState.BOUND, TaskState.RUNNING})
_LEFT = frozenset({TaskState.RELEASING, TaskState.GONE})


class SentBind(NamedTuple):
    """A bind that was sent."""

    uid: str
    """Of the pod: another of its name has nothing to do with it."""
    node: str
    cards: tuple[str, ...] = ()
    """The groups of the cards that it gets there."""


class SentOf(NamedTuple):
    """What was sent about one pod."""

    bind: SentBind | None
    evicted: str | None
    """The UID of the pod that is to leave."""


class Sent:
    """Binds and evictions by pod, each until it is seen, taken back, or its pod is another."""

    __slots__ = ("binds", "evictions")

    def __init__(self) -> None:
        """Nothing was sent."""
        self.binds: dict[str, SentBind] = {}
        self.evictions: dict[str, str] = {}
        """Pod to its UID."""

    def __contains__(self, key: str) -> bool:
        """Tell whether something was sent about a pod that is not seen yet."""
        return key in self.binds or key in self.evictions

    def bind(self, pod: PodRow, node: str, cards: tuple[str, ...] = ()) -> None:
        """Note that a bind was sent, unless its pod shows that it has happened, or never can."""
        self.binds[pod.key] = SentBind(pod.uid, node, cards)
        self.handle(pod)

    def evict(self, pod: PodRow) -> None:
        """Note that an eviction was sent, unless its pod is leaving already."""
        self.evictions[pod.key] = pod.uid
        self.handle(pod)

    def take_back_bind(self, key: str, uid: str = "") -> bool:
        """Forget a bind, with a UID only that pod's; tell whether there was one."""
        bind = self.binds.get(key)
        if bind is None or uid not in {"", bind.uid}:
            return False
        del self.binds[key]
        return True

    def take_back_eviction(self, key: str, uid: str = "") -> bool:
        """Forget an eviction, with a UID only that pod's; tell whether there was one."""
        evicted = self.evictions.get(key)
        if evicted is None or uid not in {"", evicted}:
            return False
        del self.evictions[key]
        return True

    def of(self, key: str) -> SentOf:
        """Return what was sent about a pod and is not seen yet."""
        return SentOf(self.binds.get(key), self.evictions.get(key))

    def handle(self, pod: PodRow) -> None:
        """Drop what an object shows to have happened, or to be impossible.

        A pod that is being deleted, or has ended, without a node can never be bound any more.
        """
        bind = self.binds.get(pod.key)
        if bind is not None and (bind.uid != pod.uid or pod.node or pod.state in _LEFT):
            del self.binds[pod.key]
        evicted = self.evictions.get(pod.key)
        if evicted is not None and (evicted != pod.uid or pod.state in _LEFT):
            del self.evictions[pod.key]

    def forget(self, key: str, uid: str = "") -> None:
        """Drop everything about a pod that is gone; with a UID, only about that one."""
        self.take_back_bind(key, uid)
        self.take_back_eviction(key, uid)

    def node_of(self, pod: PodRow) -> str:
        """Return the node that a pod has, or may have by now; empty for none."""
        bind = None if pod.node else self.binds.get(pod.key)
        return pod.node if bind is None else bind.node

    def cards_of(self, pod: PodRow) -> tuple[str, ...]:
        """Return the groups of the cards that a pod has, or may have by now."""
        bind = None if pod.node else self.binds.get(pod.key)
        return pod.cards if bind is None else bind.cards

    def state_of(self, pod: PodRow) -> TaskState:
        """Return the state that a pod counts in.

        One that is evicted and has no node, nor may have one, waits for nothing: it is about to go.
        """
        if pod.state in _LEFT:
            return pod.state
        is_evicted = pod.key in self.evictions
        if pod.key in self.binds:
            return TaskState.RELEASING if is_evicted else TaskState.BINDING
        if not is_evicted:
            return pod.state
        return TaskState.RELEASING if pod.state in _ON_NODE else TaskState.GATED


LEAST_S: Final = 1.0
MOST_S: Final = 300.0


class HeldBack:
    """Pods in backoff, with its end, by name; failures count until they are forgotten."""

    def __init__(self) -> None:
        """Begin with no pod in backoff."""
        self._until_s: dict[str, float] = {}
        self._pause_s: dict[str, float] = {}
        self.why: dict[str, str] = {}
        """Why those could not be bound that are held back, as far as it is known."""

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod is held back."""
        return key in self._until_s

    def add(self, key: str, now_s: float, why: str = "") -> None:
        """Hold a pod back from now on."""
        if why:
            self.why[key] = why
        pause_s = min(2 * self._pause_s.get(key, LEAST_S / 2), MOST_S)
        self._pause_s[key], self._until_s[key] = pause_s, now_s + pause_s

    def pop_due(self, now_s: float) -> list[str]:
        """Remove the pods whose backoff is over, and return them by name."""
        due = sorted(key for key, until_s in self._until_s.items() if until_s <= now_s)
        for key in due:
            del self._until_s[key]
            self.why.pop(key, None)
        return due

    def forget(self, key: str) -> None:
        """Forget the failures of a pod: it is bound, or gone."""
        for known in (self._until_s, self._pause_s, self.why):
            known.pop(key, None)


STUCK_AFTER_S: Final = 120.0
"""Unless the shard says otherwise; KAI-Scheduler's default."""
_SLACK: Final = 1.1
"""A pod that uses up its grace is then killed and taken away, which takes a while too."""


def is_overdue(age_s: float, grace_s: float, after_s: float) -> bool:
    """Tell whether a pod that was asked to go so long ago is stuck; never if ``after_s`` < 0."""
    return 0 <= after_s <= age_s and age_s >= _SLACK * grace_s


class Stuck:
    """Leaving pods with the begin of their deletion, and those that are stuck; by name."""

    def __init__(self, after_s: float = STUCK_AFTER_S) -> None:
        """Know of none. They are stuck after so long, and no sooner than their grace allows.

        A negative ``after_s`` is for ever.
        """
        self._after_s = after_s
        self._fresh: dict[str, float] = {}  # seen since the last turn: when asked, NaN for just now
        self._grace_s: dict[str, float] = {}
        self._since_s: dict[str, float] = {}
        self._stuck: dict[str, float] = {}  # after how long

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod is stuck."""
        return key in self._stuck

    def __iter__(self) -> Iterator[str]:
        """Yield the pods that are stuck."""
        return iter(self._stuck)

    def after_s(self, key: str) -> float:
        """Return how long a stuck pod had been leaving when it was taken for one."""
        return self._stuck[key]

    def note(self, key: str, leaving: Leaving | None, *, was_alive: bool) -> None:
        """Note how a pod is being deleted, if it is, and whether we knew it when it was not."""
        if leaving is None:
            self.forget(key)
            return
        if key not in self._grace_s:
            self._fresh[key] = math.nan if was_alive else leaving.asked_s
        self._grace_s[key] = leaving.grace_s  # who deletes again may give less time

    def forget(self, key: str) -> None:
        """Forget a pod: it is gone, or another."""
        every: tuple[MutableMapping[str, float], ...]
        every = (self._fresh, self._grace_s, self._since_s, self._stuck)
        for known in every:
            known.pop(key, None)

    def restore(self, keys: Iterable[str]) -> None:
        """Let these be stuck, as was known elsewhere; before their pods are noted."""
        self._stuck.update(dict.fromkeys(keys, self._after_s))

    def cycle(self, now_s: float, wall_s: float) -> list[str]:
        """Return the pods that are stuck from now on, by the monotonic clock."""
        for key, asked_s in self._fresh.items():
            age_s = wall_s - asked_s
            self._since_s[key] = now_s - (age_s if age_s > 0 else 0.0)  # also where that is NaN
        self._fresh.clear()
        found = {
            key: now_s - since_s
            for key, since_s in self._since_s.items()
            if is_overdue(now_s - since_s, self._grace_s[key], self._after_s)
        }
        for key in found:
            del self._since_s[key]  # it stays stuck until it is gone
        self._stuck.update(found)
        return list(found)


class Facts:
    """Unconfirmed binds and evictions, promises, and pods that are held back, stuck or evicted."""

    def __init__(self, stuck_after_s: float) -> None:
        """Start without facts; a pod is stuck after it has been leaving for so long."""
        self.sent = Sent()
        """Binds and evictions that no event has confirmed yet."""
        self.sharing = SharedCards(self.sent.evictions)
        """Shared GPUs, where reservation pods hold them."""
        self.held_back = HeldBack()
        """Pods that could not be bound."""
        self.stuck = Stuck(stuck_after_s)
        """Pods that were deleted long ago and still hold their room."""
        self.disruptions = Disruptions()
        """Disruption budgets, and the evictions that they do not count yet."""
        self._promised: dict[str, str] = {}

    # -- of one pod ------------------------------------------------------------------------------

    def handle(self, pod: PodRow) -> None:
        """Take in what an object shows to have happened, and the shared GPU that it holds."""
        self.sent.handle(pod)
        if pod.reservation is not None:
            self.sharing.handle(pod.reservation)

    def forget(self, key: str, uid: str = "") -> None:
        """Drop what was sent about a pod that is gone; with a UID, only about that one."""
        self.sent.forget(key, uid)
        self.sharing.forget(key, uid)

    def note(self, pod: PodRow, *, was_known: bool) -> None:
        """Note whether a pod is leaving, and whether it is ready."""
        self.stuck.note(pod.key, pod.leaving, was_alive=was_known)
        self.disruptions.record_pod(pod.key, is_unready=pod.is_unready)

    def drop(self, key: str, *, is_over: bool) -> None:
        """Forget a pod whose task has ended; everything about it if the pod itself ``is_over``."""
        if is_over:
            self.held_back.forget(key)
            self.stuck.forget(key)
        self.disruptions.drop_pod(key)
        self._promised.pop(key, None)

    def state_of(self, pod: PodRow) -> TaskState:
        """Return the state in which a pod counts; a pod that no longer waits is not held back."""
        state = self.sent.state_of(pod)
        if pod.state != TaskState.PENDING:
            self.held_back.forget(pod.key)
        elif state == TaskState.PENDING and pod.key in self.held_back:
            return TaskState.GATED
        if state == TaskState.RELEASING and pod.key in self.stuck:
            return TaskState.STUCK
        return state

    # -- promises --------------------------------------------------------------------------------

    def promise(self, key: str, node: str) -> bool:
        """Note the node promised to a pod, empty to forget it; tell whether it has changed."""
        if self._promised.get(key, "") == node:
            return False
        if node:
            self._promised[key] = node
        else:
            del self._promised[key]
        return True

    def promised(self) -> list[tuple[str, str]]:
        """Return (pod, node) of all promises."""
        return list(self._promised.items())

    def promised_to(self, node: str) -> list[str]:
        """Return the pods to which a node is promised."""
        return [key for key, name in self._promised.items() if name == node]
