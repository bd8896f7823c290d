"""Claims that wait for their pod: its node is named, the volume is waited for, then it is bound."""

import pytest
from msgspec import json

from kaisched.cluster.kubernetes import binder as module
from kaisched.cluster.kubernetes.binder import BindWork, GangBinds, Steps, VolumeClaims
from kaisched.framework.intents import Bind
from kaisched.objects.pod import SELECTED_NODE
from kaisched_apiserver import Fault
from tests.unit.cluster.kubernetes.test_binder import held_back, refuted

PATH = "/api/v1/namespaces/default/persistentvolumeclaims"
MERGE = "application/merge-patch+json"


@pytest.fixture
def claim(client):
    """Create a claim."""

    def claim(name, **annotations):
        meta = {"name": name, "annotations": annotations}
        body = {"metadata": meta, "spec": {"storageClassName": "slow"}}
        assert client.call("POST", PATH, body=body).is_done
        return f"default/{name}"

    return claim


@pytest.fixture
def change(client):
    """Change a claim."""

    def change(name, **changes):
        answer = client.call("PATCH", f"{PATH}/{name}", body=changes, content_type=MERGE)
        assert answer.is_done, answer.text()

    return change


@pytest.fixture
def made(change):
    """Give a claim its volume, as a provisioner and the controller of volumes do."""

    def made(name):
        done = {"pv.kubernetes.io/bind-completed": "yes"}
        change(name, metadata={"annotations": done}, spec={"volumeName": f"pv-{name}"})

    return made


@pytest.fixture
def node_of(client):
    def node_of(name):
        answer = client.call("GET", f"{PATH}/{name}")
        return json.decode(answer.data)["metadata"].get("annotations", {}).get(SELECTED_NODE)

    return node_of


@pytest.fixture
def work(writers, make_pod):
    """A bind of a new pod to n0, that waits for claims."""

    def work(*keys, gang=None, volumes=None):
        pod = make_pod("p")
        bind = Bind("default/p", pod["metadata"]["uid"], "n0", "default/g", 0, 0)
        writers.under_way.add((bind.pod, bind.uid))
        waiting = VolumeClaims(writers, "n0", list(keys), volumes or {})
        return BindWork(writers, bind, gang or GangBinds("default/g"), Steps([waiting]))

    return work


def test_the_pod_is_bound_once_all_its_claims_have_their_volumes(
    work, claim, made, node_of, get_pod, writers
):
    binding = work(claim("c"), claim("d"))
    assert binding.send() == module.PAUSE_S
    assert (node_of("c"), node_of("d")) == ("n0", "n0")
    made("c")
    assert binding.send() == module.PAUSE_S
    assert "nodeName" not in get_pod("p")["spec"]
    assert [pod for pod, _ in writers.under_way] == ["default/p"]
    made("d")
    assert binding.send() is None
    assert get_pod("p")["spec"]["nodeName"] == "n0"
    assert writers.under_way == set()


def test_a_claim_that_has_its_volume_already_is_left_alone(work, claim, made, node_of, get_pod):
    key = claim("c")
    made("c")
    assert work(key).send() is None
    assert node_of("c") is None
    assert get_pod("p")["spec"]["nodeName"] == "n0"


@pytest.mark.parametrize("case", ["taken away", "elsewhere", "gone"])
def test_a_volume_that_cannot_be_made_is_a_failed_bind(
    case, work, claim, change, client, news, get_pod, writers
):
    named = {SELECTED_NODE: "n9"} if case == "elsewhere" else {}
    binding = work(claim("c", **named))
    if case != "elsewhere":
        assert binding.send() == module.PAUSE_S
    if case == "taken away":
        change("c", metadata={"annotations": {SELECTED_NODE: None}})
    if case == "gone":
        assert client.call("DELETE", f"{PATH}/c").is_done
    assert binding.send() is None
    assert held_back(news) == ["default/p"]
    assert "nodeName" not in get_pod("p")["spec"]
    assert writers.under_way == set()


def test_a_volume_that_does_not_come_is_not_waited_for_for_ever(
    work, claim, news, monkeypatch, node_of
):
    binding = work(claim("c"))
    assert binding.send() == module.PAUSE_S
    monkeypatch.setattr(module, "MOST_S", -1.0)
    assert binding.send() is None
    assert held_back(news) == ["default/p"]
    assert node_of("c") == "n0"  # the volume may be in the making


def test_the_rest_of_a_gang_that_cannot_be_bound_waits_for_no_volume(work, claim, news):
    gang = GangBinds("default/g")
    binding = work(claim("c"), gang=gang)
    assert binding.send() == module.PAUSE_S
    gang.give_up("another pod of it is gone")
    assert binding.send() is None
    assert refuted(news) == ["default/p"]


@pytest.mark.parametrize("code", [401, 409, 429, 500])
def test_an_answer_that_may_pass_is_asked_for_again(code, server, work, claim, made, get_pod):
    binding = work(claim("c"))
    plural = "persistentvolumeclaims"
    server.faults.add(Fault("status", verb="patch", plural=plural, code=code))
    assert binding.send() > 0
    assert binding.send() == module.PAUSE_S
    made("c")
    server.faults.add(Fault("status", verb="get", plural=plural, code=500))
    assert binding.send() > 0
    assert binding.send() is None
    assert get_pod("p")["spec"]["nodeName"] == "n0"


# -- volumes that are there ------------------------------------------------------------------------

VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture
def disk(client):
    """Create a volume; return what says which claim it is for."""

    def disk(name):
        assert client.call("POST", VOLUMES, body={"metadata": {"name": name}, "spec": {}}).is_done
        return lambda: json.decode(client.call("GET", f"{VOLUMES}/{name}").data)["spec"].get(
            "claimRef"
        )

    return disk


def test_a_volume_that_is_there_is_given_to_its_claim_before_the_pod_is_bound(
    work, claim, made, node_of, disk, get_pod
):
    ref = disk("d")
    binding = work(claim("c"), volumes={"default/c": "d"})
    assert binding.send() == module.PAUSE_S
    assert (ref()["namespace"], ref()["name"], node_of("c")) == ("default", "c", None)
    assert binding.send() == module.PAUSE_S
    made("c")
    assert binding.send() is None
    assert get_pod("p")["spec"]["nodeName"] == "n0"


def test_a_volume_is_free_again_if_the_pod_is_not_bound(work, claim, disk, news, monkeypatch):
    ref = disk("d")
    binding = work(claim("c"), volumes={"default/c": "d"})
    assert binding.send() == module.PAUSE_S
    monkeypatch.setattr(module, "MOST_S", -1.0)
    while binding.send() is not None:
        pass
    assert held_back(news) == ["default/p"]
    assert ref() is None


@pytest.mark.parametrize("case", ["none", "another's", "gone"])
def test_without_a_free_volume_the_bind_has_failed(case, work, claim, disk, client, news, get_pod):
    if case == "another's":
        ref = disk("d")
        body = {"spec": {"claimRef": {"namespace": "default", "name": "other"}}}
        assert client.call("PATCH", f"{VOLUMES}/d", body=body, content_type=MERGE).is_done
    binding = work(claim("c"), volumes={"default/c": "" if case == "none" else "d"})
    while binding.send() is not None:
        pass
    assert held_back(news) == ["default/p"]
    assert "nodeName" not in get_pod("p")["spec"]
    if case == "another's":
        assert ref()["name"] == "other"
