"""Parts of GPUs: which card a pod gets, what makes room on a card, and what queues may hold."""

import re

import pytest

from kaisched.testing import draw


def world(cells, jobs, queues="queue a deserved=8"):
    """Return nodes n0, n1 ... with these cells; each job is its name and its line."""
    lines = [f"node n{number} | {each}" for number, each in enumerate(cells)]
    lines += [f"job {name} {line}" for name, line in jobs.items()]
    return draw("\n".join((queues, *lines)))


def nodes_of(made):
    return [
        " ".join(line.split()[3:]) for line in str(made).splitlines() if line.startswith("node")
    ]


def halves(*names, **others):
    """Return jobs that have half a GPU each, and others."""
    return dict.fromkeys(names, "gpu=0.5") | others


@pytest.mark.parametrize(
    ("cells", "new", "after"),
    [
        ("a6 a7 a5", "gpu=0.3", "a6 a7/+b a5"),  # the card with the least left after it
        ("a25/a25 a5", "gpu=0.5", "a25/a25 a5/+b"),  # of equal ones that with fewer pods
        ("a5 a5", "gpu=0.5", "a5/+b a5"),  # then the first
        ("a6 .", "gpu=0.5", "a6 +b"),  # no card is cut over
        ("a5 .", "gpu=1", "a5 +b"),  # a whole pod never shares
        ("a5 a6 .", "gpu=0.3 cards=2", "a5/+b a6/+b ."),  # parts of one pod are on two cards
        ("a5 . .", "gpu=0.6 cards=2", "a5 +b +b"),
        ("a5>/a5> .", "gpu=0.5", "a5>/a5> +b"),  # a card that all leave takes no further part
        ("a5/a5> .", "gpu=0.5", "a5/a5>/>b ."),  # it waits rather than open a card
        ("a5>/a5>", "gpu=0.5", "a5>/a5>/>b"),  # or for the whole card
        ("a5>/a5>", "gpu=1", "a5>/a5>/>b"),
    ],
)
def test_a_pod_gets_the_card_that_the_rules_name(cells, new, after):
    jobs = {"a5": "gpu=0.5", "a6": "gpu=0.6", "a7": "gpu=0.7", "a25": "gpu=0.25"}
    drawn = re.findall(r"\w+", cells)
    jobs = {name: line for name, line in jobs.items() if name in drawn}
    made = world([cells], {**jobs, "b": f"queue=a {new}"})
    assert nodes_of(made.after("allocate")) == [after]


def test_a_whole_gpu_is_taken_from_the_pods_of_one_card_however_old_they_are():
    jobs = halves("a1", "a2", "a3", "a4", b="queue=a priority=90")
    assert nodes_of(world(["a1/a2 a3/a4"], jobs).after("preempt")) == ["a1/a2 a3>/a4>/>b"]
    assert nodes_of(world(["a1/a3 a2/a4"], jobs).after("preempt")) == ["a1/a3 a2>/a4>/>b"]
    stays = jobs | {"a4": "gpu=0.5 preemptible=no"}
    assert nodes_of(world(["a1/a3 a2/a4"], stays).after("preempt")) == ["a1>/a3>/>b a2/a4"]


def test_a_part_is_taken_from_as_few_pods_as_make_room_on_one_card():
    jobs = {"a3": "gpu=0.3", "a7": "gpu=0.7", **halves("a1", "a2")}
    made = world(["a1/a2 a3/a7"], jobs | {"b": "queue=a gpu=0.6 priority=90"})
    assert nodes_of(made.after("preempt")) == ["a1/a2 a3/a7>/>b"]


def test_parts_for_two_cards_are_not_made_of_one():
    """What two cards give together is nothing to a pod that needs a part of each of two."""
    jobs = halves("a1", "a2", b="queue=a gpu=0.4 cards=2 priority=90")
    made = world(["a1/a2"], jobs).after("preempt")
    assert nodes_of(made) == ["a1/a2"]
    made = world(["a1/a2 a3"], jobs | {"a3": "preemptible=no"}).after("preempt")
    assert nodes_of(made) == ["a1/a2 a3"]


def test_reclaim_takes_parts_until_the_other_queue_has_its_share():
    jobs = halves("b1", "b2", "b3", "b4", "a1", "a2", "a3")
    made = world(["b1/b2 b3/b4"], jobs, "queue a deserved=1\nqueue b deserved=1").after("reclaim")
    assert nodes_of(made) == ["b1/b2 b3>/b4>/>a1/>a2"]


def test_parts_move_to_another_node_to_make_a_whole_gpu():
    jobs = {"a1": "gpu=0.4", "a2": "gpu=0.4", "b": "queue=a"}
    assert nodes_of(world(["a1", "a2"], jobs).after("consolidate")) == ["a1/>a2", "a2>/>b"]
    large = jobs | {"a2": "gpu=0.7"}
    assert nodes_of(world(["a1", "a2"], large).after("consolidate")) == ["a1", "a2"]


def test_thousandths_count_in_limits_so_that_three_thirds_are_one_gpu():
    jobs = dict.fromkeys(("a1", "a2", "a3"), "gpu=0.333333") | {"a4": "gpu=0.01"}
    made = world([". ."], jobs, "queue a deserved=1 limit=1").after("allocate")
    assert nodes_of(made) == ["+a1/+a2/+a3 ."]
    assert made.reasons == {"a4": "OverLimit"}


