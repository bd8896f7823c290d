"""``kaisched queue hold``, ``drain`` and ``resume`` on a cluster."""

import json

import pytest

from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client
from kaisched_apiserver import ApiServer
from kaisched_apiserver.playground import add_kai_kinds, kubeconfig_of

PATH = "/apis/scheduling.run.ai/v2/queues"
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team-a"},
    "spec": {"resources": {}},
}


@pytest.fixture
def cluster(tmp_path, run):
    """A cluster with a queue; returns a command line on it, and the queue's spec."""
    with ApiServer() as server:
        add_kai_kinds(server)
        client = Client(Access(server.url))
        assert client.call("POST", PATH, body=QUEUE).is_done
        file = tmp_path / "kubeconfig"
        file.write_text(kubeconfig_of(server.url))

        def spec():
            return json.loads(client.call("GET", f"{PATH}/team-a").data)["spec"]

        def on(*line):
            code, out, err = run("queue", *line, "--kubeconfig", file)
            which = f"context playground, cluster playground at {server.url}"
            about = f"kaisched: this is about {which}\n"
            assert err.startswith(about)
            assert not out or out.endswith(f"; {which}\n")
            return code, out.replace(f"; {which}", ""), err.removeprefix(about)

        yield on, spec


def test_a_queue_is_held_drained_and_resumed(cluster):
    run, spec = cluster
    assert run("hold", "team-a") == (
        0,
        "queue team-a is on hold: nothing new starts in it, what runs goes on\n",
        "",
    )
    assert spec()["stopPolicy"] == "Hold"
    assert run("drain", "team-a")[:2] == (
        0,
        "queue team-a is drained: nothing new starts in it, and what runs is evicted\n",
    )
    assert spec()["stopPolicy"] == "HoldAndDrain"
    assert run("resume", "team-a")[:2] == (
        0,
        "queue team-a goes on: waiting jobs may start again\n",
    )
    assert spec().get("stopPolicy", "None") == "None"


def test_a_dry_run_changes_nothing(cluster):
    run, spec = cluster
    assert run("hold", "team-a", "--dry-run")[1].endswith("(dry run)\n")
    assert "stopPolicy" not in spec()


def test_a_queue_that_is_not_there_is_one_line(cluster):
    code, out, err = cluster[0]("drain", "team-b")
    assert (code, out) == (2, "")
    assert err == (
        "kaisched: there is no queue team-b; kaisched queue ls names them; kaisched config crds"
        " defines them\n"
    )
