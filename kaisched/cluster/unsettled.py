"""Pods whose owner is not known yet: its kind is followed apart from theirs, and may lag behind.

Such a pod would be taken for a gang of its own. It waits for its owner and says so, but not for
ever: an owner that is gone, or may not be read, never comes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kaisched.core.axis import TaskState
from kaisched.core.refusals import Refusal

if TYPE_CHECKING:
    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.translate import PodRow

OWNER_WAIT_S: Final = 120.0
"""How long a pod waits for its owner to be seen, unless the shard says otherwise.

A kind that is not served is looked for every minute at least. Who started alone before it was found
would be part of a gang of which the rest has no room, and be evicted for it.
"""
_CODE: Final = int(Refusal.OWNER_NOT_READ)


class Unsettled:
    """Who waits, and since when. It waits who is noted, from the next turn on."""

    def __init__(self, most_s: float = OWNER_WAIT_S) -> None:
        """Nobody does; and nobody will for longer than ``most_s``."""
        self.most_s = most_s
        self._noted: dict[str, None] = {}
        self._until: dict[str, float] = {}  # in the order of time
        self._waited: set[str] = set()

    def __contains__(self, key: str) -> bool:
        """Tell whether a pod waits now."""
        return key in self._until

    def note(self, key: str, *, is_unsettled: bool) -> None:
        """Note whether a pod has an owner that is not known."""
        if not is_unsettled:
            self._noted.pop(key, None)
            self._until.pop(key, None)
            self._waited.discard(key)
        elif key not in self._until and key not in self._waited:
            self._noted[key] = None

    @property
    def waited(self) -> AbstractSet[str]:
        """Pods that have waited in vain."""
        return self._waited

    def restore(self, keys: Iterable[str]) -> None:
        """Let these wait, as was known elsewhere; before their pods are noted."""
        self._until.update(dict.fromkeys(keys, math.inf))

    def __iter__(self) -> Iterator[str]:
        """Yield the pods that wait."""
        return iter(self._until)

    def marked(self, pod: PodRow, member: Membership | None) -> PodRow:
        """Return a pod that is kept from every node while it waits, and not any longer."""
        wait = pod.constraints.wait
        new = None if wait is not None and wait[0] == _CODE else wait
        is_waiting = pod.key in self._until and pod.state == TaskState.PENDING
        if new is None and is_waiting and member is not None and member.missing:
            why = f"its owner {member.missing} is not read yet; ownerWait of the shard bounds this"
            new = _CODE, why
        if new == wait:
            return pod
        return replace(pod, constraints=replace(pod.constraints, wait=new))

    def turn(self, now_s: float) -> list[str]:
        """Return who waits from now on and who does no more, by the monotonic clock."""
        changed = list(self._noted)
        self._until.update((key, now_s + self.most_s) for key in changed)
        self._noted.clear()
        while self._until and (first := next(iter(self._until.items())))[1] <= now_s:
            del self._until[first[0]]
            self._waited.add(first[0])
            changed.append(first[0])
        return changed
