"""Events for pods that do not end, and for pods to which their room was promised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kaisched.cluster.kubernetes.pods import Note
from kaisched.cluster.store import StateStore
from kaisched.framework.report.result import CycleResult
from kaisched.units import format_duration

STUCK: Final = "StuckTerminating"
VOID: Final = "PromiseVoid"


class StuckPods:
    """Remembers which pods have got the event; a new process sends it once more."""

    def __init__(self) -> None:
        """Begin without events."""
        self._reported: frozenset[str] = frozenset()

    def after(self, store: StateStore, result: CycleResult) -> list[Note]:
        """Return the events to be sent after a cycle."""
        now = frozenset(store.facts.stuck)
        fresh, self._reported = sorted(now - self._reported), now
        if not fresh:
            return []
        kept = {(bind.pod, bind.node) for bind in result.binds}
        kept |= {(promise.pod, promise.node) for promise in result.nominations}
        return [note for key in fresh for note in _notes(store, key, kept)]


def _notes(store: StateStore, key: str, kept: set[tuple[str, str]]) -> Iterator[Note]:
    node, age = store.node_of(key), format_duration(round(store.facts.stuck.after_s(key)))
    text = (
        f"its deletion was requested {age} ago and it has not ended: it holds its room on node"
        f" {node}, and no job waits for that room any more; look for a finalizer, a container that"
        " cannot be killed, or a node whose kubelet is down"
    )
    yield Note(key, store.pods.version_of(key)[0], STUCK, "Terminating", text, is_warning=True)
    for pod in sorted(store.facts.promised_to(node)):
        if (pod, node) not in kept:
            text = (
                f"node {node} is no longer promised to it: the deletion of pod {key} there was"
                f" requested {age} ago and it has not ended; every node is tried again"
            )
            yield Note(
                pod, store.pods.version_of(pod)[0], VOID, "Scheduling", text, is_warning=True
            )
