"""The pods whose job depends on owners, which may come later, change, or go."""

from __future__ import annotations

from collections.abc import Iterable

from kaisched.cluster.grouping import Membership
from kaisched.cluster.translate import PodRow


class Dependents:
    """Knows by owner who has to be looked at again when something is heard of it.

    Pods that have succeeded are among them: they hold nothing any more, but count in their job,
    and which one that is may turn out later.
    """

    def __init__(self) -> None:
        """Know nobody."""
        self._of_owner: dict[str, set[str]] = {}
        self._done: dict[str, tuple[PodRow, Membership]] = {}

    def __contains__(self, uid: str) -> bool:
        """Tell whether somebody depends on an owner."""
        return uid in self._of_owner

    def of(self, owners: Iterable[str]) -> list[str]:
        """Return who depends on one of these, by name."""
        return sorted({key for owner in owners for key in self._of_owner.get(owner, ())})

    def watch(self, key: str, old: Membership | None, new: Membership | None) -> None:
        """Note on whom a pod depends now."""
        before = set(old.owner_uids) if old else set()
        after = set(new.owner_uids) if new else set()
        for uid in after - before:
            self._of_owner.setdefault(uid, set()).add(key)
        for uid in before - after:
            pods = self._of_owner[uid]
            pods.discard(key)
            if not pods:
                del self._of_owner[uid]

    def done(self, key: str) -> PodRow | None:
        """Return a pod that has succeeded, None for none of that name."""
        found = self._done.get(key)
        return None if found is None else found[0]

    def note_done(self, pod: PodRow, member: Membership | None) -> None:
        """Keep a pod that has succeeded for as long as it is there, if it depends on an owner."""
        if member is not None and member.owner_uids and pod.has_succeeded:
            self._done[pod.key] = (pod, member)
            self.watch(pod.key, None, member)

    def forget_done(self, key: str, uid: str = "") -> None:
        """Keep it no more: it is gone, or something else now."""
        found = self._done.get(key)
        if found is not None and uid in ("", found[0].uid):
            del self._done[key]
            self.watch(key, found[1], None)
