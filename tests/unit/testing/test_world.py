"""Worlds: pictures that a cycle turns into pictures, and invariants of all pictures."""

import pytest
from hypothesis import given

from kaisched.core.drawing import DrawingError, parse
from kaisched.testing import World, draw, explain_difference
from kaisched.testing.strategies import drawings

HALF = """
    queue a
    node  n0  | . a1 .
    job   a1  tasks=2
"""


def test_which_gpu_a_pod_holds_makes_no_difference():
    assert draw(HALF) == draw(HALF.replace(". a1 .", "a1 . ."))


def test_the_order_of_jobs_makes_no_difference_to_equality():
    assert draw("queue a\njob a1\njob a2") == draw("queue a\njob a2\njob a1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (". a1 .", ". . a1 ."),
        (". a1 .", ". +a1 ."),
        (". a1 .", ". a1> ."),
        (". a1 .", ". . ."),
        ("tasks=2", "tasks=3"),
        ("queue a", "queue a limit=1"),
        ("node  n0", "node  n1"),
        ("node  n0", "node  n0 cpu=1"),
    ],
)
def test_everything_else_makes_a_difference(one, other):
    assert draw(HALF) != draw(HALF.replace(one, other))


def test_a_world_is_no_text():
    assert draw(HALF) != HALF
    assert str(draw(HALF)).startswith("queue a\n")


def test_a_job_needs_a_drawn_queue():
    with pytest.raises(DrawingError, match="job a1: queue a is not drawn"):
        draw("node n0 | a1")


def test_a_moment_later_what_was_placed_runs_and_what_left_waits():
    after = draw("""
        queue a
        node  n0  | +a1 a2> a3>a1 a4 | +a5 a6> >a7
        job   a1  tasks=2
        job   a5  gpu=0
        job   a6  gpu=0
        job   a7  gpu=0
    """).settled()
    assert after == draw("""
        queue a
        node  n0  | a1 . . a4 | a5
        job   a1  tasks=2
        job   a2
        job   a3
        job   a5  gpu=0
        job   a6  gpu=0
        job   a7  gpu=0
    """)


def test_what_was_new_or_promised_is_so_no_more_when_the_next_cycle_begins():
    before = draw("""
        queue a
        node  n0  | +a1 a2>a3
        job   a3  on=n9
    """)
    assert before.after("allocate") == draw("""
        queue a
        node  n0  | a1 a2>
        job   a3  on=n9
    """)


def test_a_difference_is_told_with_both_pictures_and_the_reasons():
    before = draw("queue a limit=0\nnode n0 | .\njob a1")
    told = explain_difference(before.after("allocate"), draw("queue a"))
    assert told == [
        "the worlds differ",
        "got:",
        "queue a   limit=0",
        "node  n0  | .",
        "job   a1  tasks=1 gpu=1 min=1",
        "expected:",
        "queue a",
        "pending:",
        "  a1: OverLimit",
    ]


@given(drawings(is_fresh=True))
def test_a_cycle_moves_no_running_pod_and_no_gpu(drawing):
    before, after = World(drawing), World(drawing).after("allocate")
    for old, new in zip(before.drawing.nodes, after.drawing.nodes, strict=True):
        assert len(old.cells) == len(new.cells)
        for was, now in zip(old.cells, new.cells, strict=True):
            # A whole GPU of which a share was promised a part once it is free is drawn in parts.
            held = [(it.holder, it.is_leaving) for it in now.parts or (now,) if it.holder]
            assert not was.holder or held == [(was.holder, was.is_leaving)]


@given(drawings(is_fresh=True))
def test_what_a_cycle_draws_can_be_read_back(drawing):
    after = World(drawing).after("allocate")
    assert parse(str(after)) == after.drawing


@given(drawings(is_fresh=True))
def test_no_gang_is_started_in_part(drawing):
    after = World(drawing).after("allocate")
    placed: dict[str, int] = {}
    running: dict[str, int] = {}
    for tasks in after.drawing.drawn_tasks().values():
        for (job, role), count in tasks.items():
            if role == "new":
                placed[job] = placed.get(job, 0) + count
            if role in {"new", "running"}:
                running[job] = running.get(job, 0) + count
    minimum = {job.name: job.min for job in drawing.jobs}
    assert all(running[job] >= minimum[job] for job in placed)


@given(drawings(is_fresh=True))
def test_no_queue_that_was_served_is_over_its_limit(drawing):
    after = World(drawing).after("allocate")
    jobs = {job.name: job for job in drawing.jobs}
    queues = {queue.name: queue for queue in drawing.queues}
    held = dict.fromkeys(queues, 0)
    grew = set()
    for tasks in after.drawing.drawn_tasks().values():
        for (job, role), count in tasks.items():
            queue = jobs[job].queue
            while queue:
                if role in {"new", "running"}:
                    held[queue] += count * jobs[job].gpu
                if role == "new" and jobs[job].gpu:
                    grew.add(queue)
                queue = queues[queue].parent
    for name in grew:
        limit = queues[name].limit
        assert limit is None or held[name] <= limit


@given(drawings(is_fresh=True))
def test_a_second_cycle_finds_nothing_more_to_place(drawing):
    """Leaving pods keep their room meanwhile, so only the placed pods change."""
    after = World(drawing).after("allocate")
    again = after.after("allocate")
    assert not again.ran.placed


@given(drawings(is_fresh=True))
def test_a_cycle_is_the_same_every_time(drawing):
    one, other = World(drawing).after("allocate"), World(drawing).after("allocate")
    assert str(one) == str(other)
    assert one.ran.result.encode() == other.ran.result.encode()
