"""Builders: a cluster in a few lines, one cycle, and its outcome."""

import numpy as np
import pytest

from kaisched import Plugin, hookimpl
from kaisched.objects.decode import BadObject
from kaisched.testing import ClusterBuilder
from kaisched.testing.builder import Group, Task, add_foreign
from kaisched.units import MEBIBYTE


class LastByName(Plugin):
    """Prefers nodes late in the alphabet."""

    name = "last-by-name"
    default_weight = 1e9

    @hookimpl
    def node_score(self, session, shape, rows, extra):
        return rows / max(len(session.nodes), 1)


def two_nodes():
    return ClusterBuilder().node("n0", gpu=2).node("n1", gpu=2).queue("a", deserved=1)


def test_one_cycle_with_the_default_shard():
    ran = two_nodes().job("train", queue="a", tasks=3).job("big", queue="a", gpu=2).run()
    assert ran.placed == {"train-0": "n0", "train-1": "n0", "train-2": "n1"}
    assert ran.reasons == {"big": "NoRoom"}
    assert ran.promised == {}
    assert ran.evicted == {}


def test_a_plugin_that_is_not_installed_takes_part():
    ran = two_nodes().job("train", queue="a").run(plugins=[LastByName])
    assert ran.placed == {"train-0": "n1"}


def test_the_shard_has_the_last_word_about_a_plugin():
    shard = {"plugins": {"last-by-name": {"enabled": False}}}
    ran = two_nodes().job("train", queue="a").run(plugins=[LastByName], shard=shard)
    assert ran.placed == {"train-0": "n0"}


def test_a_wrong_shard_is_refused():
    with pytest.raises(BadObject, match="plugin"):
        two_nodes().run(shard={"plugin": {}})


def test_a_plugin_that_fails_fails_the_test():
    class Broken(Plugin):
        """Raises."""

        name = "broken"

        @hookimpl
        def node_score(self, session, shape, rows, extra):
            raise RuntimeError("no idea")

    with pytest.raises(AssertionError, match=r"broken.*no idea"):
        two_nodes().job("train", queue="a").run(plugins=[Broken])


def test_a_job_cannot_have_more_places_than_pods():
    with pytest.raises(ValueError, match="job train has 1 tasks, but 2 have a place"):
        two_nodes().job("train", queue="a", running={"n0": 2})


def test_bounds_name_other_resources_too():
    builder = ClusterBuilder().queue("a", deserved={"cpu": 2}, limit={"gpu": None, "memory": 1.5})
    queues = builder.store().snapshot().queues
    assert queues.deserved[:2, 0].tolist()[0] == 2000
    assert queues.limit[1, 0] == 1536 * MEBIBYTE


def test_a_tree_of_pod_sets_starts_with_what_each_needs():
    tree = Group("", None, (Group("lead", 1), Group("work", 2)))
    podsets = ["lead", "work", "work", "work"]
    builder = (
        ClusterBuilder().queue("a").job("ring", queue="a", tasks=4, groups=tree, podsets=podsets)
    )
    assert builder.node("n0", gpu=2).run().placed == {}
    assert builder.node("n1", gpu=1).run().placed == {
        "ring-0": "n1",
        "ring-1": "n0",
        "ring-2": "n0",
    }


def test_a_foreign_pod_takes_room_and_is_no_part_of_the_total():
    store = two_nodes().store()
    add_foreign(store, Task("other", {"gpu": 1000}, state=6, node="n0"))
    snapshot = store.snapshot()
    assert snapshot.nodes.idle[2].tolist() == [1000, 2000]
    assert snapshot.total[2] == 3000
    assert np.all(snapshot.allocated == 0)


def test_pods_take_pieces_of_other_resources():
    """A MIG instance is a piece of a resource, and a part of a GPU in queues."""
    instance = "nvidia.com/mig-3g.40gb"
    ran = (
        ClusterBuilder()
        .node("n0", gpu=4)
        .node("n1", extended={instance: 2})
        .queue("a", deserved=2)
        .job("notebook", queue="a", tasks=3, min_tasks=1, gpu=0, extended={instance: 1})
        .run()
    )
    assert ran.placed == {"notebook-0": "n1", "notebook-1": "n1"}
    (share,) = ran.result.shares
    assert share.allocated["gpu"] == 2 * 428
