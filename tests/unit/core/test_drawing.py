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


def test_a_shared_gpu_shows_its_pods_side_by_side():
    picture = "node n0 | a1 a1/+b1/c1>/>d1 a2>/>e1\n" + "".join(
        f"job {job}\n"
        for job in ("a1 gpu=0.5 tasks=2", "a2 gpu=0.5", "b1 gpu=0.25", "c1 gpu=0.1", "d1 gpu=0.9")
    )
    drawing = parse(picture)
    assert [[str(part) for part in cell.parts] for cell in drawing.nodes[0].cells] == [
        ["a1"],
        ["a1", "+b1", "c1>", ">d1"],
        ["a2>", ">e1"],
    ]
    assert drawing.drawn_tasks()["n0"]["a1", "running"] == 2
    assert parse(render(drawing)) == drawing


def test_parts_of_several_gpus_are_one_pod():
    drawing = parse("node n0 | a1 a1/b1 a1 a1/b1\njob a1 gpu=0.5 cards=2\njob b1 gpu=0.5")
    assert [(job.name, job.tasks) for job in drawing.jobs] == [("a1", 2), ("b1", 2)]


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
        ("node n0 | a1\njob a1 gpu=0", "only pods without GPUs are behind the second bar"),
        ("node n0 | . | b1>c1", "behind the second bar each word is one pod"),
        ("node n0 | . | . | .", "line 1: expected queue, node or job"),
        ("node n0 | a1/b1", "in a1/b1 pods of a1 hold whole GPUs; write gpu=0.5 for a part"),
        ("node n0 | a1/.", "line 1: 'a1/.' is no cell"),
        ("node n0 | a1/a1\njob a1 gpu=0.6", "in a1/a1 more than one GPU is held"),
        ("node n0 | a1/a1\njob a1 gpu=0.1 cards=2", "a pod of a1 has two parts of one GPU"),
        ("node n0 | a1>b1\njob a1 gpu=0.1", "a promise is a part of its own: b1>/>a1"),
        ("node n0 | a1/>b1\njob a1 gpu=0.1", "a whole GPU and parts of it are held or promised"),
        ("node n0 | . | a1/a1\njob a1 gpu=0.1", "behind the second bar each word is one pod"),
        ("job a1 gpu=1.5", "line 1: gpu cannot be '1.5'"),
        ("job a1 gpu=0.5 cards=0", "line 1: cards cannot be '0'"),
    ],
)
def test_a_drawing_that_says_nothing_is_refused_with_the_reason(text, message):
    with pytest.raises(DrawingError, match=message):
        parse(text)
