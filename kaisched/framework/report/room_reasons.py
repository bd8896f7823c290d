"""Why a job's next batch found no room: how many pods fit, and what the nodes lack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kaisched.core.refusals import Refusal, text_of
from kaisched.framework.report.affinity_reasons import with_affinity
from kaisched.framework.report.codes import MOST_SHAPES
from kaisched.framework.report.held_room import held_for_others
from kaisched.framework.report.lack import Lack
from kaisched.framework.report.node_refusals import node_refusals_of
from kaisched.framework.session.batches import asked_of, batch_of, pods_of_batch
from kaisched.framework.session.capacity import room_of
from kaisched.framework.session.node_sets import node_sets, shapes_of, subgroup_sets
from kaisched.framework.session.units import leaves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.core.axis import Amounts
    from kaisched.framework.report.records import NodeRefusal
    from kaisched.framework.session.session import Session


MOST_SETS: Final = 3
"""So many sets of nodes are named."""
NODE_SETS: Final = "node_sets"
"""In the numbers of a record: the names of the sets of nodes on which plugins allow the job."""
_ALLOCATE: Final = "allocate"
_LACKS: Final = "lacks"


def lack_of(session: Session, job: int, code: int) -> Lack:
    """Return why a job has no room; the code is ``code`` unless a stronger reason is found.

    Jobs with equal batches share the answer: thousands of them may wait. If plugins allow a job
    sets of nodes only, the message names each set and what is missing there.
    """
    shapes, size = batch_of(session, job)
    sets = node_sets(session, _ALLOCATE, job, asked_of(session, job), shapes)
    if sets is None:
        if part_code := _shut_part(session, job):
            return _without_sets(session, job, part_code)
        lack = _of_parts(session, job, _shared(session, shapes, size, code))
        return with_affinity(session, job, shapes, lack)
    if not sets:
        return _without_sets(session, job, sets.code)
    lacks = []
    for nodes in sets[:MOST_SETS]:
        with session.placement.within(nodes):
            lacks.append(_of_parts(session, job, _lack(session, shapes, size, code)))
    best = max(range(len(lacks)), key=lambda at: (lacks[at].code, -at))
    told = [f"{it.label}: {lack.message}" for it, lack in zip(sets, lacks, strict=False)]
    if len(sets) > MOST_SETS:
        told.append(f"{len(sets) - MOST_SETS} more sets of nodes")
    numbers = {**lacks[best].numbers, NODE_SETS: [each.label for each in sets]}
    lack = lacks[best]._replace(message="; ".join(told), numbers=numbers)
    return with_affinity(session, job, shapes, lack)


def _of_parts(session: Session, job: int, lack: Lack) -> Lack:
    """Return what subgroups lack on the set that is tried now, if each pod of the job has room.

    Unless room was held for others: it may be what was missing when the job was tried.
    """
    size = lack.numbers.get("pods", 0)
    is_full = lack.code in (Refusal.NO_ROOM, Refusal.GANG_NO_ROOM)
    if not is_full or lack.numbers.get("fit") != size:
        return lack
    if size and (held := held_for_others(session, job)):
        each = "its pod" if size == 1 else f"each of its {size} pods"
        return lack._replace(message=f"{each} has room now, and room was {held}")
    part_code = _shut_part(session, job)
    if part_code is None:
        return lack
    told = session.ask.refusal_reason(session, _ALLOCATE, job, part_code) if part_code else None
    if told is not None:
        return lack._replace(message=told.sentence, numbers={**lack.numbers, **told.numbers})
    if size == 1:
        return lack
    together = "but its subgroups do not fit together, each on one set of nodes"
    return lack._replace(message=f"each of its {size} pods has room, {together}")


def _shut_part(session: Session, job: int) -> int | None:
    """Return why plugins leave a subgroup in the next batch no set of nodes, whatever others do.

    It is asked on the set that is tried now. 0 if every subgroup has some; None if it makes no
    difference which nodes subgroups get.
    """
    root = session.jobs.structure.get(job)
    if root is None or session.ask.subgroup_sets(session) is None:
        return None
    batch = pods_of_batch(session, job)
    podset = session.tasks.podset_of_task[batch]
    left, found = list(root.children[::-1]), None
    while left:
        group = left.pop()
        left += group.children[::-1]
        some = batch[np.isin(podset, leaves(group))]
        if not some.size:
            continue
        sets = subgroup_sets(session, job, group, shapes_of(session, some))
        if sets is not None:
            if not sets:
                return sets.code
            found = 0
    return found


def _without_sets(session: Session, job: int, code: int) -> Lack:
    """Return why plugins leave a job no set of nodes."""
    reason = session.ask.refusal_reason(session, _ALLOCATE, job, code)
    if reason is not None:
        return Lack(code, reason.sentence, dict(reason.numbers), ())
    is_untold = code == Refusal.NO_NODE_ALLOWED
    sentence = "no set of nodes is left to it" if is_untold else text_of(code).sentence
    return Lack(code, sentence, {}, ())


def _shared(session: Session, shapes: list[tuple[int, int]], size: int, code: int) -> Lack:
    """Return why a batch has no room, found out once for all jobs with equal batches."""
    known: dict[object, Lack] = session.found.setdefault(_LACKS, {})
    asked = session.moves, tuple(shapes), size, code
    lack = known.get(asked)
    if lack is None:
        lack = known[asked] = _lack(session, shapes, size, code)
    return lack._replace(numbers=dict(lack.numbers))


def _lack(session: Session, shapes: list[tuple[int, int]], size: int, code: int) -> Lack:
    """Return why a batch has no room on the set of nodes that is tried now."""
    for shape, _ in shapes:
        if (wait := session.shapes.constraints[shape].wait) is not None:
            return Lack(int(wait[0]), wait[1], {}, ())
        if session.devices is not None and (fault := session.devices.fault(shape)):
            return Lack(int(Refusal.DEVICE_CLAIM), fault, {}, ())
    refused: tuple[NodeRefusal, ...] = ()
    if len(shapes) > MOST_SHAPES:  # add all shapes at once: adding them one by one is quadratic
        session.placement.upper_bound(np.array([shape for shape, _ in shapes]))
    for shape, count in shapes[:MOST_SHAPES]:
        if session.placement.vacancy(shape).total < count:
            code, refused = node_refusals_of(session, shape, code)
            break
    fits, left, idle = _together(session, shapes)
    if not refused and left >= 0 and len(shapes) > 1:
        _, refused = node_refusals_of(session, left, code, idle)
    if code == Refusal.NO_ROOM and size > 1:
        code = Refusal.GANG_NO_ROOM
    bound = session.placement.nodes
    nodes = len(session.nodes) if bound is None else int(bound.nodes.sum())
    message = _message(code, fits, size, nodes)
    counted = ", ".join(f"{each.nodes} {each.detail or each.reason}" for each in refused)
    if code == Refusal.NO_NODE_ALLOWED:
        counted = "; ".join(filter(None, (counted, *_labels_of_no_node(session, shapes))))
    numbers = {"pods": size, "fit": fits, "nodes": nodes}
    return Lack(code, f"{message}: {counted}" if counted else message, numbers, refused)


def _labels_of_no_node(session: Session, shapes: list[tuple[int, int]]) -> Iterator[str]:
    """Name the labels that pods select and no node has, and say where a flavor asks for them."""
    statics = session.nodes.statics
    for constraints in [session.shapes.constraints[shape] for shape, _ in shapes[:1]]:
        for key, value in constraints.node_selector:
            if value in statics.label_column(key)[1]:
                continue
            by_flavor = key in constraints.flavor_keys
            whose = ", which the flavor of its queue asks for" if by_flavor else ""
            yield f"no node has {key}={value}{whose}"


def _message(code: int, fits: int, size: int, nodes: int) -> str:
    if code == Refusal.EXCEEDS_ANY_NODE:
        return "a pod asks for more than any node has that may take it"
    if code == Refusal.NO_NODE_ALLOWED:
        return f"0/{nodes} nodes may take its pods"
    if fits == 0:
        return f"0/{nodes} nodes have room"
    if fits == size == 1:
        return "there is room for its pod, but not where it may go"
    if fits == size:
        return f"each of its {size} pods has room, but not all of them together"
    return f"{fits} of {size} pods fit now"


def _together(session: Session, shapes: list[tuple[int, int]]) -> tuple[int, int, Amounts]:
    """Return how many pods fit next to each other, a shape of which some do not, and what is idle.

    The shape is -1 where all fit; what is idle is so after those that fit.
    """
    idle = session.capacity.idle.copy()
    fits, left = 0, -1
    for shape, count in shapes:
        request = session.shapes.request[:, shape]
        room = np.minimum(room_of(idle, request), session.placement.vacancy(shape).room)
        before = np.cumsum(room) - room
        placed = np.clip(count - before, 0, room)
        idle -= request[:, None] * placed
        fits += (number := int(placed.sum()))
        left = shape if number < count and left < 0 else left
    return fits, left, idle
