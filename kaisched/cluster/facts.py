"""Facts about pods that their objects do not say, or do not say yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.cluster.disruptions import Disruptions
from kaisched.cluster.held_back import HeldBack
from kaisched.cluster.sent import Sent
from kaisched.cluster.sharing import SharedCards
from kaisched.cluster.stuck import Stuck
from kaisched.core.axis import TaskState

if TYPE_CHECKING:
    from kaisched.cluster.translate import PodRow


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

    def hear(self, pod: PodRow) -> None:
        """Take in what an object shows to have happened, and the shared GPU that it holds."""
        self.sent.hear(pod)
        if pod.reservation is not None:
            self.sharing.hear(pod.reservation)

    def forget(self, key: str, uid: str = "") -> None:
        """Drop what was sent about a pod that is gone; with a UID, only about that one."""
        self.sent.forget(key, uid)
        self.sharing.forget(key, uid)

    def note(self, pod: PodRow, *, was_known: bool) -> None:
        """Note whether a pod is leaving, and whether it is ready."""
        self.stuck.note(pod.key, pod.leaving, was_alive=was_known)
        self.disruptions.note_pod(pod.key, is_unready=pod.is_unready)

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

    def node_of(self, pod: PodRow) -> str:
        """Return the node of a pod, or of its unconfirmed bind; empty for none."""
        return self.sent.node_of(pod)

    def is_assumed(self, key: str) -> bool:
        """Tell whether a bind or eviction of a pod is not confirmed yet."""
        return key in self.sent

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
