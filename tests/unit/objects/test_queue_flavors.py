"""Quotas by flavor as a queue states them: what they mean, and what is wrong with them."""

import re

import pytest

from kaisched.cluster.queues import queue_row
from kaisched.core.tables import Flavor, FlavorQuota
from kaisched.objects.decode import BadObject, decode_object
from kaisched.objects.queue import Queue, flavor_faults


def manifest(*flavors, **spec):
    said = {"flavors": list(flavors), **spec}
    meta = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}}
    return {**meta, "spec": said}


def queue(*flavors, **spec):
    return decode_object(manifest(*flavors, **spec), Queue)[0]


def faults(*flavors, **spec):
    found = flavor_faults(queue(*flavors, **spec))
    return [(".".join(map(str, it.path)), it.message) for it in found]


OLD = {"name": "old", "nodeLabels": {"type": "old"}, "resources": {"gpu": {"quota": 2}}}
NEW = {
    "name": "new",
    "resources": {
        "gpu": {"quota": 1, "borrowingLimit": 3, "lendingLimit": 0},
        "memory": {"quota": 64},
    },
}


def test_a_queue_has_its_flavors_in_order_and_their_quotas_together():
    fungibility = {"whenCanBorrow": "TryNextFlavor", "preference": "PreemptionOverBorrowing"}
    row = queue_row(queue(OLD, NEW, flavorFungibility=fungibility))
    old, new = row.sharing.flavors
    assert old == Flavor("old", (FlavorQuota("gpu", 2000),), (("type", "old"),))
    assert new.labels == ()
    assert new.quotas[0] == FlavorQuota("gpu", 1000, 3000, 0)
    assert row.quota["gpu"] == 3000
    assert row.quota["memory"] == new.quotas[1].quota
    assert row.sharing.when_can_borrow == "TryNextFlavor"
    assert row.sharing.when_can_preempt == "TryNextFlavor"
    assert row.sharing.flavor_preference == "PreemptionOverBorrowing"


@pytest.mark.parametrize(
    ("flavor", "path", "message"),
    [
        ({**OLD, "name": ""}, "spec.flavors[1].name", "empty"),
        (OLD, "spec.flavors[1].name", "a flavor is given twice"),
        ({"name": "x"}, "spec.flavors[1].resources", "empty"),
        (
            {"name": "x", "resources": {"gpus": {"quota": 1}}},
            "spec.flavors[1].resources.gpus",
            "unknown resource 'gpus'",
        ),
        (
            {"name": "x", "resources": {"gpu": {"lendingLimit": -2}}},
            "spec.flavors[1].resources.gpu.lendingLimit",
            "negative; only -1 has a meaning",
        ),
    ],
)
def test_what_is_wrong_with_a_flavor_is_said_where_it_is(flavor, path, message):
    with pytest.raises(BadObject, match=f"{re.escape(path)}: {re.escape(message)}"):
        queue(OLD, flavor)


def test_a_plain_quota_beside_quotas_by_flavor_is_not_counted():
    told = faults(OLD, resources={"gpu": {"quota": 5, "limit": 6}})
    assert told == [("spec.resources.gpu.quota", "not counted beside quotas by flavor")]
    assert queue_row(queue(OLD, resources={"gpu": {"quota": 5, "limit": 6}})).quota["gpu"] == 2000
