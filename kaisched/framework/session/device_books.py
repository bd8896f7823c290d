"""Keeps the books of devices in one cycle: who has which, and which they get.

Devices are chosen as soon as a pod is placed, in the order in which Kubernetes would choose. Two
books are kept: what is taken now, and what will be once pods that are leaving have left. A promise
is in the second only. Nothing of this exists in a cycle without claims.
"""

from __future__ import annotations

from collections import Counter
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from kaisched.core.claims.model import Allocation, Site
from kaisched.core.claims.search import allocate
from kaisched.core.claims.table import ClaimTable, Held, Holdings, held_by
from kaisched.core.states import ACTIVE_STATES, TaskState
from kaisched.framework.session.device_rooms import DeviceRooms
from kaisched.framework.session.plugin_nodes import PluginNodes
from kaisched.units import CLAIMED_GPU

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.core.axis import RowVec
    from kaisched.core.constraints import ClaimUse
    from kaisched.core.snapshot import Snapshot

    StateVec: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int8]]

_ALLOCATED: Final = int(TaskState.ALLOCATED)
_PENDING: Final = int(TaskState.PENDING)
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


class DeviceBooks:
    """The devices that claims have, and those that they get."""

    def __init__(self, snapshot: Snapshot, table: ClaimTable) -> None:
        """Start with what claims have."""
        self._table = table
        self._constraints = snapshot.shapes.constraints
        self._request = snapshot.shapes.request
        self._gpus = snapshot.axis.position.get(CLAIMED_GPU, -1)
        self._shape_of_task = snapshot.tasks.shape_of_task
        self._node_of_task = snapshot.tasks.node_of_task
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
        self._waits = state == _PENDING
        self._users: Counter[str] | None = None
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
