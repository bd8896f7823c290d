"""Pods whose shares of GPUs are claims, end to end: templates, parts, and what goes wrong."""

import signal
from fractions import Fraction

import pytest

from kaisched.cluster.kubernetes import device_claims
from kaisched.cluster.kubernetes.pods import CLAIM_POINTS
from kaisched_apiserver import Fault
from tests.on_kubernetes.test_crashes import kubeconfig, start
from tests.sharing.claimed import TEMPLATES, Claimed, is_running
from tests.waiting import PATIENCE_S, until

__all__ = ["kubeconfig", "start"]

pytestmark = pytest.mark.slow
HALF = "kaisched-gpu-fraction-0.5"


@pytest.fixture
def claimed(rig, tmp_path, monkeypatch):
    monkeypatch.setattr(device_claims, "AGAIN_S", 0.3)
    claimed = Claimed(rig, tmp_path)
    yield claimed
    claimed.close()
    assert claimed.overfull == []


def test_halves_share_devices_by_claims_and_the_fifth_waits_for_room(claimed):
    claimed.start()
    for name in "abcde":
        claimed.share(name)
    first = claimed.wait_running(4)
    assert claimed.fullness() == {("n0", "gpu-0"): 1, ("n0", "gpu-1"): 1}
    (waiting,) = {*"abcde"} - {*first}
    until(lambda: claimed.rig.condition(waiting).get("reason") == "Unschedulable")
    made = claimed.template(HALF)
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "kaisched"}
    (request,) = made["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["capacity"] == {"requests": {"memory": "40Gi"}} or (
        request["exactly"]["capacity"] == {"requests": {"memory": "40960Mi"}}
    )
    claimed.rig.delete_pod(first[0])
    until(lambda: is_running(claimed.rig.pods()[waiting]))
    for name in claimed.rig.pods():
        claimed.rig.delete_pod(name)
    until(lambda: not list(claimed.results()), what="all devices given back")


def test_memory_and_fractions_mix_and_no_device_is_overfull(claimed):
    claimed.start()
    for number in range(8):
        claimed.share(f"m{number}", "10240")  # an eighth
        claimed.share(f"f{number}", "0.25")
    # 8 eighths and 8 quarters are three devices: the rest of the quarters waits, or eighths do.
    until(lambda: sum(claimed.fullness().values()) > Fraction(15, 8), what="two full devices")
    claimed.node("n1", 80)
    claimed.wait_running(16)
    assert set(claimed.fullness().values()) == {1}


def test_a_share_of_each_of_two_devices(claimed):
    claimed.start()
    claimed.share("a", "0.5", 2)
    claimed.wait_running(1)
    assert claimed.fullness() == dict.fromkeys([("n0", "gpu-0"), ("n0", "gpu-1")], Fraction(1, 2))
    assert claimed.template(f"{HALF}-x2") is not None


def test_a_gang_of_shares_starts_whole_or_not_at_all(claimed):
    claimed.start()
    claimed.rig.group("five", "a", 5)
    for number in range(5):
        claimed.share(f"g{number}", group="five")
    until(lambda: claimed.rig.condition("g4").get("reason") == "Unschedulable")
    assert claimed.rig.placed() == {}
    claimed.node("n1", 80)
    claimed.wait_running(5)


def test_a_pod_without_the_claim_hears_how_to_get_it(claimed):
    claimed.start()
    claimed.share("a", is_named=False)
    until(
        lambda: (
            f"resourceClaimTemplateName: {HALF}" in claimed.rig.condition("a").get("message", "")
        )
    )
    assert claimed.template(HALF) is None


def test_devices_of_two_sizes_keep_fractions_waiting_and_memory_goes(claimed):
    claimed.node("small", 40)
    claimed.start()
    claimed.share("a")
    claimed.share("b", "1000")
    claimed.wait_running(1, of="b")
    until(lambda: "ask for gpu-memory" in claimed.rig.condition("a").get("message", ""))


def test_a_template_of_somebody_else_is_left_alone_and_named(claimed):
    claimed.make_template(HALF, "1Gi")
    claimed.start()
    claimed.share("a")
    until(lambda: HALF in claimed.rig.condition("a").get("message", ""))
    assert claimed.rig.placed() == {}
    claimed.delete_template(HALF)
    claimed.rig.delete_pod("a")
    until(lambda: "a" not in claimed.rig.pods())
    claimed.share("a")
    claimed.wait_running(1)


def test_a_template_that_was_deleted_is_made_again_for_the_next_pod(claimed):
    claimed.start()
    claimed.share("a")
    claimed.wait_running(1)
    claimed.delete_template(HALF)
    claimed.share("b")
    claimed.wait_running(2)
    assert claimed.fullness() == {("n0", "gpu-0"): 1}


def test_a_scheduler_that_starts_anew_goes_on_with_the_templates_there_are(claimed):
    first = claimed.start()
    claimed.share("a")
    claimed.wait_running(1)
    first.stop()
    uid = claimed.template(HALF)["metadata"]["uid"]
    claimed.share("b")
    claimed.start()
    claimed.wait_running(2)
    assert claimed.template(HALF)["metadata"]["uid"] == uid
    assert claimed.fullness() == {("n0", "gpu-0"): 1}


@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
def test_a_lost_answer_loses_no_template_and_makes_none_twice(claimed, server, effect):
    server.faults.add(Fault(effect, plural=TEMPLATES, verb="create"))
    claimed.start()
    claimed.share("a")
    claimed.wait_running(1)


@pytest.mark.parametrize("code", [403, 429, 503])
def test_a_template_that_the_server_refuses_is_made_a_little_later(claimed, server, code):
    server.faults.add(Fault("status", plural=TEMPLATES, verb="create", code=code))
    claimed.start()
    claimed.share("a")
    claimed.wait_running(1)
    told = [it for it in claimed.rig.logs if it["event"] == "template_not_made"]
    assert [it["log_level"] for it in told] == (["error"] if code == 403 else [])


@pytest.mark.parametrize("point", [*CLAIM_POINTS, "bind.before_post", "bind.after_post:2"])
def test_a_scheduler_killed_at_any_point_leaves_no_device_overfull(claimed, start, point):
    process = start(KAISCHED_FAILPOINT=point, KAISCHED_SHARDS=claimed.shard_file())
    for name in "abcd":
        claimed.share(name)
    assert process.wait(PATIENCE_S) == -signal.SIGKILL
    claimed.start()
    claimed.wait_running(4)
    assert set(claimed.fullness().values()) == {1}


def test_nothing_is_made_where_shares_are_no_claims(claimed):
    claimed.rig.start().wait_leading()
    claimed.share("a")
    until(lambda: claimed.rig.condition("a").get("reason") == "Unschedulable")
    assert claimed.template(HALF) is None
