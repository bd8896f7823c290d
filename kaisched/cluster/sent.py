"""What was sent to the API server about pods and is not seen yet: binds and evictions.

A bind that was sent may have happened, whatever an older state of its pod says and whatever is
decided about the pod meanwhile. So binds and evictions are remembered apart: a pod may be evicted
while its bind is under way, and when the eviction comes to nothing the bind still counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kaisched.core.axis import TaskState

if TYPE_CHECKING:
    from kaisched.cluster.translate import PodRow

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
        self.hear(pod)

    def evict(self, pod: PodRow) -> None:
        """Note that an eviction was sent, unless its pod is leaving already."""
        self.evictions[pod.key] = pod.uid
        self.hear(pod)

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

    def hear(self, pod: PodRow) -> None:
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
