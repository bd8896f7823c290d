"""Devices for claims in one cycle: where pods with claims find them, and which they get.

Devices are chosen as soon as a pod is placed, in the order in which Kubernetes would choose. Two
books are kept: what is taken now, and what will be once pods that are leaving have left. A promise
is in the second only. Nothing of this exists in a cycle without claims.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.claims.model import MOST_CONSUMERS, Allocation, Claim, Site
from kaisched.core.claims.pools import matches
from kaisched.core.claims.search import allocate
from kaisched.core.claims.table import ClaimTable, Held, Holdings, held_by
from kaisched.core.refusals import Refusal
from kaisched.core.states import ACTIVE_STATES, TaskState
from kaisched.framework.session.capacity import room_of
from kaisched.framework.session.device_codes import leave_one, refuse
from kaisched.framework.session.device_rooms import UNKNOWN, DeviceRooms
from kaisched.framework.session.plugin_nodes import PluginNodes, can_do_without
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import BoolVec, CodeVec, IntVec, RowVec
    from kaisched.core.constraints import ClaimUse
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.capacity import Capacity
    from kaisched.framework.session.device_rooms import Room
    from kaisched.framework.session.shape_plan import ShapePlan

    StateVec: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int8]]

_ALLOCATED: Final = int(TaskState.ALLOCATED)
_PIPELINED: Final = int(TaskState.PIPELINED)
_RELEASING: Final = int(TaskState.RELEASING)
_SOMEBODY: Final = -1
"""Stands for users of a claim that no task is known for."""


class Grant(NamedTuple):
    """What a task gets in this cycle for one of its claims."""

    key: str
    allocation: Allocation


class _Choice(NamedTuple):
    """What a claim gets in this cycle, and the tasks that use it."""

    held: Held
    users: set[int]
    is_now: bool
    """Else it is promised."""


class Devices:
    """The devices that claims have, as of now, and the room that is left."""

    def __init__(self, snapshot: Snapshot, table: ClaimTable) -> None:
        """Start with what claims have."""
        self._table = table
        self._constraints = snapshot.shapes.constraints
        self._request = snapshot.shapes.request
        self._gpus = snapshot.axis.position.get(CLAIMED_GPU, -1)
        self._shape_of_task = snapshot.tasks.shape_of_task
        statics = snapshot.nodes.statics
        self._sites = [Site(*it) for it in zip(statics.name, statics.labels, strict=True)]
        self._now, self._later = Holdings(), Holdings()
        self._apart = 0
        """How many claims are in one of the books only."""
        state = snapshot.tasks.state
        self._staying: dict[str, set[int]] = {}
        """By claim that has devices, the tasks that use it and are not leaving."""
        for key, held in table.held.items():
            users = table.users.get(key, ())
            staying = {it for it in users if ACTIVE_STATES[state[it]]}
            is_ending = any(state[it] == _RELEASING for it in users)
            if not (staying or is_ending) or table.consumers.get(key, 0) > len(users):
                staying.add(_SOMEBODY)
            self._staying[key] = staying
            self._now.add(held.portions)
            if staying:
                self._later.add(held.portions)
            else:
                self._apart += 1
        self._rooms = DeviceRooms(table, self._sites)
        self._plugin: PluginNodes | None = None
        """Where a resource is offered by a device plugin that is offered by claims elsewhere."""
        if table.bridge is not None:
            self._plugin = PluginNodes(snapshot, table.bridge)
        self._chosen: dict[str, _Choice] = {}
        """Claims that get devices in this cycle."""
        self._moved: list[int] = []
        """The node of each move of a task with claims, in order."""
        self.granted: dict[int, list[Grant]] = {}
        """By task, the claims that are allocated with it."""

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
        codes = self.judged(shape, plan.filtered, capacity)
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

    # -- where there is room ---------------------------------------------------------------------

    def judged(self, shape: int, codes: CodeVec | None, capacity: Capacity) -> CodeVec | None:
        """Return codes ``(N,)``, with those of nodes without devices for a shape."""
        uses = self._constraints[shape].claims
        if not uses or self._constraints[shape].wait is not None:
            return codes
        refused = np.zeros(len(self._sites), np.int16) if codes is None else codes.copy()
        plugin = self._plugin
        if plugin is None or not can_do_without(uses):
            self._refuse_by(uses, refused)
        else:
            without, with_ = plugin.split(refused)
            self._refuse_by(uses, without)
            self._refuse_by(_needed_always(uses), with_)
            refused = plugin.joined(without, with_)
        if any(it.key for it in self._open(uses)):
            # One device does for all of them.
            leave_one(refused, room_of(capacity.free(), self._request_beside_claims(shape)))
        return refused

    def _request_beside_claims(self, shape: int) -> IntVec:
        request: IntVec = self._request[:, shape].copy()
        if self._plugin is not None:
            request[self._plugin.row] -= self._plugin.unit * request[self._gpus]
        if self._gpus >= 0:
            request[self._gpus] = 0
        return request

    def _refuse_by(self, uses: tuple[ClaimUse, ...], refused: CodeVec) -> None:
        """Refuse nodes where claims cannot be had, of those that are not refused already."""
        for use in uses:
            if (held := self._held(use.key)) is not None:
                refuse(refused, ~self._reach(held), Refusal.DEVICE_PLACE)
                if self._is_given_away(use.key):
                    refused[refused == 0] = int(Refusal.DEVICES)
        if not self._open(uses):
            return
        found = self._room(uses, refused == 0)
        if uses in self._rooms.faults:
            refused[refused == 0] = int(Refusal.DEVICE_CLAIM)
        if self._apart:
            refuse(refused, (found.now <= 0) & (found.later > 0), Refusal.DEVICES_LEAVING)
        refuse(refused, found.now <= 0, Refusal.DEVICES)

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

    def may_stay(self, task: int) -> bool:
        """Tell whether a task that is leaving could keep its devices: nobody is promised them."""
        keys = self._table.claims_of_task.get(task, ())
        return not any(self._is_given_away(key) for key in keys)

    def _is_given_away(self, key: str) -> bool:
        """Tell whether others are promised devices of a claim, or counters that these take from.

        Of devices that are shared, or take from counters, any promise in their pool counts: what
        else would be left is not worked out.
        """
        held = self._table.held.get(key)
        if held is None or self._staying[key]:
            return False
        promised = {
            identity[:2]
            for other, choice in self._chosen.items()
            if other != key and not choice.is_now
            for identity, _ in choice.held.portions
        }
        return any(
            identity in self._later.taken.devices
            or (
                identity[:2] in promised
                and (consumed is not None or self._table.offer.has_counters(*identity[:2]))
            )
            for identity, consumed in held.portions
        )

    def fault(self, shape: int) -> str:
        """Return why the claims of a shape cannot be allocated at all, or an empty text."""
        uses = self._constraints[shape].claims
        return "" if can_do_without(uses) else self._rooms.faults.get(uses, "")

    def _room(self, uses: tuple[ClaimUse, ...], allowed: BoolVec) -> Room:
        room = self._rooms.made(uses)
        self._count(uses, room.missing(allowed))
        return room

    def _count(self, uses: tuple[ClaimUse, ...], missing: list[int]) -> None:
        books = self._now, self._later if self._apart else None
        self._rooms.count(uses, self._specs(uses), missing, books)

    def _open(self, uses: Iterable[ClaimUse]) -> list[ClaimUse]:
        """Return the claims that have no devices yet."""
        return [it for it in uses if self._held(it.key) is None]

    def _specs(self, uses: Iterable[ClaimUse]) -> list[Claim]:
        return [self._table.specs[it.spec] for it in self._open(uses)]

    def _held(self, key: str) -> Held | None:
        if not key:
            return None
        chosen = self._chosen.get(key)
        return self._table.held.get(key) if chosen is None else chosen.held

    def _reach(self, held: Held) -> BoolVec:
        return np.array([matches(held.place, it) for it in self._sites], np.bool_)

    # -- moves -----------------------------------------------------------------------------------

    def note_all(self, tasks: RowVec, nodes: RowVec, state: StateVec, sign: int) -> None:
        """Do :meth:`note` for moves, in their order."""
        for task, node in zip(tasks.tolist(), nodes.tolist(), strict=True):
            self.note(task, node, int(state[task]), sign)

    def note(self, task: int, node: int, state: int, sign: int) -> None:
        """Take note of a move, after it.

        Args:
            task: who moved.
            node: where to, or from where.
            state: of the task now.
            sign: 1 for a task that is there from now on, -1 for one that is not.

        """
        keys = self._table.claims_of_task.get(task)
        if not keys:
            return
        if sign > 0 and state in (_ALLOCATED, _PIPELINED):
            self._choose(task, keys, node, is_now=state == _ALLOCATED)
        elif sign > 0:
            self._stay(task, keys)
        elif task in self.granted:
            self._take_back(task)
        else:
            self._leave(task, keys)
        self._moved.append(node)
        self._rooms.forget(node)

    def _choose(self, task: int, keys: tuple[str, ...], node: int, *, is_now: bool) -> None:
        """Choose devices for the claims of a task that have none."""
        uses = self._constraints[int(self._shape_of_task[task])].claims
        if len(uses) != len(keys):
            return  # it waits for a claim
        pairs = list(zip(keys, uses, strict=True))
        if self._plugin is not None:
            pairs = list(compress(pairs, self._plugin.needed_at(node, uses)))
        wanted = [
            (key, self._table.specs[use.spec]) for key, use in pairs if self._held(use.key) is None
        ]
        book = self._now if is_now else self._later
        specs = [spec for _, spec in wanted]
        site, table = self._sites[node], self._table
        found = allocate(table.offer, site, specs, table.selectors, book.taken) if specs else []
        if found is None:
            # A promise may rest on devices that a pod keeps after all: the next cycle finds out.
            assert not is_now, f"no devices on {site.name} for {keys}"
            found = []
        grants = []
        for (key, _), allocation in zip(wanted, found, strict=False):
            held = held_by(allocation)
            self._chosen[key] = _Choice(held, set(), is_now)
            self._later.add(held.portions)
            if is_now:
                self._now.add(held.portions)
            else:
                self._apart += 1
            grants.append(Grant(key, allocation))
        for key, use in pairs:
            if key in self._chosen:
                self._chosen[key].users.add(task)
            elif use.key:
                self._stay(task, (key,))
        self.granted[task] = grants

    def _take_back(self, task: int) -> None:
        """Undo :meth:`_choose`."""
        del self.granted[task]
        for key in self._table.claims_of_task[task]:
            chosen = self._chosen.get(key)
            if chosen is None or task not in chosen.users:
                self._leave(task, (key,))
                continue
            chosen.users.discard(task)
            if chosen.users:
                continue
            del self._chosen[key]
            self._later.remove(chosen.held.portions)
            if chosen.is_now:
                self._now.remove(chosen.held.portions)
            else:
                self._apart -= 1

    def _leave(self, task: int, keys: tuple[str, ...]) -> None:
        for key in keys:
            staying = self._staying.get(key)
            if staying and task in staying:
                staying.discard(task)
                if not staying:
                    self._later.remove(self._table.held[key].portions)
                    self._apart += 1

    def _stay(self, task: int, keys: tuple[str, ...]) -> None:
        """Undo :meth:`_leave`."""
        for key in keys:
            staying = self._staying.get(key)
            if staying is not None and task not in staying:
                if not staying:
                    self._later.add(self._table.held[key].portions)
                    self._apart -= 1
                staying.add(task)


def _needed_always(uses: tuple[ClaimUse, ...]) -> tuple[ClaimUse, ...]:
    return tuple(it for it in uses if not it.unless_plugin)
