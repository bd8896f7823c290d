"""Devices for claims in one cycle: who has and gets which, and where pods with claims find some.

Nothing of this exists in a cycle without claims. Devices are chosen as soon as a pod is placed, in
the order in which Kubernetes would choose. Two books are kept: what is taken now, and what will be
once pods that are leaving have left. A promise is in the second only.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.axis import ACTIVE_STATES, GPU, GPU_UNIT, TaskState
from kaisched.core.claims.counting import (
    MOST,
    MOST_EVALUATIONS,
    counted,
    evaluations_of,
    pods_with,
    tries_of,
)
from kaisched.core.claims.model import MOST_CONSUMERS, Allocation, Ask, Claim, ClaimError, Site
from kaisched.core.claims.offer import matches
from kaisched.core.claims.search import MOST_STEPS, Steps, StepsSpentError, allocate
from kaisched.core.claims.table import ClaimTable, Held, Holdings, held_by
from kaisched.core.refusals import Refusal
from kaisched.framework.session.capacity import room_of
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kaisched.core.axis import BoolVec, CodeVec, IntVec, RowVec
    from kaisched.core.claims.counting import Counted
    from kaisched.core.claims.model import Claim, Named, Site
    from kaisched.core.claims.table import Bridge, ClaimTable, Held, Holdings
    from kaisched.core.constraints import ClaimUse
    from kaisched.core.snapshot import Snapshot
    from kaisched.framework.session.capacity import Capacity
    from kaisched.framework.session.filling import ShapePlan

    Given: TypeAlias = Mapping[int, Mapping[str, Allocation]]
    """By task and claim."""
    StateVec: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int8]]

_ELSEWHERE: Final = np.int16(Refusal.OUTSIDE_NODE_SET)
"""Marks nodes of the other kind while those of one kind are judged."""
UNKNOWN: Final = -1
_ANY: Final = 1 << 40
"""As many pods as like to: they need one claim, which they share."""
_MANY: Final = 64
"""So many nodes are counted by what their devices look like, not one by one."""
_ALLOCATED: Final = int(TaskState.ALLOCATED)
_PENDING: Final = int(TaskState.PENDING)
_PIPELINED: Final = int(TaskState.PIPELINED)
_RELEASING: Final = int(TaskState.RELEASING)
_SOMEBODY: Final = -1
"""Stands for users of a claim that no task is known for."""


def refuse(refused: CodeVec, where: BoolVec, refusal: Refusal) -> None:
    """Refuse nodes that are not refused already."""
    refused[where & (refused == 0)] = int(refusal)


def leave_one(refused: CodeVec, now: IntVec, later: IntVec) -> None:
    """Allow one node only to pods that share a claim without devices: all need that node.

    That with most room for them now, or else later.
    """
    for code, room in ((0, now), (int(Refusal.DEVICES_LEAVING), later)):
        found = np.flatnonzero(refused == code)
        if found.size:
            best = found[room[found].argmax()]
            refused[np.isin(refused, (0, int(Refusal.DEVICES_LEAVING)))] = int(Refusal.DEVICES)
            refused[best] = code
            return


class PluginNodes:
    """Nodes with a device plugin for the bridged resource, and the shapes that need each kind."""

    def __init__(self, snapshot: Snapshot, bridge: Bridge) -> None:
        """Look at the nodes of a snapshot."""
        self.row = snapshot.axis.position[bridge.resource]
        self._by_claim = np.array([it in bridge.nodes for it in snapshot.nodes.name], np.bool_)
        offered = snapshot.nodes.allocatable[self.row] > 0
        self.by_plugin: BoolVec = offered & ~self._by_claim
        """``(N,)``"""
        self._constraints = snapshot.shapes.constraints
        self._request = snapshot.shapes.request
        self._claimed = snapshot.axis.position[CLAIMED_GPU]

    def pieces(self, claimed: int) -> int:
        """Return thousandths of GPUs by claim in base units of the resource."""
        return claimed if self.row == GPU else claimed // GPU_UNIT

    def needed_at(self, node: int, uses: Iterable[ClaimUse]) -> list[bool]:
        """Tell which of its claims a pod needs on a node."""
        is_by_plugin = bool(self.by_plugin[node])
        return [not (is_by_plugin and it.unless_plugin) for it in uses]

    def refused(self, shape: int, codes: CodeVec | None) -> CodeVec | None:
        """Return codes ``(N,)``, with those of nodes that cannot give what a shape asks a plugin.

        What it asks for by claims is counted among the pieces of the resource too.
        """
        request = self._request[:, shape]
        if request[self.row] <= self.pieces(int(request[self._claimed])):
            return codes
        if can_do_without(self._constraints[shape].claims) or not self._by_claim.any():
            return codes
        refused = np.zeros(len(self._by_claim), np.int16) if codes is None else codes.copy()
        refused[self._by_claim & (refused == 0)] = int(Refusal.BY_CLAIM_ONLY)
        return refused

    def split(self, codes: CodeVec) -> tuple[CodeVec, CodeVec]:
        """Return codes ``(N,)`` to judge nodes without the plugin by, and those with it."""
        without: CodeVec = np.where(self.by_plugin, _ELSEWHERE, codes)
        with_: CodeVec = np.where(self.by_plugin, codes, _ELSEWHERE)
        return without, with_

    def joined(self, without: CodeVec, with_: CodeVec) -> CodeVec:
        """Undo :meth:`split`."""
        joined: CodeVec = np.where(self.by_plugin, with_, without)
        return joined

    def bound(
        self, without: IntVec | None, with_: IntVec | None, rows: RowVec | None = None
    ) -> IntVec:
        """``(N,)`` the bound on pods by devices: that of nodes without the plugin, or with it.

        With ``rows`` it is of these nodes only ``(K,)``.
        """
        by_plugin = self.by_plugin if rows is None else self.by_plugin[rows]
        most = (_ANY if it is None else it for it in (with_, without))
        bound: IntVec = np.where(by_plugin, *most)
        return bound


def can_do_without(uses: Iterable[ClaimUse]) -> bool:
    """Tell whether a pod needs one of its claims on nodes without a device plugin only."""
    return any(it.unless_plugin for it in uses)


class Wanted(NamedTuple):
    """The claims of pods that have no devices yet."""

    first: Sequence[Claim]
    """Those of the first pod."""
    further: Sequence[Claim] | None
    """Those of each pod after it; None for the same. A claim that they share is had once."""


class FreeDevices:
    """How many pods with equal claims each node has devices for."""

    __slots__ = ("later", "now")

    def __init__(self, nodes: int) -> None:
        """Know nothing yet."""
        self.now: IntVec = np.full(nodes, UNKNOWN, np.int64)
        """``(N,)``"""
        self.later: IntVec = self.now.copy()
        """``(N,)`` once leaving pods have left."""

    def missing(self, allowed: BoolVec) -> list[int]:
        """Return the allowed nodes whose number is not known."""
        rows: list[int] = (allowed & (self.now == UNKNOWN)).nonzero()[0].tolist()
        return rows


class FreeDevicesByClaims:
    """The free capacity for all claims that were asked about."""

    def __init__(self, table: ClaimTable, sites: Sequence[Site]) -> None:
        """Know nothing yet."""
        self._table, self._sites = table, sites
        self._free_by_claims: dict[tuple[ClaimUse, ...], FreeDevices] = {}
        self._keyed: list[tuple[ClaimUse, ...]] = []
        """Those of them with claims that have a key."""
        self._looks: dict[Named, IntVec] = {}
        """``(N,)`` by the fields that are named, the number of what the devices look like."""
        self.faults: dict[tuple[ClaimUse, ...], str] = {}
        """Why claims cannot be allocated at all."""
        self._steps: dict[tuple[ClaimUse, ...], Steps] = {}
        """How many steps the searches for them may still take in this cycle."""

    def get(self, uses: tuple[ClaimUse, ...]) -> FreeDevices | None:
        """Return the room for pods with such claims, if it was asked about."""
        return self._free_by_claims.get(uses)

    def made(self, uses: tuple[ClaimUse, ...]) -> FreeDevices:
        """Return the room for pods with such claims; nothing is counted."""
        room = self._free_by_claims.get(uses)
        if room is None:
            room = self._free_by_claims[uses] = FreeDevices(len(self._sites))
            if any(it.key for it in uses):
                self._keyed.append(uses)
        return room

    def drop(self, uses: tuple[ClaimUse, ...]) -> None:
        """Forget the room for pods with such claims."""
        self._free_by_claims.pop(uses, None)
        if uses in self._keyed:
            self._keyed.remove(uses)

    def count(
        self,
        uses: tuple[ClaimUse, ...],
        wanted: Wanted,
        missing: list[int],
        books: tuple[Holdings, Holdings | None],
        fits: IntVec | None = None,
    ) -> None:
        """Count on nodes where the number is not known, by what is taken now and later.

        The second book is None if it is the same as the first. ``fits`` ``(N,)`` is how many pods
        have room on each node apart from devices: it is needed where several nodes can use a
        device.
        """
        room, (now, later) = self.made(uses), books
        table = self._table
        needed = evaluations_of(table.offer, wanted.first, table.selectors)
        if needed > MOST_EVALUATIONS:
            self.faults[uses] = (
                f"its selectors may need {needed:,} evaluations with the devices that there are, of"
                f" at most {MOST_EVALUATIONS:,}: shorten them, or name fewer attributes"
            )
            return
        steps = self._steps.setdefault(uses, Steps(self._most_steps))
        is_plain = missing and table.offer.is_local and wanted.further is None
        count = counted(table.offer, wanted.first, table.selectors) if is_plain else None
        try:
            self._fill(room.now, missing, wanted, now, count, fits, steps)
            if later is None:
                room.later[missing] = room.now[missing]
            else:
                self._fill(room.later, missing, wanted, later, count, fits, steps)
            self.faults.pop(uses, None)
            if steps.left < 0 and not (room.now > 0).any():
                text = f"the search for its devices took more than {self._most_steps:,} steps"
                self.faults[uses] = f"{text} on the nodes that were looked at"
        except ClaimError as error:
            self.faults[uses] = str(error)

    def _fill(
        self,
        column: IntVec,
        missing: list[int],
        wanted: Wanted,
        book: Holdings,
        count: Counted | None,
        fits: IntVec | None,
        steps: Steps,
    ) -> None:
        offer, selectors = self._table.offer, self._table.selectors
        if count is not None and len(missing) > _MANY and not count.is_of_parts:
            missing = self._fill_alike(column, missing, book, count)
        # Devices that several nodes can use are counted for the first of them only, and for no more
        # pods than have room there. A node without room keeps them from no other. Pods that share a
        # claim go to one node: it may be any.
        mine = None if offer.is_local or wanted.further is not None else book.copy()
        for row in missing:
            site = self._sites[row]
            number = None if count is None else count(site, book.taken)
            if number is None:
                most = MOST if mine is None or fits is None else int(fits[row])
                free = book.copy() if mine is None or not most else mine
                is_one = wanted.further == []
                further, most = (None, 1) if is_one else (wanted.further, most or MOST)
                try:
                    number = pods_with(
                        offer, site, wanted.first, selectors, free, most, further, steps
                    )
                except StepsSpentError:
                    number = 0
                number *= _ANY if is_one else 1
            column[row] = number

    @cached_property
    def _most_steps(self) -> int:
        """How many steps the searches for some claims may take on all nodes together.

        As many as one search may, and as many as it takes where nothing stands in the way: for a
        pod for each device of a node to look at each.
        """
        sizes = (len(self._table.offer.identities(site)) for site in self._sites)
        return MOST_STEPS + sum(2 * size * size for size in sizes)

    def _fill_alike(
        self, column: IntVec, missing: list[int], book: Holdings, count: Counted
    ) -> list[int]:
        """Count together on nodes where nothing is taken; return the rows of the others."""
        looks = self._looks.get(count.named)
        if looks is None:
            numbers = [self._table.offer.look(site, count.named) for site in self._sites]
            looks = self._looks[count.named] = np.array(numbers, np.int64)
        distinct, first, which = np.unique(looks[missing], return_index=True, return_inverse=True)
        found = [
            count.on_untaken(self._sites[missing[at]], look)
            for at, look in zip(first.tolist(), distinct.tolist(), strict=True)
        ]
        numbers = [UNKNOWN if it is None else it for it in found]
        column[missing] = np.array(numbers, np.int64)[which]
        taken = self._table.offer.nodes_of(book.taken.devices)
        return [row for row in missing if column[row] == UNKNOWN or self._sites[row].name in taken]

    def forget(self, node: int) -> None:
        """Count again where devices may have changed hands."""
        if not self._table.offer.is_local:
            self._free_by_claims.clear()
            self._keyed.clear()
            return
        for uses in self._keyed:
            del self._free_by_claims[uses]
        self._keyed.clear()
        for room in self._free_by_claims.values():
            room.now[node] = room.later[node] = UNKNOWN


class Grant(NamedTuple):
    """What a task gets in this cycle for one of its claims."""

    key: str
    allocation: Allocation


class Heir(NamedTuple):
    """A task with which a claim counts that counted with another one."""

    task: int
    before: int
    """The task that has left."""
    charge: IntVec
    """``(R,)`` what the claim counts in the queue."""


class _Choice(NamedTuple):
    """What a claim gets in this cycle, and the tasks that use it."""

    held: Held
    users: dict[int, bool]
    """By task, whether it is there now; else it is promised its node."""
    is_now: bool
    """Else it is promised."""


class Devices:
    """The devices that claims have, and get, as of now, and the room that is left."""

    def __init__(self, snapshot: Snapshot, table: ClaimTable) -> None:
        """Start with what claims have."""
        self._table = table
        self._constraints = snapshot.shapes.constraints
        self._request = snapshot.shapes.request
        self._axis = snapshot.axis
        self._gpus = snapshot.axis.position.get(CLAIMED_GPU, -1)
        self._shape_of_task = snapshot.tasks.shape_of_task
        self._node_of_task = snapshot.tasks.node_of_task
        statics = snapshot.nodes.statics
        self._sites = [Site(*it) for it in zip(statics.name, statics.labels, strict=True)]
        self._now, self._later = Holdings(), Holdings()
        self._apart = 0
        """How many claims are in one of the books only."""
        state = snapshot.tasks.state
        self._staying: dict[str, dict[int, None]] = {}
        """By claim that has devices, the tasks that use it and are not leaving, in order."""
        for key, held in table.held.items():
            users = table.users.get(key, ())
            staying = dict.fromkeys(it for it in users if ACTIVE_STATES[state[it]])
            is_ending = any(state[it] == _RELEASING for it in users)
            if not (staying or is_ending) or table.consumers.get(key, 0) > len(users):
                staying[_SOMEBODY] = None
            self._staying[key] = staying
            self._now.add(held.portions)
            if staying:
                self._later.add(held.portions)
            else:
                self._apart += 1
        self._heirs: dict[str, int] = {}
        """By claim, the task that it counts with since the one before has left."""
        self.handed_on: list[tuple[int, str, int]] = []
        """(task, claim, sign): from now on a claim counts with a task, or no longer (-1)."""
        self._waits = state == _PENDING
        self._users: Counter[str] | None = None
        self._free_by_claims = FreeDevicesByClaims(table, self._sites)
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
        self._given: Given = {}
        """By task, what its claims get while tasks are placed :meth:`together`."""

    def tries_of(self, shape: int) -> int:
        """Return as how many tries it counts to find devices for pods of a shape; 0 for none."""
        specs = [self._table.specs[it.spec] for it in self._open(self._constraints[shape].claims)]
        return tries_of(self._table.offer, specs, self._table.selectors) if specs else 0

    # -- who has which ----------------------------------------------------------------------------

    def may_stay(self, task: int) -> bool:
        """Tell whether a leaving task could keep its devices: they are not promised."""
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

    def _are_many(self, key: str) -> bool:
        """Tell whether several pods wait for one claim."""
        if self._users is None:
            pods = np.bincount(self._shape_of_task[self._waits])
            self._users = Counter()
            for shape in pods.nonzero()[0].tolist():
                for use in self._constraints[shape].claims:
                    self._users[use.key] += int(pods[shape])
        return self._users[key] > 1

    def _open(self, uses: Iterable[ClaimUse]) -> list[ClaimUse]:
        """Return the claims that have no devices yet."""
        return [it for it in uses if self._held(it.key) is None]

    def _held(self, key: str) -> Held | None:
        if not key:
            return None
        chosen = self._chosen.get(key)
        return self._table.held.get(key) if chosen is None else chosen.held

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
        self._free_by_claims.forget(node)

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
        book = self._now if is_now else self._later_with(use for _, use in pairs)
        specs = [spec for _, spec in wanted]
        site, table, given = self._sites[node], self._table, self._given.get(task, {})
        found: list[Allocation] | None = [given[key] for key, _ in wanted if key in given]
        if len(found or ()) < len(wanted):
            found = allocate(table.offer, site, specs, table.selectors, book.taken)
        if found is None:
            # A promise may rest on devices that a pod keeps after all: the next cycle finds out.
            assert not is_now, f"no devices on {site.name} for {keys}"
            found = []
        grants = []
        for (key, _), allocation in zip(wanted, found, strict=False):
            held = held_by(allocation)
            self._chosen[key] = _Choice(held, {}, is_now)
            self._later.add(held.portions)
            if is_now:
                self._now.add(held.portions)
            else:
                self._apart += 1
            grants.append(Grant(key, allocation))
        for key, use in pairs:
            if key in self._chosen:
                self._chosen[key].users[task] = is_now
            elif use.key:
                self._stay(task, (key,))
        self.granted[task] = grants

    def together(self, tasks: Sequence[int], node: int, *, is_later: bool) -> Given | None:
        """Return what the claims of several tasks get if all are placed on a node.

        None if they cannot all be had there, now or once leaving pods have left.
        """
        wanted: list[tuple[int, str, Claim]] = []
        every: list[ClaimUse] = []
        known: set[str] = set()
        for task in tasks:
            uses = self._constraints[int(self._shape_of_task[task])].claims
            pairs = list(zip(self._table.claims_of_task.get(task, ()), uses, strict=False))
            if self._plugin is not None:
                pairs = list(compress(pairs, self._plugin.needed_at(node, uses)))
            every += [use for _, use in pairs]
            for key, use in pairs:
                if self._held(use.key) is None and key not in known:
                    wanted.append((task, key, self._table.specs[use.spec]))
                    known.add(key)
        book, table = self._later_with(every) if is_later else self._now, self._table
        specs = [spec for _, _, spec in wanted]
        try:
            found = allocate(table.offer, self._sites[node], specs, table.selectors, book.taken)
        except ClaimError:
            return None
        if found is None:
            return None
        given: dict[int, dict[str, Allocation]] = {task: {} for task in tasks}
        for (task, key, _), allocation in zip(wanted, found, strict=True):
            given[task][key] = allocation
        return given

    def given_to(self, tasks: Iterable[int]) -> Given:
        """Return what the claims of tasks get with them in this cycle."""
        return {it: dict(self.granted[it]) for it in tasks if it in self.granted}

    @contextmanager
    def giving(self, given: Given) -> Iterator[None]:
        """Give claims of tasks these devices, if they get some meanwhile."""
        before, self._given = self._given, given
        try:
            yield
        finally:
            self._given = before

    def _take_back(self, task: int) -> None:
        """Undo :meth:`_choose`."""
        grants = {it.key: it for it in self.granted.pop(task)}
        for key in self._table.claims_of_task[task]:
            chosen = self._chosen.get(key)
            if chosen is None or task not in chosen.users:
                self._leave(task, (key,))
                continue
            del chosen.users[task]
            if chosen.users:
                if key in grants:  # another user gets the claim its devices
                    heir = max(chosen.users, key=lambda it: chosen.users[it])
                    self.granted[heir].append(grants[key])
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
                del staying[task]
                if not staying:
                    self._later.remove(self._table.held[key].portions)
                    self._apart += 1
                self._hand_on(key)

    def _stay(self, task: int, keys: tuple[str, ...]) -> None:
        """Undo :meth:`_leave`."""
        for key in keys:
            staying = self._staying.get(key)
            if staying is not None and task not in staying:
                if not staying:
                    self._later.add(self._table.held[key].portions)
                    self._apart -= 1
                staying[task] = None
                self._hand_on(key)

    def _hand_on(self, key: str) -> None:
        """Let a claim count with its next user if the one that it counts with leaves."""
        payers = self._table.payers.get(key, ())
        staying = self._staying[key]
        heir = -1
        if payers and payers[0] not in staying:
            after = (*payers, *(it for it in staying if it != _SOMEBODY))
            heir = next((it for it in after if it in staying), -1)
        before = self._heirs.get(key, -1)
        if heir != before:
            self.handed_on += [(before, key, -1)] * (before >= 0) + [(heir, key, 1)] * (heir >= 0)
            self._heirs[key] = heir

    def heirs(self) -> list[Heir]:
        """Return the tasks with which claims count since the one before has left."""
        return [
            Heir(task, self._table.payers[key][0], self.counted(key)[2])
            for key, task in self._heirs.items()
            if task >= 0
        ]

    def counted(self, key: str) -> tuple[int, IntVec, IntVec]:
        """Return the node where a claim counts, what it takes of it, and what of a queue."""
        node, gpus = int(self._node_of_task[self._table.payers[key][0]]), self._table.held[key].gpus
        axis = self._axis
        request = np.zeros(len(axis), np.int64)
        request[axis.position[CLAIMED_GPU]] = counted = gpus.of_node
        if axis.bridged:
            row = axis.position[axis.bridged]
            request[row] += gpus.of_node if row == GPU else gpus.of_node // GPU_UNIT
            counted = int(request[row]) * (1 if row == GPU else GPU_UNIT)
        charge = axis.charged(request).copy()
        charge[GPU] += gpus.in_queue - counted
        return node, request, charge

    # -- where pods with claims find some ----------------------------------------------------------

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
        room, plugin = self._free_by_claims.get(uses), self._plugin
        if plugin is not None and not can_do_without(uses):
            plugin = None
        if plugin is not None and _needed_always(uses):
            return False
        if room is None or self._apart or plan.cap_later is not None or plan.cap is None:
            return False
        if (
            uses in self._free_by_claims.faults
            or any(it.key for it in uses)
            or not self._table.offer.is_local
        ):
            return False
        rows = np.array(sorted(set(self._moved[plan.moves :])), np.int64)
        filtered = np.zeros(rows.size, np.int16) if plan.filtered is None else plan.filtered[rows]
        is_open = filtered == 0
        asked = is_open if plugin is None else is_open & ~plugin.by_plugin[rows]
        self._count(uses, rows[asked & (room.now[rows] == UNKNOWN)].tolist())
        if uses in self._free_by_claims.faults:
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
        self, room: IntVec, found: FreeDevices | None, always: FreeDevices | None
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
    ) -> FreeDevices | None:
        """Refuse nodes where claims cannot be had, of those that are not refused already.

        Return how many pods each node has devices for; None if all claims have theirs.
        """
        for use in uses:
            if (held := self._held(use.key)) is not None:
                refuse(refused, ~self._reach(held), Refusal.DEVICE_PLACE)
                if self._is_given_away(use.key):
                    refused[refused == 0] = int(Refusal.DEVICES)
        found = None
        if self._open(uses):
            found = self._room(uses, refused == 0, shape, capacity)
            if uses in self._free_by_claims.faults:
                refused[refused == 0] = int(Refusal.DEVICE_CLAIM)
            if self._apart:
                refuse(refused, (found.now <= 0) & (found.later > 0), Refusal.DEVICES_LEAVING)
            refuse(refused, found.now <= 0, Refusal.DEVICES)
        if any(it.key in self._chosen and not self._chosen[it.key].is_now for it in uses):
            # It is promised devices: whoever shares it waits for them too.
            refused[refused == 0] = int(Refusal.DEVICES_LEAVING)
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
        room = self._free_by_claims.get(uses)
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

    def are_alike(self, shape: int) -> bool:
        """Tell whether it does not matter which devices pods of a shape get, of those that do.

        So it is if each wants one device, and nothing else of claims.
        """
        first = self._wanted(self._constraints[shape].claims).first
        count = counted(self._table.offer, first, self._table.selectors)
        return count is not None and count.ask.count == 1

    def fault(self, shape: int) -> str:
        """Return why the claims of a shape cannot be allocated at all, or an empty text."""
        uses = self._constraints[shape].claims
        return "" if can_do_without(uses) else self._free_by_claims.faults.get(uses, "")

    def _room(
        self, uses: tuple[ClaimUse, ...], allowed: BoolVec, shape: int, capacity: Capacity
    ) -> FreeDevices:
        fits = None
        if not self._table.offer.is_local:
            self._free_by_claims.drop(uses)
            fits = capacity.room(shape)
        room = self._free_by_claims.made(uses)
        self._count(uses, room.missing(allowed), fits)
        return room

    def _count(
        self, uses: tuple[ClaimUse, ...], missing: list[int], fits: IntVec | None = None
    ) -> None:
        books = self._now, self._later_with(uses) if self._apart else None
        self._free_by_claims.count(uses, self._wanted(uses), missing, books, fits)

    def _later_with(self, uses: Iterable[ClaimUse]) -> Holdings:
        """Return what is taken once leaving pods have left, if a pod with such claims comes.

        It keeps the devices of those claims that would else be given back.
        """
        kept = [
            self._table.held[it.key].portions
            for it in uses
            if it.key not in self._chosen and not self._staying.get(it.key, True)
        ]
        if not kept:
            return self._later
        book = self._later.copy()
        for portions in kept:
            book.add(portions)
        return book

    def _wanted(self, uses: Iterable[ClaimUse]) -> Wanted:
        open_, specs = self._open(uses), self._table.specs
        first = [specs[it.spec] for it in open_]
        further = [specs[it.spec] for it in open_ if not it.key]
        return Wanted(first, None if len(further) == len(first) else further)

    def _reach(self, held: Held) -> BoolVec:
        return np.array([matches(held.place, it) for it in self._sites], np.bool_)


def _needed_always(uses: tuple[ClaimUse, ...]) -> tuple[ClaimUse, ...]:
    return tuple(it for it in uses if not it.unless_plugin)
