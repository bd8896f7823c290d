"""What is gone is forgotten, by the process that leads and by the one that stands by.

Jobs, queues, nodes and volumes come and go under ever new names; nothing that is kept has a name of
theirs, and there is not more of it than there was.
"""

from collections import Counter, deque

import pytest

from tests.laws.forgotten import World
from tests.laws.reported import GROUPS, QUEUES


def live_through(world, tag):
    """Let all sorts of jobs come, run, be evicted, wait in vain, succeed and go."""
    first, second, late = (f"{tag}-{it}" for it in ("first", "second", "late"))
    nodes = [f"{tag}-node-{at}" for at in range(2)]
    for name in nodes:
        world.node(name)
    for name in (first, second, late):
        world.queue(name, 8 if name == second else 4)
    world.storage(tag)
    for at in range(7):
        world.pod(f"{tag}-small-{at}", first, 2)
    world.pod(f"{tag}-large", first, 9)
    world.pod(f"{tag}-lost", first, 1, group=f"{tag}-none")
    world.pass_time(3.0, step_s=1.0)
    for name, pods, gpus in (("gang", 4, 2), ("crowd", 8, 8)):
        world.group(f"{tag}-{name}", second, pods)
        for at in range(pods):
            world.pod(f"{tag}-{name}-{at}", second, gpus, group=f"{tag}-{name}")
    world.pod(f"{tag}-urgent", first, 1, priorityClassName="build")
    world.pass_time(8.0, step_s=1.0)
    world.doomed |= {f"{GROUPS}/{tag}-late", f"{QUEUES}/{late}"}
    world.group(f"{tag}-late", late, 1)
    world.pod(f"{tag}-late", late, 1, group=f"{tag}-late")
    world.pass_time(3.0, step_s=1.0)

    def all_go():
        world.end(has_succeeded=[f"{tag}-gang-0", f"{tag}-gang-1", f"{tag}-small-6"])
        world.end_of(first, second, late, nodes=nodes)
        world.storage(tag, is_gone=True)
        world.deliver()
        world.between = lambda: None

    world.between = all_go
    world.pass_time(100.0, step_s=10.0)
    world.pass_time(4000.0, step_s=2000.0)  # evictions count for an hour


def sizes(world):
    """Return how much there is in all lists, all dictionaries and so on."""
    found = Counter()
    for it, _ in world.reachable(with_modules=False):
        if isinstance(it, dict | list | set | frozenset | deque):
            found[type(it).__qualname__] += len(it)
    return found


@pytest.mark.fault("I132")
def test_what_is_gone_is_forgotten():
    tags = [f"mayfly{at}" for at in range(3)]  # no word that other tests are named after
    with World() as world:
        counts = []
        for tag in tags:
            live_through(world, tag)
            counts.append(sizes(world))
        done = world.leader.cluster.counts.read()
        kept = {
            f"{it!r} by {way}"
            for it, way in world.reachable(with_modules=True)
            if isinstance(it, str) and any(tag in it for tag in tags[:-1])
        }
    assert {("bind", "done"), ("evict", "done"), ("report", "done")} <= done.keys()
    assert not kept, "\n".join(sorted(kept))
    assert dict(counts[-1] - counts[-2]) == {}
