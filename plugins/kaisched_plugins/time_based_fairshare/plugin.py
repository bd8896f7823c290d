"""The answer to the weight fold: ``max(0, W + k (W - U))``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaisched import Amounts, BoolVec, FloatVec, Plugin, RowVec, Session, hookimpl
from kaisched_plugins.time_based_fairshare.config import TimeBasedFairshareArguments
from kaisched_plugins.time_based_fairshare.history import (
    Entitlement,
    entitlement,
    folded,
    measured,
)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """What holds while queues and the cluster's size are the same."""

    queues: object
    total: Amounts
    has: Entitlement


class TimeBasedFairshare(Plugin):
    """Gives queues that have used much of the surplus lately less of it now."""

    name = "time-based-fairshare"

    Arguments = TimeBasedFairshareArguments

    @hookimpl
    def session_open(self, session: Session) -> FloatVec | None:
        """Measure the usage of every queue; None where nothing counts."""
        usage = session.usage
        if usage is None or not self.arguments.k_value or not np.count_nonzero(usage.parts):
            return None
        return measured(
            usage.parts,
            self._entitlement(session),
            is_of_siblings=self.arguments.normalization == "siblings",
            counts_quota=self.arguments.count_in_quota,
        )

    @hookimpl
    def over_quota_weights(
        self,
        session: Session,
        resource: RowVec,
        queue: RowVec,
        group: RowVec,
        active: BoolVec,  # noqa: ARG002 - a question's arguments are the same for all
        weights: FloatVec,
    ) -> FloatVec | None:
        """Answer the share weights of the round (R5)."""
        usage: FloatVec | None = session.state[self.name]
        if usage is None:
            return None
        return folded(self.arguments.k_value, usage[resource, queue], group, weights)

    def _entitlement(self, session: Session) -> Entitlement:
        known: _Known | None = session.hints.get(self.name)
        queues, total = session.queues, session.snapshot.total
        if known is None or known.queues is not queues or not np.array_equal(known.total, total):
            has = entitlement(queues.tree, queues.deserved, queues.weight, total)
            known = session.hints[self.name] = _Known(queues, total.copy(), has)
        return known.has
