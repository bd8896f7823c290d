"""Devices for claims in one cycle: where pods with claims find them.

Nothing of this exists in a cycle without claims. Who has which is in the books of the base class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kaisched.core.claims.counting import counted, counting
from kaisched.core.claims.model import MOST_CONSUMERS, Ask, Claim, ClaimError
from kaisched.core.claims.offer import matches
from kaisched.core.refusals import Refusal
from kaisched.framework.session.capacity import room_of
from kaisched.framework.session.device_books import DeviceBooks
from kaisched.framework.session.device_codes import leave_one, refuse
from kaisched.framework.session.device_rooms import UNKNOWN, Wanted
from kaisched.framework.session.plugin_nodes import can_do_without

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import BoolVec, CodeVec, IntVec, RowVec
    from kaisched.core.claims.model import Identity
    from kaisched.core.claims.table import Held
    from kaisched.core.constraints import ClaimUse
    from kaisched.framework.session.capacity import Capacity
    from kaisched.framework.session.device_rooms import Room
    from kaisched.framework.session.shape_plan import ShapePlan


class Devices(DeviceBooks):
    """The devices that claims have, as of now, and the room that is left."""

    def are_newer(self, plan: ShapePlan) -> bool:
        """Tell whether devices have changed hands since a plan was judged that asks for some."""
        return plan.moves != len(self._moved) and bool(self._constraints[plan.shape].claims)

    def judge(self, plan: ShapePlan, capacity: Capacity) -> None:
        """Add to a plan what devices say, if its shape asks for some."""
        shape = plan.shape
        if self._plugin is not None:
            plan.filtered = plan.codes = self._plugin.refused(shape, plan.filtered)
        if not self._constraints[shape].claims:
            return
        codes, plan.one_of = self.judged(shape, plan.filtered, capacity)
        plan.codes = codes if codes is not None and codes.any() else None
        later = self.capped(shape, plan.cap, is_later=True) if self._apart else None
        plan.cap, plan.cap_later = self.capped(shape, plan.cap, is_later=False), later
        plan.moves = len(self._moved)

    def judge_moved(self, plan: ShapePlan) -> bool:
        """Judge a plan again where devices have changed hands; False where all nodes must be.

        That is so unless its pods have claims of their own on devices of one node each, and the two
        books are the same.
        """
        uses = self._constraints[plan.shape].claims
        room, plugin = self._rooms.get(uses), self._plugin
        if plugin is not None and not can_do_without(uses):
            plugin = None
        if plugin is not None and _needed_always(uses):
            return False
        if room is None or self._apart or plan.cap_later is not None or plan.cap is None:
            return False
        if (
            uses in self._rooms.faults
            or any(it.key for it in uses)
            or not self._table.offer.is_local
        ):
            return False
        rows = np.array(sorted(set(self._moved[plan.moves :])), np.int64)
        filtered = np.zeros(rows.size, np.int16) if plan.filtered is None else plan.filtered[rows]
        is_open = filtered == 0
        asked = is_open if plugin is None else is_open & ~plugin.by_plugin[rows]
        self._count(uses, rows[asked & (room.now[rows] == UNKNOWN)].tolist())
        if uses in self._rooms.faults:
            return False
        now = room.now[rows]
        if plugin is not None:
            now = plugin.bound(now, None, rows)
        plan.cap[rows] = np.maximum(now, 0)
        codes = np.where(is_open & (now <= 0), np.int16(Refusal.DEVICES), filtered)
        if plan.codes is None and codes.any():
            plan.codes = np.zeros(len(self._sites), np.int16)
        if plan.codes is not None:
            plan.codes[rows] = codes
            plan.codes = plan.codes if plan.codes.any() else None
        plan.moves = len(self._moved)
        return True

    def judged(
        self, shape: int, codes: CodeVec | None, capacity: Capacity
    ) -> tuple[CodeVec | None, CodeVec | None]:
        """Return codes ``(N,)``, with those of nodes without devices for a shape.

        Where one node is left to pods that share a claim, return also those before it was.
        """
        uses = self._constraints[shape].claims
        if not uses or self._constraints[shape].wait is not None:
            return codes, None
        refused = np.zeros(len(self._sites), np.int16) if codes is None else codes.copy()
        plugin = self._plugin
        if plugin is None or not can_do_without(uses):
            found = always = self._refuse_by(uses, refused, shape, capacity)
        else:
            without, with_ = plugin.split(refused)
            found = self._refuse_by(uses, without, shape, capacity)
            always = self._refuse_by(_needed_always(uses), with_, shape, capacity)
            refused = plugin.joined(without, with_)
        if not any(self._are_many(it.key) for it in self._open(uses) if it.key):
            return refused, None
        # One device does for all of them.
        room = room_of(capacity.free(), self._request_beside_claims(shape))
        before = refused.copy()
        leave_one(refused, *self._with_devices(room, found, always))
        return refused, before

    def _with_devices(
        self, room: IntVec, found: Room | None, always: Room | None
    ) -> tuple[IntVec, IntVec]:
        """Return bounds ``(N,)`` on pods: room, and devices now or later where they are needed."""
        now, later = room, room
        for each, is_of in ((found, False), (always, True)):
            if each is None:
                continue
            where = np.ones(len(room), np.bool_)
            if self._plugin is not None:
                where = self._plugin.by_plugin == is_of
            now = np.where(where, np.minimum(now, each.now), now)
            later = np.where(where, np.minimum(later, each.later), later)
        return now, later

    def _request_beside_claims(self, shape: int) -> IntVec:
        request: IntVec = self._request[:, shape].copy()
        if self._plugin is not None:
            request[self._plugin.row] -= self._plugin.pieces(int(request[self._gpus]))
        if self._gpus >= 0:
            request[self._gpus] = 0
        return request

    def _refuse_by(
        self, uses: tuple[ClaimUse, ...], refused: CodeVec, shape: int, capacity: Capacity
    ) -> Room | None:
        """Refuse nodes where claims cannot be had, of those that are not refused already.

        Return how many pods each node has devices for; None if all claims have theirs.
        """
        for use in uses:
            if (held := self._held(use.key)) is not None:
                refuse(refused, ~self._reach(held), Refusal.DEVICE_PLACE)
                if self._is_given_away(use.key):
                    refused[refused == 0] = int(Refusal.DEVICES)
        if not self._open(uses):
            return None
        found = self._room(uses, refused == 0, shape, capacity)
        if uses in self._rooms.faults:
            refused[refused == 0] = int(Refusal.DEVICE_CLAIM)
        if self._apart:
            refuse(refused, (found.now <= 0) & (found.later > 0), Refusal.DEVICES_LEAVING)
        refuse(refused, found.now <= 0, Refusal.DEVICES)
        return found

    def in_order(self, shape: int, rows: RowVec) -> RowVec:
        """Return the nodes of equal pods in the order in which their devices were counted.

        Where nodes have devices in common, what one gets decides what is left for the next.
        """
        if self._table.offer.is_local or not self._constraints[shape].claims:
            return rows
        return np.sort(rows)

    def capped(self, shape: int, cap: IntVec | None, *, is_later: bool) -> IntVec | None:
        """Return a bound ``(N,)`` on pods of a shape, with that of devices: now, or later."""
        uses = self._constraints[shape].claims
        left = [self._left(it.key) for it in uses if it.key]
        if left:
            of_claims = np.full(len(self._sites), max(min(left), 0), np.int64)
            cap = of_claims if cap is None else np.minimum(cap, of_claims)
        most = self._most(uses, is_later=is_later)
        if self._plugin is not None and can_do_without(uses):
            always = self._most(_needed_always(uses), is_later=is_later)
            most = self._plugin.bound(most, always)
        if most is None:
            return cap
        return most if cap is None else np.minimum(cap, most)

    def _most(self, uses: tuple[ClaimUse, ...], *, is_later: bool) -> IntVec | None:
        """Return how many pods ``(N,)`` find devices for claims of their own; None for none."""
        own = [it for it in self._open(uses) if not it.key]
        room = self._rooms.get(uses)
        if not own or room is None:
            return None
        return np.maximum(room.later if is_later else room.now, 0)

    def _left(self, key: str) -> int:
        """Return how many more pods may use a claim."""
        chosen = self._chosen.get(key)
        users = self._table.consumers.get(key, 0) + (len(chosen.users) if chosen else 0)
        return MOST_CONSUMERS - users

    def open_claims(self, shape: int) -> list[tuple[ClaimUse, Claim]]:
        """Return the claims of a shape that have no devices yet, with what they ask for."""
        open_ = self._open(self._constraints[shape].claims)
        return [(use, self._table.specs[use.spec]) for use in open_]

    def numbers(self, shape: int, rows: list[int]) -> tuple[Ask, IntVec, IntVec] | None:
        """Return the request of a shape, and on some nodes how many devices do, and are free.

        None if it is more than one plain request, or devices are more than free or taken.
        """
        specs = self._wanted(self._constraints[shape].claims).first
        count = counted(self._table.offer, specs, self._table.selectors)
        if count is None or not self._table.offer.is_local:
            return None
        try:
            found = [count.numbers(self._sites[row], self._now.taken) for row in rows]
        except ClaimError:
            return None
        known = [it for it in found if it is not None]
        if len(known) < len(rows):
            return None
        every, free = np.array(known, np.int64).T
        return count.ask, every, free

    def are_short(self, shape: int, count: int) -> bool:
        """Tell whether so many pods of a shape find too few devices, once leaving pods have left.

        Its plan is up to date.
        """
        room = self._rooms.get(self._constraints[shape].claims)
        if room is None:
            return False
        devices = room.later if self._apart else room.now
        return int(np.maximum(devices, 0).sum()) < count

    def have_some_for(self, shape: int, tasks: RowVec) -> BoolVec | None:
        """Tell which running tasks have devices that do for a shape; None if that is not known.

        It is not if pods or nodes share devices, or some nodes offer them by a plugin.
        """
        offer, selectors = self._table.offer, self._table.selectors
        specs = self._wanted(self._constraints[shape].claims).first
        asks = [ask for spec in specs for each in spec.requests for ask in each.options]
        counts = [counting(offer, ask, selectors) for ask in asks if not ask.is_admin]
        if self._plugin is not None or not offer.is_local or None in counts or not counts:
            return None
        found = np.zeros(len(tasks), np.bool_)
        do: dict[int, frozenset[Identity]] = {}
        for at, task in enumerate(tasks.tolist()):
            node, keys = int(self._node_of_task[task]), self._table.claims_of_task.get(task, ())
            if not keys or node < 0:
                continue
            if node not in do:
                try:
                    of_node = [it.devices(self._sites[node]) for it in counts if it is not None]
                except ClaimError:
                    return None
                if None in of_node:
                    return None
                do[node] = frozenset(device for some in of_node for device in some or ())
            held = [self._table.held[key].portions for key in keys if key in self._table.held]
            found[at] = any(identity in do[node] for some in held for identity, _ in some)
        return found

    def fault(self, shape: int) -> str:
        """Return why the claims of a shape cannot be allocated at all, or an empty text."""
        uses = self._constraints[shape].claims
        return "" if can_do_without(uses) else self._rooms.faults.get(uses, "")

    def _room(
        self, uses: tuple[ClaimUse, ...], allowed: BoolVec, shape: int, capacity: Capacity
    ) -> Room:
        fits = None
        if not self._table.offer.is_local:
            self._rooms.drop(uses)
            fits = capacity.room(shape)
        room = self._rooms.made(uses)
        self._count(uses, room.missing(allowed), fits)
        return room

    def _count(
        self, uses: tuple[ClaimUse, ...], missing: list[int], fits: IntVec | None = None
    ) -> None:
        books = self._now, self._later if self._apart else None
        self._rooms.count(uses, self._wanted(uses), missing, books, fits)

    def _wanted(self, uses: Iterable[ClaimUse]) -> Wanted:
        open_, specs = self._open(uses), self._table.specs
        first = [specs[it.spec] for it in open_]
        further = [specs[it.spec] for it in open_ if not it.key]
        return Wanted(first, None if len(further) == len(first) else further)

    def _reach(self, held: Held) -> BoolVec:
        return np.array([matches(held.place, it) for it in self._sites], np.bool_)


def _needed_always(uses: tuple[ClaimUse, ...]) -> tuple[ClaimUse, ...]:
    return tuple(it for it in uses if not it.unless_plugin)
