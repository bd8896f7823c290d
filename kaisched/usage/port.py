"""The port of usage history: samples go in, one usage vector comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kaisched.core.tree import roll_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kaisched.core.axis import Amounts
    from kaisched.core.snapshot import Snapshot
    from kaisched.core.usage import Usage


@dataclass(frozen=True, slots=True)
class Sample:
    """Amounts that every queue held at one moment, with its descendants, and the capacity.

    A sample holds until the next one, but for no more than
    :data:`~kaisched.usage.history.HOLD_S`.
    """

    time_s: float
    resources: tuple[str, ...]
    queues: tuple[str, ...]
    allocated: Amounts
    """``(R, Q)`` base units."""
    capacity: Amounts
    """``(R,)`` base units."""


class ServerHealth(NamedTuple):
    """Whether the server of a usage store answers."""

    is_reachable: bool
    message: str
    """What it answers, or why it does not; without credentials."""


class UsageStore(Protocol):
    """Keeps samples and answers with the usage they add up to.

    Neither method waits: a store that asks a server does so in a thread of its own. Neither raises:
    failures are a state and a reason of the answer.
    """

    def record(self, sample: Sample) -> None:
        """Add a sample of the present. Samples come in the order of their times."""
        ...

    def usage(self, now_s: float, queues: Sequence[str], resources: Sequence[str]) -> Usage:
        """Return decayed usage over decayed capacity, parts ``(R, Q)`` in the order asked.

        A queue or resource without history has used nothing.
        """
        ...

    def is_ready(self) -> bool:
        """Tell whether there is an answer better than "absent", or none is to be expected."""
        ...

    def close(self) -> None:
        """Write what is still unwritten, and release files and threads."""
        ...


def sample_of(snapshot: Snapshot, now_s: float) -> Sample:
    """Return the sample of a snapshot: held amounts at every level, and the divided total."""
    return Sample(
        now_s,
        snapshot.axis.names,
        snapshot.queues.name,
        roll_up(snapshot.allocated, snapshot.queues.tree),
        snapshot.total,
    )