def test_a_gang_of_parts_and_whole_cards_start_together_or_not():
    jobs = {"a1": "gpu=0.7 tasks=3"}
    made = world([". ."], jobs).after("allocate")
    assert (nodes_of(made), made.reasons) == ([". ."], {"a1": "GangNoRoom"})
    assert nodes_of(world([". . ."], jobs).after("allocate")) == ["+a1 +a1 +a1"]
    two = {"a3": "gpu=0.3", "a6": "gpu=0.6", "b": "queue=a gpu=0.5 cards=2 tasks=2"}
    made = world(["a3 a6 ."], two).after("allocate")
    assert (nodes_of(made), made.reasons) == (["a3 a6 ."], {"b": "GangNoRoom"})


def test_whole_pods_get_the_gpus_that_no_pod_shares_and_no_more():
    jobs = {"a3": "gpu=0.3", "a1": "gpu=0.1", "b": "queue=a gpu=2 tasks=1", "c": "queue=a gpu=2"}
    made = world(["a3 . .", "a1 a3 ."], jobs | {"a3": "gpu=0.3 tasks=2"}).after("allocate")
    assert nodes_of(made) == ["a3 +b +b", "a1 a3 ."]
    assert made.reasons == {"c": "NoRoom"}


def test_a_promised_card_is_given_to_no_later_pod():
    jobs = halves("a1", "a2", "b1", "b2")
    jobs |= {"b1": "queue=a gpu=0.5", "b2": "queue=a gpu=0.4"}
    made = world(["a1/a2>"], jobs).after("allocate")
    assert nodes_of(made) == ["a1/a2>/>b1"]
    assert made.reasons["b2"] == "NoRoom"


def test_who_is_evicted_for_a_whole_card_stays_only_if_the_card_is_not_promised():
    """The card of a17 is whole only once a17 has left too, though a10 alone frees as much.

    It goes on on the other card.
    """
    jobs = {
        "a10": "gpu=0.5 cards=2",
        "a15": "gpu=0.333",
        "a17": "gpu=0.5",
        "a19": "gpu=0.5",
        "b": "queue=a gpu=0.7 priority=90",
    }
    made = world(["a10/a15> a10/a17"], jobs).after("allocate", "preempt")
    assert nodes_of(made) == ["a10>/a15>/>a19/>a17 a10>/a17>/>b"]


def test_a_part_that_finds_no_room_on_a_card_being_vacated_opens_another():
    jobs = halves("a1", "a2") | {"b1": "queue=a gpu=0.5", "b2": "queue=a gpu=0.5"}
    assert nodes_of(world(["a1/a2> ."], jobs).after("allocate")) == ["a1/a2>/>b1 +b2"]
    gang = halves("a1", "a2") | {"b": "queue=a gpu=0.5 tasks=2"}
    assert nodes_of(world(["a1/a2> ."], gang).after("allocate")) == ["a1/a2>/>b >b"]


def test_parts_for_two_cards_take_one_pod_of_each():
    jobs = {"a1": "gpu=0.6", "a2": "gpu=0.4", "a3": "gpu=0.6", "a4": "gpu=0.4"}
    made = world(["a1/a2 a3/a4"], jobs | {"b": "queue=a gpu=0.4 cards=2 priority=90"})
    assert nodes_of(made.after("preempt")) == ["a1/a2>/>b a3/a4>/>b"]


def test_nobody_goes_for_a_whole_card_whose_other_part_has_to_stay():
    """Of each card one pod is more important, or may not be moved for the claiming queue."""
    jobs = {
        it: f"gpu=0.5 priority={at}"
        for it, at in zip(("a1", "a2", "a4", "a3"), (60, 40) * 2, strict=True)
    }
    made = world(["a1/a2 a3/a4"], jobs | {"b": "queue=a priority=50"})
    assert nodes_of(made.after()) == ["a1/a2 a3/a4"]
    own = halves("a1", "a2", b3="gpu=1") | dict.fromkeys(("b1", "b2"), "gpu=0.5 preemptible=no")
    made = world(["a1/b1 a2/b2"], own, "queue a deserved=0\nqueue b deserved=2")
    assert nodes_of(made.after()) == ["a1/b1 a2/b2"]


def test_the_other_part_of_a_card_makes_way_for_its_own_queue():
    """As on nodes: pods of the claiming queue move so that what its quota covers can start."""
    own = halves("a1", "a2", "b1", "b2", b3="gpu=1")
    made = world(["a1/b1 a2/b2"], own, "queue a deserved=0\nqueue b deserved=2")
    assert nodes_of(made.after()) == ["a1>/b1/>b2 a2>/b2>/>b3"]


def test_a_whole_card_is_taken_from_the_elastic_pods_of_one_job():
    queues = "queue a deserved=1\nqueue b deserved=1"
    jobs = {"a1": "gpu=0.5 tasks=4 min=1", "b1": "gpu=1"}
    made = world(["a1/a1 a1/a1"], jobs, queues).after("reclaim")
    assert nodes_of(made) == ["a1/a1 a1>/a1>/>b1"]
