"""A job with a list of node pools, as one shard knows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.cluster.grouping import Membership
    from kaisched.cluster.translate import PodRow

Known = tuple["PodRow", "Membership"]
"""A pod and the job that it is in."""


@dataclass(slots=True)
class Listed:
    """A job with a list of pools."""

    pools: tuple[str, ...]
    """Label values, the pool to try first in front."""
    queue: str
    """The queue that it names, of whatever pool."""
    speaker: str
    """The first of its pods by name, whose word counts where pods differ."""
    pods: dict[str, Known] = field(default_factory=dict)

    def hear(self, pod: str, pools: tuple[str, ...], queue: str) -> bool:
        """Take the word of a pod if it is the speaker or before it; tell whether it is news."""
        if pod > self.speaker:
            return False
        before = (self.pools, self.queue)
        self.pools, self.queue, self.speaker = pools, queue, pod
        return before != (pools, queue)
