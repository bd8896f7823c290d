"""The port of usage history: samples go in, one usage vector comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kaisched.core.tree import roll_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import Amounts
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage


@dataclass(frozen=True, slots=True)
class Sample:
    """What every queue held at one moment, its descendants included, and what there was.

    It stands for the time until the next sample, but for no more than
    :data:`~kaisched.usage.history.HOLD_S`.
    """

    time_s: float
    resources: tuple[str, ...]
    queues: tuple[str, ...]
    allocated: Amounts
    """``(R, Q)`` base units."""
    capacity: Amounts
    """``(R,)`` base units."""


class UsageStore(Protocol):
    """Remembers samples and says what they amount to.

    Neither method waits: a store that asks somebody else does so in a thread of its own. Neither
    raises: what goes wrong is a state and a reason of the answer.
    """

    def record(self, sample: Sample) -> None:
        """Take in what is the case now. Samples come in the order of their making."""
        ...

    def usage(self, now_s: float, queues: Sequence[str], resources: Sequence[str]) -> Usage:
        """Return decayed usage over decayed capacity, parts ``(R, Q)`` in the order asked.

        A queue or resource without history has used nothing.
        """
        ...

    def is_ready(self) -> bool:
        """Tell whether there is an answer better than "absent", or no hope for one."""
        ...

    def close(self) -> None:
        """Write what is left to be written and let go of files and threads."""
        ...


def sample_of(snapshot: Snapshot, now_s: float) -> Sample:
    """Return what a snapshot shows: held amounts at every level, and the total that is divided."""
    return Sample(
        now_s,
        snapshot.axis.names,
        snapshot.queues.name,
        roll_up(snapshot.allocated, snapshot.queues.tree),
        snapshot.total,
    )
