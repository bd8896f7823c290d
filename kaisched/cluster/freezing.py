"""Freezes the rows of a store with what only some clusters have: budgets, claims, pools."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kaisched.cluster.claims.device_claims import DeviceClaims
    from kaisched.cluster.facts import Facts
    from kaisched.cluster.pools.book import PoolBook
    from kaisched.cluster.rowstore import RowStore
    from kaisched.core.snapshot import Snapshot


class Freezer:
    """Makes snapshots; the same object while nothing happens."""

    def __init__(self, rows: RowStore, facts: Facts, claims: DeviceClaims, pools: PoolBook) -> None:
        """Take the parts of a store."""
        self._rows, self._budgets = rows, facts.disruptions
        self._claims, self._pools = claims, pools
        self._compactions = 0
        self._frozen: tuple[Snapshot, Snapshot] | None = None
        """The rows' last snapshot, and the same with the rest."""

    def snapshot(self) -> Snapshot:
        """Freeze the present state."""
        rows, budgets, claims = self._rows, self._budgets, self._claims
        if rows.axis.bridged != claims.gpus.bridged:
            rows.count_by(rows.axis.bridging(claims.gpus.bridged))
        bare = rows.snapshot()
        if rows.compactions != self._compactions:
            self._compactions = rows.compactions
            claims.specs.keep({use.spec for it in bare.shapes.constraints for use in it.claims})
        overdrawn = self._pools.overdrafts.table(rows, self._pools.owners.served)
        if not len(budgets) and not claims.has_table and overdrawn is None:
            self._frozen = None
            return bare
        if self._frozen is None or self._frozen[0] is not bare:
            whole = bare
            if len(budgets):
                table = budgets.table(bare, rows.tasks.row_of_name, rows.compactions)
                whole = replace(whole, disruption_budgets=table)
            if claims.has_table:
                whole = replace(whole, claims=claims.table(rows.row_of_task))
            if overdrawn is not None:
                whole = replace(whole, overdrawn=overdrawn)
            self._frozen = bare, whole
        return self._frozen[1]
