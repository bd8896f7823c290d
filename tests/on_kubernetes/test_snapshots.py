"""A snapshot of a scheduler that runs, and of a cluster without one."""

from urllib.error import HTTPError
from urllib.request import Request as Ask
from urllib.request import urlopen

import pytest

from kaisched.clock import SystemClock
from kaisched.daemon.http_server import Server, listen
from kaisched.daemon.http_wire import Request
from kaisched.daemon.recordings import from_cluster, from_daemon, recording_page
from kaisched.engine.recording import digest, encoded, parsed, replay
from kaisched.engine.redaction import redacted
from tests.unit.cluster.claims.worlds import DRIVER, asking
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(rig):
    for name in ("n0", "n1"):
        rig.node(name)
    rig.queue("root", -1)
    for name in ("a", "b"):
        rig.queue(name, 8, "root")
    rig.start_kubelet()
    return rig


def replayed(recording):
    recording = parsed(encoded(recording), "file")
    again = replay(recording)
    assert again.problems == []
    assert digest(again.result) == recording.result
    return again.result


def test_cycles_of_a_daemon_are_replayed_byte_for_byte(cluster):
    daemon = cluster.start(snapshots={"enabled": True}).wait_leading()
    (leader,) = daemon.daemon.leaders
    for number in range(16):
        cluster.pod(f"a{number}", "a")
    seen = [leader.recordings.next_one() for _ in range(4)]
    cluster.gang("b", "b", 8)
    seen += [leader.recordings.next_one() for _ in range(8)]
    cluster.wait_placed(*(f"b-{number}" for number in range(8)))
    seen.append(leader.recordings.next_one())
    for recording in seen:
        replayed(recording)
    pod = f"{cluster.namespace}/b-0"
    leader.cluster.post(lambda store: store.assume_evicted(pod, SystemClock().now_s()))
    last = leader.recordings.next_one()
    assert [(it.pod, it.sent) for it in last.assumed] == [(pod, "eviction")]
    assert any(past.evicted_s for past in last.past.values())
    replayed(last)
    bare, _ = redacted(last)
    assert cluster.namespace not in encoded(bare).decode()
    replayed(bare)


def test_a_cluster_is_taken_without_a_daemon(cluster):
    cluster.gang("g", "a", 4)
    until(lambda: len(cluster.pods()) == 4)
    taken = from_cluster(cluster.client, SystemClock(), ["kaisched"])
    assert taken.warnings == []
    result = replayed(taken.recording)
    assert len(result.binds) == 4
    assert cluster.placed() == {}


@pytest.mark.parametrize("allocates", [True, False])
def test_a_cluster_is_taken_with_its_claims_where_they_are_allocated(rig, tmp_path, allocates):
    rig.node("n0", 0)
    rig.queue("a", 8)
    api = "/apis/resource.k8s.io/v1"
    cel = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    rig.must(
        "POST", f"{api}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"selectors": cel}}
    )
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": "n0", "pool": pool, "devices": [{"name": "gpu-0"}]}
    rig.must("POST", f"{api}/resourceslices", {"metadata": {"name": "n0"}, "spec": spec})
    claims = f"{api}/namespaces/{rig.namespace}/resourceclaims"
    rig.must("POST", claims, {"metadata": {"name": "c"}, "spec": asking(1)})
    rig.pod("p", "a", gpus=0, resourceClaims=[{"name": "c", "resourceClaimName": "c"}])
    shard = tmp_path / "shard.yaml"
    head = "{apiVersion: kai.scheduler/v1, kind: SchedulingShard, metadata: {name: default}, spec: "
    shard.write_text(f"{head}{{resourceClaims: {str(allocates).lower()}}}}}", encoding="utf-8")
    taken = from_cluster(rig.client, SystemClock(), ["kaisched"], shard_files=[shard])
    assert len(replayed(taken.recording).binds) == allocates
    rig.ask("DELETE", f"{api}/deviceclasses/{DRIVER}")
    rig.ask("DELETE", f"{api}/resourceslices/n0")


def test_a_daemon_without_the_setting_keeps_nothing(cluster):
    daemon = cluster.start().wait_leading()
    (leader,) = daemon.daemon.leaders
    assert leader.cluster.kept is None


@pytest.mark.fault("H119")
def test_the_page_is_for_this_machine_only(cluster):
    daemon = cluster.start(snapshots={"enabled": True}).wait_leading()
    (leader,) = daemon.daemon.leaders
    source = recording_page(lambda: [leader.recordings])
    page = source.make
    assert page(Request({"shard": ["other"]}, "", "localhost:1")).status == 404
    server = Server([listen("127.0.0.1", 0, {"/snapshot": source}, "snapshots.port")])
    try:
        taken = from_daemon(f"http://127.0.0.1:{server.port}", leader.name)
        replayed(taken.recording)
        assert taken.recording.origin == "daemon"
        with pytest.raises(HTTPError) as refused:
            urlopen(
                Ask(f"http://127.0.0.1:{server.port}/snapshot", headers={"Host": "evil.example"})
            )
        with refused.value as answer:
            assert answer.code == 421
    finally:
        server.close()
