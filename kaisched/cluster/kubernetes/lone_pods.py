"""Events for pods whose owner never came: each once, that the pod goes on without it."""

from __future__ import annotations

from typing import Final

from kaisched.cluster.kubernetes.pods import Note
from kaisched.cluster.store import StateStore
from kaisched.units import format_duration

ALONE: Final = "OwnerNotRead"


class LonePods:
    """Remembers which pods have got the event; a new process sends it once more."""

    def __init__(self) -> None:
        """Begin without events."""
        self._reported: frozenset[str] = frozenset()

    def after(self, store: StateStore) -> list[Note]:
        """Return the events to be sent after a cycle."""
        now = frozenset(store.members.unsettled.waited)
        fresh, self._reported = sorted(now - self._reported), now
        return [note for key in fresh if (note := _note(store, key)) is not None]


def _note(store: StateStore, key: str) -> Note | None:
    known = store.pods.find(key)
    if known is None or known[1] is None or not known[1].missing:
        return None
    pod, member = known[0], known[1]
    text = (
        f"its owner {member.missing} was not read within"
        f" {format_duration(store.members.unsettled.most_s)}: the gang settings of the owner do not"
        " count; check with kaisched doctor whether its kind is served and may be read"
    )
    return Note(key, pod.uid, ALONE, "Scheduling", text, is_warning=True)
