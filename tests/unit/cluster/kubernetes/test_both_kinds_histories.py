"""Histories with failing writes and new leaders on an API server, with nodes of both kinds.

After every turn each device has one claim, each pod on a node without the plugin its claim, and a
pod on a node with the plugin none. At the end all room is used.
"""

from random import Random

import pytest

from kaisched_apiserver import Fault
from tests.unit.cluster.kubernetes.live_claims import CLAIMS, POD_PATH, LiveWorld, Shard
from tests.unit.cluster.kubernetes.test_both_kinds import (
    CLAIM_WRITES,
    GPU,
)

BIND = {"verb": "create", "plural": "pods", "subresource": "binding"}
ROOM = {"n1": 2, "n2": 1, "p1": 2, "p2": 1}
"""GPUs of the nodes: by claim on those with n, by the plugin on those with p."""


class History:
    """A cluster, and what happens to it by chance."""

    def __init__(self, client, server, seed):
        self.random, self.client, self.server = Random(seed), client, server
        self.world = LiveWorld(client)
        for name, gpus in ROOM.items():
            if name.startswith("n"):
                self.world.node(name, gpus)
            else:
                self.world.bare_node(name, **{GPU: str(gpus)})
        self.world.back(GPU)
        self.shard, self.leaders = Shard(client, "h0", 1), 1
        self.alive, self.made = [], 0

    def step(self):
        """Let something happen, and decide and send; some of it may fail or be left undone."""
        random, fault = self.random, None
        what = random.choices(["come", "go", "fail", "cordon", "lead"], [8, 4, 4, 2, 2])[0]
        if what == "come" and len(self.alive) < 9:
            self.alive.append(f"w{self.made}")
            self.made += 1
            self.world.asking_pod(self.alive[-1])
        elif what == "go" and self.alive:
            self.world.delete_pod(self.alive.pop(random.randrange(len(self.alive))))
            self.let_go()
        elif what == "fail" and random.random() < 0.6:
            effect = random.choice(["drop_before", "drop_after"])
            fault = Fault(effect, **random.choice((*CLAIM_WRITES, BIND)))
        elif what == "fail":
            fault = Fault("status", **random.choice(CLAIM_WRITES), code=422)
        elif what == "cordon":
            self.world.cordon(random.choice(list(ROOM)), is_cordoned=random.random() < 0.5)
        elif what == "lead":
            self.leaders += 1
            self.shard = Shard(self.client, f"h{self.leaders}", self.leaders)
        self.shard.handle()
        self.shard.decide()
        if fault is not None:
            self.server.faults.add(fault)
        self.shard.send(most=random.choice([1, 5, 30]))
        self.server.faults.clear()

    def let_go(self):
        """Do what the controller of claims does once a pod is gone."""
        there = {it["metadata"]["uid"] for it in self.pods()}
        for claim in self.world.claims():
            if claim["metadata"]["ownerReferences"][0]["uid"] not in there:
                path = f"{CLAIMS}/{claim['metadata']['name']}"
                freed = self.world.must("PUT", f"{path}/status", {**claim, "status": {}})
                freed["metadata"]["finalizers"] = []
                self.world.must("PUT", path, freed)
                self.client.call("DELETE", path)

    def pods(self):
        return self.world.must("GET", POD_PATH)["items"]

    def check(self):
        """Compare pods with claims."""
        of_pod, given = {}, []
        for claim in self.world.claims():
            of_pod.setdefault(claim["metadata"]["ownerReferences"][0]["uid"], []).append(claim)
            allocation = (claim.get("status") or {}).get("allocation") or {"devices": {}}
            given += [(it["pool"], it["device"]) for it in allocation["devices"].get("results", ())]
        assert len(given) == len(set(given))
        left = dict(ROOM)
        for pod in self.pods():
            node, own = pod["spec"].get("nodeName"), of_pod.get(pod["metadata"]["uid"], [])
            if not node:
                continue
            left[node] -= 1
            assert len(own) == node.startswith("n")
            for claim in own:
                [result] = claim["status"]["allocation"]["devices"]["results"]
                assert result["pool"] == node
                told = pod["status"]["extendedResourceClaimStatus"]
                assert told["resourceClaimName"] == claim["metadata"]["name"]
        assert min(left.values()) >= 0

    def end(self):
        """Let all be as it should, and the last leader finish."""
        for name in ROOM:
            self.world.cordon(name, is_cordoned=False)
        for _ in range(8):
            self.let_go()
            self.shard.cycle()


@pytest.mark.parametrize("seed", range(4))
def test_each_pod_has_what_its_node_gives_whatever_fails(client, server, seed):
    history = History(client, server, seed)
    for _ in range(25):
        history.step()
        history.check()
    history.end()
    history.check()
    placed = [it for it in history.pods() if it["spec"].get("nodeName")]
    assert len(placed) == min(sum(ROOM.values()), len(history.alive))
