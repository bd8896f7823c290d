"""What holds of every pod set with Kueue's annotations."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kaisched import TopologyConstraint
from kaisched.testing import ClusterBuilder

SEEDS = st.integers(0, 1 << 32)
LEVELS = ("block", "rack", "host")


def drawn(seed: int) -> tuple[ClusterBuilder, TopologyConstraint, int]:
    """Draw hosts on which others run, and one pod set, some of whose pods run too."""
    rng = Random(seed)
    builder = ClusterBuilder().topology("t", *LEVELS).queue("v").queue("a", deserved=8)
    room = {}
    for at in range(rng.randint(2, 9)):
        name, rack = f"n{at}", rng.randint(1, 3)
        place = {"block": f"b{rack % 2}", "rack": f"r{rack}", "host": name}
        builder.node(name, gpu=rng.randint(1, 6), labels=place)
        room[name] = rng.randint(0, 1)
    for name, held in room.items():
        if held:
            builder.job(f"v-{name}", queue="v", running={name: held})
    slices: tuple[tuple[str, int], ...] = ()
    size = rng.choice([1, 1, 2, 3])
    if size > 1:
        slices = ((rng.choice(LEVELS[1:]), size),)
    level = rng.choice(LEVELS[:2])
    required, preferred = rng.choice([(level, ""), ("", level), ("", "")])
    wish = TopologyConstraint("", required, preferred, slices, is_pod_set=True)
    pods = size * rng.randint(1, 4)
    builder.job("a1", queue="a", tasks=pods, topology=wish)
    return builder, wish, pods


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_pods_are_in_one_domain_and_slices_are_whole(seed):
    """The rules of the plugin are checked besides, as after every cycle, with evictions too."""
    builder, wish, pods = drawn(seed)
    ran: Any = builder.run()
    started = [*ran.placed.items(), *ran.promised.items()]
    mine = [node for pod, node in started if pod.startswith("a1")]
    labels = dict(zip(ran.snapshot.nodes.name, ran.snapshot.nodes.labels, strict=True))
    assert len(mine) in (0, pods)
    if mine and wish.required:
        assert len({labels[node][wish.required] for node in mine}) == 1
    for level, size in wish.slices:
        counts = Counter((labels[node]["block"], labels[node][level]) for node in mine)
        assert all(count % size == 0 for count in counts.values())


@given(SEEDS)
@settings(max_examples=12, deadline=None)
def test_annotations_start_nothing_that_would_not_start_without_them(seed):
    bound, _, pods = drawn(seed)
    free, _, _ = drawn(seed)
    job = free._jobs[-1]
    free._jobs[-1] = replace(job, root=replace(job.root, topology=None))
    with_it: Any = bound.run("allocate")
    without: Any = free.run("allocate")
    mine = [pod for pod in without.placed if pod.startswith("a1")]
    assert len(mine) == pods or not any(pod.startswith("a1") for pod in with_it.placed)
