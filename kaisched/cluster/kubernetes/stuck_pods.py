"""Events for pods that do not end, and for pods to which their room was promised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kaisched.cluster.kubernetes.pods import Note
from kaisched.cluster.store import StateStore
from kaisched.framework.report.records import CycleResult
from kaisched.units import format_duration

STUCK: Final = "StuckTerminating"
VOID: Final = "PromiseVoid"


class StuckPods:
    """Remembers which pods have got the event; a new process sends it once more."""

    def __init__(self) -> None:
        """Begin without events."""
        self._told: frozenset[str] = frozenset()

    def after(self, store: StateStore, result: CycleResult) -> list[Note]:
        """Return the events to be sent after a cycle."""
        now = frozenset(store.stuck)
        fresh, self._told = sorted(now - self._told), now
        if not fresh:
            return []
        kept = {(bind.pod, bind.node) for bind in result.binds}
        kept |= {(promise.pod, promise.node) for promise in result.nominations}
        return [note for key in fresh for note in _notes(store, key, kept)]


def _notes(store: StateStore, key: str, kept: set[tuple[str, str]]) -> Iterator[Note]:
    node, age = store.node_of(key), format_duration(round(store.stuck.after_s(key)))
    text = (
        f"it was asked to go {age} ago and has not ended: it holds its room on node {node}, and"
        " nobody is made to wait for it any more; look for a finalizer, a container that cannot be"
        " killed, or a node whose kubelet is down"
    )
    yield Note(key, store.version_of(key)[0], STUCK, "Terminating", text, is_warning=True)
    for pod in sorted(store.promised_to(node)):
        if (pod, node) not in kept:
            text = (
                f"node {node} is promised to it no more: pod {key} there was asked to go {age} ago"
                " and has not ended; room is sought on every node again"
            )
            yield Note(pod, store.version_of(pod)[0], VOID, "Scheduling", text, is_warning=True)
