"""The queue tree, laid out in preorder.

A parent always comes before its children, so a subtree is one slice of every queue array
and "sum over the subtree" is one subtraction of prefix sums. Siblings are sorted oldest first,
then by name: their position is therefore also the last rule of every tie between them
(rule R11 of docs/explanation/fairness.md), and nothing depends on the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Int32 = npt.NDArray[np.int32]
Index = npt.NDArray[np.intp]
Bool = npt.NDArray[np.bool_]

PROJECTS = "projects"
"""The fairness with which all leaf queues divide as siblings."""
NO_QUEUE = -1
LEFT_OUT = -2
"""In place of the parent of a queue that is in no level: see :func:`without_inner`."""


@dataclass(frozen=True, eq=False)
class QueueTree:
    """Shape of the queue tree; every array is read-only and in preorder.

    Attributes:
        names: name of each queue.
        order: `(Q,)` position of each queue in the input that the tree was built from.
        parent_of_queue: `(Q,)` index of the parent, -1 for a root.
        depth_of_queue: `(Q,)` 0 for a root.
        end_of_queue: `(Q,)` the subtree of `q` is the slice `q:end_of_queue[q]`.
        is_leaf: `(Q,)` True where no queue names it as parent.
        levels: one ascending index array per depth, roots first. The children of one
            queue are contiguous in it.
        path_of_leaf: `(Q, D)` the queue itself, its parent, ... up to the root, then -1.
            Filled for inner queues too.
        orphans: positions in the input that are not in the tree, because their parent (or
            an ancestor) is missing or because they are their own ancestor.

    """

    names: tuple[str, ...]
    order: Index
    parent_of_queue: Int32
    depth_of_queue: Int32
    end_of_queue: Int32
    is_leaf: Bool
    levels: tuple[Index, ...]
    path_of_leaf: Int32
    orphans: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)

    def path(self, queue: int) -> Int32:
        """Return the queue, its parent, ... up to the root, without padding."""
        return self.path_of_leaf[queue, : int(self.depth_of_queue[queue]) + 1]


def build_tree(
    names: Sequence[str],
    parents: Sequence[str | None],
    created: Sequence[float] | None = None,
) -> QueueTree:
    """Lay queues out in preorder.

    Args:
        names: unique name of each queue.
        parents: name of each queue's parent; None or "" for a root.
        created: creation time of each queue, any unit; all equal when absent.

    Raises:
        ValueError: the lengths differ or a name occurs twice.

    """
    times = [0.0] * len(names) if created is None else list(created)
    if not len(names) == len(parents) == len(times):
        raise ValueError(
            f"{len(names)} names, {len(parents)} parents and {len(times)} creation times"
        )
    position_of_name = {name: i for i, name in enumerate(names)}
    if len(position_of_name) != len(names):
        twice = next(name for i, name in enumerate(names) if position_of_name[name] != i)
        raise ValueError(f"queue {twice!r} occurs twice")
    children: dict[str, list[int]] = {}
    for i in sorted(range(len(names)), key=lambda i: (times[i], names[i])):
        children.setdefault(parents[i] or "", []).append(i)
    order, parent = _preorder(names, children)
    reached = set(order)
    orphans = tuple(i for i in range(len(names)) if i not in reached)
    return _from_parents(tuple(names[i] for i in order), order, parent, orphans)


def _preorder(names: Sequence[str], children: dict[str, list[int]]) -> tuple[list[int], list[int]]:
    """Walk from the roots; queues that the walk does not reach are orphans."""
    order: list[int] = []
    parent: list[int] = []
    stack = [(i, NO_QUEUE) for i in reversed(children.get("", ()))]
    while stack:
        i, above = stack.pop()
        here = len(order)
        order.append(i)
        parent.append(above)
        stack.extend((child, here) for child in reversed(children.get(names[i], ())))
    return order, parent


def _from_parents(
    names: tuple[str, ...], order: list[int], parent: list[int], orphans: tuple[int, ...]
) -> QueueTree:
    count = len(order)
    depth = [0] * count
    for q, above in enumerate(parent):
        if above >= 0:
            depth[q] = depth[above] + 1
    end = list(range(1, count + 1))
    for q in range(count - 1, -1, -1):
        above = parent[q]
        if above >= 0 and end[q] > end[above]:
            end[above] = end[q]
    parent_of_queue = np.array(parent, dtype=np.int32)
    depth_of_queue = np.array(depth, dtype=np.int32)
    end_of_queue = np.array(end, dtype=np.int32)
    by_depth = np.argsort(depth_of_queue, kind="stable")
    bounds = np.cumsum(np.bincount(depth_of_queue))[:-1]
    tree = QueueTree(
        names=names,
        order=np.array(order, dtype=np.intp),
        parent_of_queue=parent_of_queue,
        depth_of_queue=depth_of_queue,
        end_of_queue=end_of_queue,
        is_leaf=end_of_queue == np.arange(1, count + 1),
        levels=tuple(np.split(by_depth, bounds)) if count else (),
        path_of_leaf=_paths(parent_of_queue, depth_of_queue),
        orphans=orphans,
    )
    for array in (*vars(tree).values(), *tree.levels):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return tree


def _paths(parent_of_queue: Int32, depth_of_queue: Int32) -> Int32:
    count = len(parent_of_queue)
    width = int(depth_of_queue.max()) + 1 if count else 0
    paths = np.full((count, width), NO_QUEUE, dtype=np.int32)
    at = np.arange(count, dtype=np.int32)
    for step in range(width):
        paths[:, step] = at
        at = np.where(at >= 0, parent_of_queue[at], np.int32(NO_QUEUE))
    return paths


def without_inner(tree: QueueTree) -> QueueTree:
    """Return the tree of a division in which all leaf queues are siblings.

    Rows keep their numbers. Inner queues are in no level, and nobody's parent or child.
    """
    count = len(tree)
    row = np.arange(count, dtype=np.int32)
    flat = replace(
        tree,
        parent_of_queue=np.where(tree.is_leaf, np.int32(NO_QUEUE), np.int32(LEFT_OUT)),
        depth_of_queue=np.zeros(count, np.int32),
        end_of_queue=row + np.int32(1),
        levels=(np.flatnonzero(tree.is_leaf),) if count else (),
        path_of_leaf=row[:, None],
    )
    for array in (*vars(flat).values(), *flat.levels):
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return flat


def roll_up(values: Int64, tree: QueueTree) -> Int64:
    """Add to each queue's own value those of all its descendants.

    Args:
        values: `(R, Q)` int64 in base units; finite amounts, not UNLIMITED.
        tree: the shape of the queues.

    Returns:
        `(R, Q)` int64. Two passes over the array, whatever the depth.

    """
    if len(tree.levels) <= 1:  # every queue is its own subtree
        return values.copy()
    rows, count = values.shape
    before = np.zeros((rows, count + 1), dtype=np.int64)
    values.cumsum(axis=1, out=before[:, 1:])
    sums = before.take(tree.end_of_queue, axis=1)
    sums -= before[:, :-1]
    return sums
