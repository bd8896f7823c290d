"""Hypothesis strategies for clusters; the only module of the package that needs hypothesis.

Only tests should import it: ``from kaisched.testing.strategies import drawings``.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from kaisched.core.drawing import Cell, Drawing, DrawnJob, DrawnNode, DrawnQueue, queue_of

_MOST_QUEUES = 4
_MOST_JOBS = 6
_MOST_NODES = 3
_MOST_TASKS = 4
_NON_PREEMPTIBLE_FROM = 100


@st.composite
def queues(draw: st.DrawFn) -> tuple[DrawnQueue, ...]:
    """Draw queues of any shape of tree, with quotas, limits, weights and priorities."""
    names = "abcdefgh"[: draw(st.integers(1, _MOST_QUEUES))]
    amount = st.none() | st.integers(0, 6)
    drawn: list[DrawnQueue] = []
    for name in names:
        parent = draw(st.sampled_from(["", *(queue.name for queue in drawn)]))
        drawn.append(
            DrawnQueue(
                name,
                parent,
                deserved=draw(amount),
                limit=draw(amount),
                weight=draw(st.integers(0, 3)),
                priority=draw(st.sampled_from([100, 100, 200])),
                deserved_cpu=draw(st.sampled_from([None, 2, 8])),
            )
        )
    return tuple(drawn)


@st.composite
def jobs(draw: st.DrawFn, drawn: tuple[DrawnQueue, ...]) -> tuple[DrawnJob, ...]:
    """Draw pending jobs of the leaves of some queues."""
    parents = {queue.parent for queue in drawn}
    leaves = [queue.name for queue in drawn if queue.name not in parents]
    made = []
    for number in range(draw(st.integers(0, _MOST_JOBS))):
        tasks = draw(st.integers(1, _MOST_TASKS))
        priority = draw(st.sampled_from([50, 50, 75, 100]))
        made.append(
            DrawnJob(
                f"{draw(st.sampled_from(leaves))}{number}",
                draw(st.sampled_from(leaves)),
                tasks=tasks,
                gpu=(gpu := draw(st.sampled_from([0, 1, 1, 2, 3, 0.25, 0.4, 0.5]))),
                cards=draw(st.sampled_from([1, 1, 2])) if 0 < gpu < 1 else 1,
                cpu=draw(st.sampled_from([1, 1, 500])),
                min=draw(st.integers(1, tasks)),
                priority=priority,
                is_preemptible=draw(st.sampled_from([priority < _NON_PREEMPTIBLE_FROM, True])),
            )
        )
    return tuple(replace(job, queue=queue_of(job.name)) if job.gpu else job for job in made)


@st.composite
def drawings(draw: st.DrawFn, *, is_fresh: bool = False) -> Drawing:
    """Draw clusters with pods in every state; ``is_fresh`` leaves out new and promised ones."""
    tree = draw(queues())
    drawn = draw(jobs(tree))
    left = {job.name: job.tasks for job in drawn}
    roles = ["running", "leaving"] if is_fresh else ["running", "leaving", "new", "promised"]
    nodes = []
    for number in range(draw(st.integers(0, _MOST_NODES))):
        room = draw(st.integers(0, 8))
        cells: list[Cell] = []
        others: list[Cell] = []
        cards: list[tuple[list[Cell], float]] = []
        for job in drawn:
            role = draw(st.sampled_from(roles))
            free = room - len(cells) - len(cards)
            most = min(left[job.name], free // job.cells if job.gpu else 2)
            count = draw(st.integers(0, max(0, most)))
            left[job.name] -= count
            cell = Cell(
                holder="" if role == "promised" else job.name,
                is_new=role == "new",
                is_leaving=role == "leaving",
                promised=job.name if role == "promised" else "",
            )
            if job.is_share:
                for _ in range(count):
                    _share(cards, cell, job)
            else:
                (cells if job.gpu else others).extend([cell] * (count * job.cells))
        cells += [Cell(parts=tuple(parts)) for parts, _ in cards]
        cells += [Cell()] * (room - len(cells))
        cells = draw(st.permutations(cells))
        nodes.append(DrawnNode(f"n{number}", tuple(cells), tuple(others)))
    return Drawing(tree, tuple(nodes), drawn)


def _share(cards: list[tuple[list[Cell], float]], part: Cell, job: DrawnJob) -> None:
    """Put a pod's parts on the first GPUs with room for them, each with what is taken of it."""
    fits = [at for at, (_, taken) in enumerate(cards) if taken + job.gpu <= 1]
    for at in fits[: job.cards]:
        cards[at] = ([*cards[at][0], part], cards[at][1] + job.gpu)
    cards += [([part], job.gpu) for _ in range(job.cards - len(fits))]
