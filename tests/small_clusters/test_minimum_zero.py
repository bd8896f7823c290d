"""A minimum of 0: nothing is needed, every pod or subgroup is elastic, as in KAI-Scheduler."""

import pytest

from tests.reference import making as m
from tests.small_clusters.deciding import decided

NAMES = ("a0", "a1", "b0", "b1")


def in_part(name, **more):
    """A pod of the subgroup that its name begins with."""
    return m.in_group(name, labels={"kai.scheduler/subgroup-name": name[0]}, **more)


def parts(*sizes, **of_each):
    return [
        {"name": name, "minMember": size, **of_each}
        for name, size in zip("ab", sizes, strict=False)
    ]


def bound(found):
    return {name.partition("/")[2] for name in found[0]}


@pytest.mark.parametrize("gpus", [1, 2, 3])
def test_pods_of_a_group_that_needs_none_start_one_by_one(tmp_path, gpus):
    found = decided(
        tmp_path, m.node(gpus=gpus), m.queue(), m.group(minMember=0), *map(m.in_group, NAMES[:3])
    )
    assert len(found[0]) == gpus
    assert found[3] == ({"team/team": "NoRoom"} if gpus < 3 else {})


@pytest.mark.parametrize(("gpus", "starts"), [(1, ""), (2, "a"), (3, "a"), (4, "ab")])
def test_subgroups_of_which_none_is_needed_start_each_whole(tmp_path, gpus, starts):
    group = m.group(minSubGroup=0, subGroups=parts(2, 2))
    found = decided(tmp_path, m.node(gpus=gpus), m.queue(), group, *map(in_part, NAMES))
    assert bound(found) == {name for name in NAMES if name[0] in starts}


@pytest.mark.parametrize(("gpus", "starts"), [(1, ""), (2, "r"), (3, "ro"), (4, "roo")])
def test_a_subgroup_in_which_nothing_is_needed_leaves_room_to_the_one_beside_it(
    tmp_path, gpus, starts
):
    # As in KAI-Scheduler's own end-to-end suite: both are needed, and of one no part is.
    tree = [{"name": "all-r", "minSubGroup": 2}, {"name": "all-o", "minSubGroup": 0}]
    leaves = ("o1", "o2", "r1", "r2")
    tree += [{"name": name, "minMember": 1, "parent": f"all-{name[0]}"} for name in leaves]
    pods = [
        m.in_group(name, labels={"kai.scheduler/subgroup-name": name}, gpus=1) for name in leaves
    ]
    group = m.group(minSubGroup=2, subGroups=tree)
    found = decided(tmp_path, m.node(gpus=gpus), m.queue(), group, *pods)
    assert sorted(name[0] for name in bound(found)) == sorted("rr" + starts[1:] if starts else "")


INNER = [{"name": "in", "minSubGroup": 0}]
KINDS = {
    "one subgroup": {"minSubGroup": 0, "subGroups": parts(2)},
    "inside another": {"subGroups": [*INNER, *parts(2, parent="in")]},
    "inside, of two": {"subGroups": [*INNER, *parts(2, 2, parent="in")]},
    "of no pods": {"minMember": 0},
    "no pod of it": {"subGroups": parts(0)},
}


@pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)
def test_what_is_not_needed_is_not_missed(tmp_path, spec):
    # One of two pods is left; a gang of two would be evicted as stale.
    clock = m.shard(args={"default-staleness-grace-period": "0s"})
    runs = in_part("a0", at="node-1")
    found = decided(tmp_path, clock, m.node(gpus=1), m.queue(), m.group(**spec), runs, rounds=3)
    assert found[2] == set()
    needed = m.group(subGroups=parts(2))
    found = decided(tmp_path, clock, m.node(gpus=1), m.queue(), needed, runs, rounds=3)
    assert found[2] == {"team/a0"}


@pytest.mark.proportion
@pytest.mark.parametrize("spec", [{"minMember": 0}, KINDS["no pod of it"]])
@pytest.mark.parametrize("claimed", [1, 2])
def test_as_many_pods_as_are_claimed_are_reclaimed(tmp_path, spec, claimed):
    # Both GPUs are over the quota of 0; the other queue is due both and asks for some.
    found = decided(
        tmp_path,
        m.node(gpus=2),
        m.queue(quota=0),
        m.queue("speech", quota=2),
        m.group(**spec),
        *(in_part(name, at="node-1") for name in NAMES[:2]),
        m.pod("claims", gpus=claimed, queue="speech"),
    )
    assert len(found[2]) == claimed


@pytest.mark.proportion
def test_a_subgroup_that_is_not_needed_is_reclaimed_whole(tmp_path):
    group = m.group(minSubGroup=0, subGroups=parts(2, 2))
    found = decided(
        tmp_path,
        m.node(gpus=4),
        m.queue(quota=0),
        m.queue("speech", quota=4),
        group,
        *(in_part(name, at="node-1") for name in NAMES),
        m.pod("claims", gpus=1, queue="speech"),
    )
    assert found[2] == {"team/b0", "team/b1"}
