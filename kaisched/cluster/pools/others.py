"""Pods of other pools without a list. They may get one: it may be read after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.cluster.pools.listed import Known


class Others(dict[str, "Known"]):
    """Such pods by name, and their names by job."""

    def __init__(self) -> None:
        """Know none."""
        super().__init__()
        self._of_job: dict[str, set[str]] = {}

    def put(self, key: str, known: Known) -> None:
        """Add or replace a pod."""
        self.drop(key)
        self[key] = known
        self._of_job.setdefault(known[1].job, set()).add(key)

    def drop(self, key: str) -> bool:
        """Take a pod out; tell whether it was there."""
        known = self.pop(key, None)
        if known is None:
            return False
        names = self._of_job[known[1].job]
        names.discard(key)
        if not names:
            del self._of_job[known[1].job]
        return True

    def of_job(self, job: str) -> set[str]:
        """Return the pods of a job, by name."""
        return self._of_job.get(job, set())
