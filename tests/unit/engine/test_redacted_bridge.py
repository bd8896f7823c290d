"""Redacted recordings keep which resources device classes back, and whose claims those are."""

from kaisched.core.axis import GPU
from kaisched.engine.policy import build_policy
from kaisched.engine.recording import record
from kaisched.engine.recording_file import encoded
from kaisched.engine.redaction import redacted
from kaisched.engine.replaying import replay
from kaisched.objects.decode import decode_object
from kaisched.objects.shard import SchedulingShard
from tests.unit.cluster.claims.test_both_kinds import asking_pod, migrating


def recorded(world):
    world.cluster.snapshot()
    shard, _ = decode_object({"metadata": {"name": "s"}, "spec": {}}, SchedulingShard)
    policy, _ = build_policy(shard)
    now_s = world.cluster.clock.now_s()
    state = world.cluster.state()
    return record("manifests", state, shard, policy, schedulers=["kaisched"], now_s=now_s)


def told(recording):
    """Return what does not depend on names."""
    played = replay(recording)
    snapshot, result = played.snapshot, played.result
    return (
        snapshot.axis.bridged,
        snapshot.total[GPU],
        snapshot.allocated[GPU].tolist(),
        sorted(it.node[-1] for it in result.binds),
        sorted(it.reason for it in result.records),
        len(snapshot.claims.held),
    )


def test_pods_get_the_same_from_both_kinds_of_nodes():
    world = migrating(team=8)
    for name in "abcd":
        asking_pod(world, name)
    before = recorded(world)
    assert told(before) == ("gpu", 3000, [0], ["1", "2", "2"], ["NoRoom"], 0)
    assert told(redacted(before).recording) == told(before)
    world.cycle()
    after = recorded(world)
    assert told(after) == ("gpu", 3000, [3000], [], ["NoRoom"], 2)
    bare = redacted(after).recording
    assert told(bare) == told(after)
    assert b"extended-resources-" not in encoded(bare)
