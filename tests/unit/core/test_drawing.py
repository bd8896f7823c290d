"""The drawing grammar: what each mark means, what is refused, and that reading undoes writing."""

from collections import Counter

import pytest
from hypothesis import given

from kaisched.core.drawing import Cell, Drawing, DrawingError, DrawnJob, DrawnNode, parse, render
from kaisched.testing.strategies import drawings

PICTURE = """\
queue a   deserved=2
queue b   deserved=2 limit=3
node  n0  | b1    b1    b2>a1 .
job   a1  tasks=2 gpu=1 min=2
"""


def test_a_picture_reads_as_it_looks():
    drawing = parse(PICTURE)
    assert [queue.name for queue in drawing.queues] == ["a", "b"]
    assert drawing.queues[1].limit == 3
    assert drawing.nodes[0].cells == (
        Cell("b1"),
        Cell("b1"),
        Cell("b2", is_leaving=True, promised="a1"),
        Cell(),
    )
    assert drawing.jobs == (
        DrawnJob("b1", "b", tasks=2, min=2),
        DrawnJob("b2", "b", tasks=1, min=1),
        DrawnJob("a1", "a", tasks=2, min=2),
    )


def test_writing_gives_the_picture_back():
    assert render(parse(PICTURE)) == PICTURE


@given(drawings())
def test_reading_undoes_writing(drawing):
    assert parse(render(drawing)) == drawing


@given(drawings())
def test_writing_is_settled_after_one_time(drawing):
    assert render(parse(render(drawing))) == render(drawing)


def test_nothing_is_a_drawing_too():
    assert parse("") == Drawing()
    assert render(Drawing()) == ""


def test_pods_are_counted_by_node_job_and_role():
    drawing = parse("""
        node n0 | a1 a1 b1> b1>c1 +d1 >c1 | e1
        job  a1 gpu=2
        job  c1 gpu=2
    """)
    assert drawing.drawn_tasks() == {
        "n0": Counter(
            {
                ("a1", "running"): 1,
                ("b1", "leaving"): 2,
                ("c1", "promised"): 1,
                ("d1", "new"): 1,
                ("e1", "running"): 1,
            }
        )
    }


def test_pods_without_a_gpu_stand_behind_a_second_bar():
    drawing = parse("node n0 cpu=4 | . | c1 +c1")
    assert drawing.nodes == (
        DrawnNode("n0", (Cell(),), (Cell("c1"), Cell("c1", is_new=True)), cpu=4),
    )
    assert drawing.jobs == (DrawnJob("c1", "c", tasks=2, gpu=0, min=2),)


def test_a_job_of_high_priority_is_not_preemptible_unless_it_says_so():
    jobs = parse(
        "job a1 priority=100\njob a2 priority=99\njob a3 priority=100 preemptible=yes"
    ).jobs
    assert [job.is_preemptible for job in jobs] == [False, True, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("frog n0", "line 1: expected queue, node or job"),
        ("node", "line 1: 'node' needs a name"),
        ("node n0 | a1 ?", "line 1: '[?]' is no cell"),
        ("node n0 | +a1>", "line 1: '\\+a1>' is no cell"),
        ("node n0 | >", "line 1: '>' is no cell"),
        ("queue a desrved=2", "line 1: unknown key 'desrved'; known are borrowing, deserved"),
        ("queue a deserved=many", "line 1: deserved cannot be 'many'"),
        ("queue a deserved", "line 1: expected key=value"),
        ("queue a limit=1 limit=2", "line 1: limit is given twice"),
        ("job a1 preemptible=maybe", "line 1: preemptible cannot be 'maybe'"),
        ("job a1\njob a1", "line 2: job a1 has a line already"),
        ("node n0\nnode n0", "n0 is drawn twice"),
        ("node n0 | a1 a1\njob a1 tasks=1", "job a1 has 1 tasks, but 2 are drawn"),
        (
            "node n0 | a1 a1 a1\njob a1 gpu=2",
            "3 cells of a1 \\(running\\) are no multiple of the 2",
        ),
        ("node n0 | a1\njob a1 gpu=0", "those without any stand behind the second bar"),
        ("node n0 | . | b1>c1", "behind the second bar each word is one pod"),
        ("node n0 | . | . | .", "line 1: expected queue, node or job"),
    ],
)
def test_a_drawing_that_says_nothing_is_refused_with_the_reason(text, message):
    with pytest.raises(DrawingError, match=message):
        parse(text)
