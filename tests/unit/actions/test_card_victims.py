"""Victims where pods share GPUs: those of one card go, whatever their order (V1, R21)."""

from dataclasses import replace
from typing import Any

import pytest

from kaisched.testing import draw

QUARTERS = 4


def shared(nodes: int, cards: int, queues: str, claim: str) -> Any:
    """Draw cards with four quarters each; pods that follow each other in age are far apart."""
    lines = [queues]
    for node in range(nodes):
        cells = [
            "/".join(f"a{(at * nodes + node) * cards + card}" for at in range(QUARTERS))
            for card in range(cards)
        ]
        lines.append(f"node n{node} | {' '.join(cells)}")
    lines += [f"job a{at} queue=a gpu=0.25" for at in range(nodes * cards * QUARTERS)]
    return draw("\n".join((*lines, f"job c {claim}")))


@pytest.mark.parametrize(("nodes", "cards"), [(1, 4), (3, 4), (4, 8)])
@pytest.mark.parametrize(("asked", "pods"), [("gpu=1", 4), ("gpu=0.5", 2), ("gpu=2", 8)])
def test_preemption_takes_the_fewest_pods_of_a_card(nodes, cards, asked, pods):
    quota = f"queue a deserved={nodes * cards}"
    ran = shared(nodes, cards, quota, f"queue=a priority=90 {asked}").after("preempt").ran
    assert len(ran.evicted) == pods
    assert "c-0" in ran.promised


@pytest.mark.parametrize(("nodes", "cards"), [(1, 4), (2, 4)])
@pytest.mark.parametrize(("asked", "pods"), [("gpu=1", 4), ("gpu=0.5", 2), ("gpu=1 tasks=2", 8)])
def test_reclaim_finds_a_card_though_the_first_victims_are_on_all_cards(nodes, cards, asked, pods):
    """The queue may lose half of what it holds: the younger half of each card, in order."""
    half = nodes * cards // 2
    queues = f"queue a deserved={half}\nqueue c deserved={half}"
    ran = shared(nodes, cards, queues, f"queue=c {asked}").after("reclaim").ran
    assert len(ran.evicted) == pods
    assert "c-0" in ran.promised
    assert not ran.promised.keys() - {"c-0", "c-1"}  # nobody moves


def test_reclaim_finds_one_of_five_cards_among_ten_halves():
    """Of ten units every set would be tried, but only so many that free enough by amounts."""
    jobs = "\n".join(f"job a{at} queue=a gpu=0.5" for at in range(10))
    drawn = draw(f"""
        queue a deserved=3
        queue c deserved=2
        node n0 | a0/a5 a1/a6 a2/a7 a3/a8 a4/a9
        {jobs}
        job c gpu=1
    """)
    ran = drawn.after("reclaim").ran
    assert (len(ran.evicted), list(ran.promised)) == (2, ["c-0"])


def test_a_gang_takes_as_many_cards_as_it_has_pods():
    quota = "queue a deserved=32"
    ran = shared(4, 8, quota, "queue=a priority=90 gpu=1 tasks=5").after("preempt").ran
    assert len(ran.evicted) == 5 * QUARTERS


def sized(builder: Any, *numbers: float) -> Any:
    """Give the pods of the last job so many GPUs each."""
    job = builder._jobs[-1]
    tasks = [
        replace(task, request={**task.request, "gpu": int(number * 1000)})
        for task, number in zip(job.tasks, numbers, strict=True)
    ]
    builder._jobs[-1] = replace(job, tasks=tasks)
    return builder


def test_a_gang_of_unequal_pods_takes_other_cards_for_each():
    drawn = shared(2, 4, "queue a deserved=4\nqueue c deserved=4", "queue=c tasks=2")
    ran = sized(drawn.builder(), 1, 2).run("reclaim")
    assert len(ran.evicted) == 3 * QUARTERS
    assert ran.promised.keys() == {"c-0", "c-1"}


def test_pods_that_ask_for_no_gpu_do_not_keep_others_of_their_gang_from_a_card():
    drawn = shared(2, 4, "queue a deserved=4\nqueue c deserved=4", "queue=c tasks=2")
    ran = sized(drawn.builder(), 0, 1).run("reclaim")
    assert len(ran.evicted) == QUARTERS
    assert ran.promised.keys() == {"c-0", "c-1"}


@pytest.mark.parametrize(
    ("numbers", "claim", "pods"),
    [
        ((1,), {}, 4),
        ((1,), {"on": ["n0"]}, 4),
        ((1, 1), {"on": ["n0"]}, 8),
        ((1, 1, 1), {}, 12),
        ((1, 2), {}, 12),
        ((2, 1, 1), {}, 16),
        ((2, 2), {}, 16),
        ((0, 1), {}, 4),
        ((1,), {"cpu": 7}, 6),
        ((1, 1), {"cpu": 7}, 12),
    ],
    ids=str,
)
def test_as_few_pods_go_as_have_the_cards_and_the_cores(numbers, claim, pods):
    """Each card has four quarters. Of 17 cores of a node one is free: 7 take six pods."""
    drawn = shared(4, 4, "queue a deserved=8\nqueue c deserved=8", "queue=c")
    builder = drawn.builder()
    builder._nodes = [
        replace(it, allocatable={**it.allocatable, "cpu": 17_000}) for it in builder._nodes
    ]
    builder._jobs.pop()
    count = len(numbers)
    builder.job("c", queue="c", tasks=count, min_tasks=count, **claim)
    ran = sized(builder, *numbers).run("reclaim")
    assert ran.promised.keys() == {f"c-{at}" for at in range(count)}
    assert len(ran.evicted) == pods


def test_a_part_of_an_elastic_job_goes_with_no_other_job():
    """Elastic pods go before the pods that their job needs, also where those are on one card."""
    drawn = draw("""
        queue a deserved=8
        node n0 | e/e/e/e e/e/b1/b2 b3/b4/b5/b6
        job e queue=a gpu=0.25 tasks=6 min=5
        job b1 queue=a gpu=0.25
        job b2 queue=a gpu=0.25
        job b3 queue=a gpu=0.25
        job b4 queue=a gpu=0.25
        job b5 queue=a gpu=0.25
        job b6 queue=a gpu=0.25
        job c queue=a gpu=1 priority=90
    """)
    ran = drawn.after("preempt").ran
    assert sorted(ran.evicted) == ["b3-0", "b4-0", "b5-0", "b6-0"]
