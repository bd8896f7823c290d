"""Leases of the shards of other processes: which pool nobody serves, and what cannot be read."""

import json
from types import SimpleNamespace

import pytest
import structlog

from kaisched.cluster.kubernetes.client import Answer
from kaisched.daemon import pool_owners
from kaisched.daemon.pool_owners import LostPools, shard_of_pool
from kaisched.errors import ClusterUnavailable

REFUSED = Answer(403, b'{"code": 403, "reason": "Forbidden", "message": "no"}')


def lease(renewed="1"):
    return Answer(200, json.dumps({"spec": {"holderIdentity": "x", "renewTime": renewed}}).encode())


class World:
    """A lease of 10 s, and a clock; what the server answers is set by hand."""

    def __init__(self, monkeypatch):
        self.now_s = 100.0
        self.answer = lease()
        monkeypatch.setattr(pool_owners, "monotonic_s", lambda: self.now_s)
        settings = SimpleNamespace(
            kubernetes=SimpleNamespace(namespace="ns"),
            leader_election=SimpleNamespace(lease_duration=10.0),
        )
        self.paths = []
        self.lost = LostPools(self, settings, {"one": "first"})

    def call(self, method, path):
        self.paths.append((method, path))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def look_for(self, seconds):
        """Look each second; return the last change."""
        found = None
        for _ in range(seconds):
            change = self.lost.look()
            found = found if change is None else change
            self.now_s += 1.0
        return found


@pytest.fixture
def world(monkeypatch):
    return World(monkeypatch)


def test_a_shard_has_the_name_of_its_pool_unless_another_is_given():
    assert shard_of_pool(["h100", "default=rest"]) == {"h100": "h100", "": "rest"}


def test_a_pool_is_lost_after_three_durations_without_renewal_and_may_come_back(world):
    assert world.look_for(30) is None
    assert world.paths[0][1].endswith("/namespaces/ns/leases/kaisched-first")
    assert len(world.paths) == 6
    assert world.look_for(10) == {"one"}
    world.answer = lease("2")
    assert world.look_for(10) == frozenset()


def test_a_lease_that_is_renewed_is_not_lost(world):
    for renewed in range(20):
        world.answer = lease(str(renewed))
        assert world.look_for(10) is None


def test_a_lease_that_is_not_there_is_lost(world):
    world.answer = Answer(404, b"{}")
    assert world.look_for(40) == {"one"}


@pytest.mark.parametrize(
    "answer", [REFUSED, Answer(500, b""), ClusterUnavailable("gone"), Answer(200, b"no JSON")]
)
def test_what_cannot_be_read_is_never_lost_and_is_told_once(world, answer):
    world.answer = answer
    with structlog.testing.capture_logs() as logs:
        assert world.look_for(100) is None
        world.answer = lease()
        world.look_for(10)
    assert [(it["event"], it["pool"], it["lease"]) for it in logs] == [
        ("lease_not_readable", "one", "kaisched-first"),
        ("lease_readable", "one", "kaisched-first"),
    ]
    assert "not taken" in logs[0]["effect"]
