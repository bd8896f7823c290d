"""ConfigMaps in which a pod looks up its GPU: whose they are, and requests that come late."""

import pytest
from msgspec import json
from structlog.testing import capture_logs

from kaisched.cluster.kubernetes.binder import PassingError, StepFailedError
from kaisched.cluster.kubernetes.gpu_reservations import LookupMaps
from kaisched.cluster.kubernetes.pods import EPOCH
from kaisched.errors import ClusterUnavailable
from kaisched.framework.intents import Bind
from kaisched.objects.gpus import Told
from kaisched_apiserver import Fault

PATH = "/api/v1/namespaces/default/configmaps"
NAMES = ("p-x-0", "p-x-0-evar")


@pytest.fixture
def bind(make_pod):
    return Bind("default/p", make_pod("p")["metadata"]["uid"], "n0", "default/g", 0, 0)


@pytest.fixture
def maps(writers, bind):
    """Make the ConfigMaps of another try to bind the pod."""
    told = Told("0.5", 40_000)
    return lambda: LookupMaps(writers, bind, NAMES[0], told, has_cdi_names=False)


@pytest.fixture
def ask(client):
    def ask(method, name, body=None):
        answer = client.call(method, f"{PATH}/{name}".rstrip("/"), body=body)
        return answer.code, json.decode(answer.data)

    return ask


def visible(ask):
    return [ask("GET", name)[1]["data"]["NVIDIA_VISIBLE_DEVICES"] for name in NAMES]


def test_a_try_writes_both_once(maps, ask, server):
    count = server.faults.add(Fault(plural="configmaps", times=None))
    this = maps()
    this.write(["GPU-1"])
    this.write(["GPU-1"])
    assert count.met == 2
    assert visible(ask) == ["GPU-1", "GPU-1"]


def test_another_try_writes_what_is_right_then(maps, ask):
    maps().write(["GPU-1"])
    maps().write(["GPU-2"])
    assert visible(ask) == ["GPU-2", "GPU-2"]


def test_a_write_of_an_earlier_try_that_comes_late_has_no_effect(maps, ask):
    """Also if the last try found what it would have written."""
    maps().write(["GPU-1"])
    late = {name: ask("GET", name)[1] for name in NAMES}
    for raw in late.values():
        raw["data"]["NVIDIA_VISIBLE_DEVICES"] = "GPU-2"
    maps().write(["GPU-1"])
    for name, raw in late.items():
        assert ask("PUT", name, raw)[0] == 409
        created = {**raw, "metadata": {"name": name}}
        assert ask("POST", "", created)[0] == 409
    assert visible(ask) == ["GPU-1", "GPU-1"]


@pytest.mark.parametrize("effect", ["drop_before", "drop_after"])
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_lost_answer_is_followed_by_the_same_try(maps, ask, server, effect, skip):
    maps().write(["GPU-1"])
    fault = server.faults.add(Fault(effect, plural="configmaps", skip=skip))
    this = maps()
    with pytest.raises(ClusterUnavailable):
        this.write(["GPU-2"])
    this.write(["GPU-2"])
    assert (visible(ask), fault.met) == (["GPU-2", "GPU-2"], 1)


def test_what_a_later_leader_has_written_stays(maps, ask, writers):
    maps().write(["GPU-1"])
    for name in NAMES:
        raw = ask("GET", name)[1]
        raw["metadata"]["annotations"] |= {EPOCH: "4", "kaisched.io/leader": "another"}
        assert ask("PUT", name, raw)[0] == 200
    with pytest.raises(StepFailedError, match="was written by another, which leads now"):
        maps().write(["GPU-2"])
    writers.leadership.renew(1e9, "us", 5, "kaisched-a")
    maps().write(["GPU-2"])
    assert visible(ask) == ["GPU-2", "GPU-2"]


def test_a_second_owner_makes_it_anothers(maps, ask):
    maps().write(["GPU-1"])
    raw = ask("GET", NAMES[1])[1]
    other = {"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "u"}
    raw["metadata"]["ownerReferences"].append(other)
    assert ask("PUT", NAMES[1], raw)[0] == 200
    with pytest.raises(StepFailedError, match=r"belongs to Service s \(UID u\), not to this pod"):
        maps().write(["GPU-2"])
    assert ask("GET", NAMES[1])[1]["data"]["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"


def test_labels_that_others_have_written_stay(maps, ask):
    maps().write(["GPU-1"])
    raw = ask("GET", NAMES[0])[1]
    raw["metadata"]["labels"] = {"team": "x"}
    assert ask("PUT", NAMES[0], raw)[0] == 200
    maps().write(["GPU-2"])
    assert ask("GET", NAMES[0])[1]["metadata"]["labels"] == {"team": "x"}


@pytest.mark.parametrize("verb", ["create", "get", "update"])
def test_what_may_pass_is_tried_again(maps, server, verb):
    maps().write(["GPU-1"])
    for code in (401, 409, 429, 500) if verb != "create" else (401, 429, 500):
        server.faults.add(Fault("status", verb, "configmaps", code=code))
        with pytest.raises(PassingError, match="ConfigMap default/p-x-0: "):
            maps().write(["GPU-2"])
        server.faults.clear()


@pytest.mark.fault("I138")
@pytest.mark.parametrize("code", [403, 422])
def test_what_admission_refuses_is_an_answer(maps, server, code):
    server.faults.add(Fault("status", "create", "configmaps", code=code))
    with pytest.raises(StepFailedError, match=f"ConfigMap default/p-x-0: {code} "):
        maps().write(["GPU-2"])


def test_a_missing_right_is_logged_with_what_is_needed(maps, server):
    server.api.access.tokens = {"": "scheduler"}
    server.api.access.rules = {"scheduler": []}
    with capture_logs() as logs, pytest.raises(PassingError):
        maps().write(["GPU-1"])
    assert [it["needs"] for it in logs if it["event"] == "lookup_forbidden"] == [
        "create on configmaps in namespace default"
    ]
