"""The optional policies that keep quotas within those above, on a real API server."""

import msgspec
import pytest

from kaisched.cluster.kubernetes.client import MERGE
from tests.on_kubernetes.rig import KUBECONFIG
from tests.waiting import until

if not KUBECONFIG:
    pytest.skip(
        "policies about quotas were not tried: set KAISCHED_TEST_KUBECONFIG",
        allow_module_level=True,
    )
from tests.deploy.test_on_a_real_server import QUEUES, server  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.real]


def queue(name, parent="", gpu=None, cpu=None, memory=None):
    amounts = {"gpu": gpu, "cpu": cpu, "memory": memory}
    resources = {key: {"quota": it} for key, it in amounts.items() if it is not None}
    spec = {"resources": resources, **({"parentQueue": parent} if parent else {})}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def message(answer):
    return msgspec.json.decode(answer.data).get("message", "") if answer.data else ""


@pytest.fixture
def tree(server):  # noqa: F811
    """Worked example X24: a department of 10 with two projects of 4, as the scheduler says."""
    rig = server.rig
    for each in (
        queue("quota-d", gpu=10, cpu=8000),
        queue("quota-p1", "quota-d", gpu=4, cpu=4000),
        queue("quota-p2", "quota-d", gpu=4, cpu=4000),
    ):
        rig.must("POST", QUEUES, each)
    sums = {"gpu": 8, "cpu": 8000.0, "memory": 0}
    say(rig, "quota-d", childrenQuota=sums)
    say(rig, "quota-p2", allocatedNonPreemptible={"nvidia.com/gpu": "3", "cpu": "500m"})
    # The server sees what was written a moment later: then the policies go by it.
    until(lambda: not changes(rig, "quota-p1", gpu=7).is_done, what="the policy going by the sums")
    yield rig
    for name in ("quota-p1", "quota-p2", "quota-p3", "quota-d"):
        rig.ask("DELETE", f"{QUEUES}/{name}")


def say(rig, name, **status):
    rig.must("PATCH", f"{QUEUES}/{name}/status", {"status": status}, MERGE)


def changes(rig, name, *, kept=False, parent=None, **quotas):
    resources = {key: {"quota": it} for key, it in quotas.items()}
    spec = {"resources": resources, **({} if parent is None else {"parentQueue": parent})}
    return rig.ask(
        "PATCH", f"{QUEUES}/{name}{'' if kept else '?dryRun=All'}", {"spec": spec}, MERGE
    )


@pytest.mark.parametrize(
    ("name", "quotas", "told"),
    [
        ("quota-p1", {"gpu": 7}, "would add up to 11 GPUs, more than its own of 10"),
        ("quota-p1", {"gpu": -1}, "an unlimited quota of GPUs is more than the 10 of quota-d"),
        ("quota-p1", {"cpu": 4001}, "would add up to 8001 millicores, more than its own of 8000"),
        ("quota-d", {"gpu": 7}, "add up to 8 GPUs, more than the new quota of 7"),
        ("quota-p2", {"gpu": 2}, "work that must not be evicted holds 3 GPUs, more than the new"),
        ("quota-p2", {"cpu": 400}, "work that must not be evicted holds 500 millicores"),
    ],
)
def test_a_change_that_promises_too_much_is_refused(tree, name, quotas, told):
    """Worked example X24: (a), (b) and (c)."""
    answer = changes(tree, name, **quotas)
    assert answer.code == 422
    assert told in message(answer)


@pytest.mark.parametrize(
    ("name", "quotas"),
    [
        ("quota-p1", {"gpu": 6}),
        ("quota-p2", {"gpu": 3}),
        ("quota-p1", {"gpu": 0.5}),
        ("quota-d", {"gpu": 8}),
        ("quota-d", {"gpu": -1}),
        ("quota-d", {"gpu": 12}),
        ("quota-p2", {"cpu": 500}),
        ("quota-p2", {"memory": 100}),
    ],
)
def test_a_change_within_the_quotas_passes(tree, name, quotas):
    answer = changes(tree, name, **quotas)
    assert answer.is_done, message(answer)


def test_a_new_queue_counts_whole_and_one_that_moves_too(tree):
    answer = tree.ask("POST", f"{QUEUES}?dryRun=All", queue("quota-p3", "quota-d", gpu=3))
    assert "would add up to 11 GPUs" in message(answer)
    tree.must("POST", f"{QUEUES}?dryRun=All", queue("quota-p3", "quota-d", gpu=2))
    tree.must("POST", QUEUES, queue("quota-p3", gpu=3))
    assert "would add up to 11 GPUs" in message(changes(tree, "quota-p3", parent="quota-d"))
    assert changes(tree, "quota-p3", parent="quota-d", gpu=2).is_done


def test_what_is_too_much_already_may_be_lowered_in_steps(tree):
    say(tree, "quota-d", childrenQuota={"gpu": 30})
    until(lambda: not changes(tree, "quota-p1", gpu=5).is_done, what="the new sum")
    assert changes(tree, "quota-p1", gpu=3).is_done
    assert changes(tree, "quota-p1", gpu=4).is_done


def test_what_the_scheduler_has_not_seen_yet_passes(tree):
    """What the policies cannot see: two writes before the sums are written again."""
    assert changes(tree, "quota-p1", gpu=6, kept=True).is_done
    answer = changes(tree, "quota-p2", gpu=6)
    assert answer.is_done, message(answer)
