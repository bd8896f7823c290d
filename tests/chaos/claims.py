"""The chaos test of claims on devices: ``python -m tests.chaos.claims --minutes 10 --seed 7``.

No device is given twice, no pod that runs loses its devices, and nothing is left at the end,
however often the replicas and the API server are killed. The replicas also kill themselves between
the writes of a claim.
"""

import argparse
import random
import secrets
import sys
import tempfile
import threading
import time
from pathlib import Path

from kaisched.cluster.kubernetes.client import MERGE, Client
from kaisched.cluster.kubernetes.pods import CLAIM_POINTS
from kaisched.errors import ClusterUnavailable
from tests import objects
from tests.chaos.checker import Outages
from tests.chaos.claim_checker import ClaimChecker, claim_of
from tests.chaos.claim_parts import (
    CLASS,
    RESOURCE,
    RUN_SECONDS,
    ClaimParts,
    device_class,
    slice_of,
)
from tests.chaos.faults import FIXED, LANES, Faults
from tests.chaos.objects import GROUPS, NAMESPACE, NODES, PODS, Refused, insist, make_node, shipped
from tests.chaos.replicas import Replicas
from tests.chaos.stage import asking_of, stage
from tests.chaos.watching import KINDS, Sorter, Stream
from tests.chaos.world import World
from tests.deploy.manifests import KUSTOMIZE, documents

DEVICES = 4
CLAIM_LIST = f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaims"
SHARD = "/apis/kai.scheduler/v1/schedulingshards/default"
STREAMS = {**KINDS, "claims": (f"{RESOURCE}/resourceclaims", claim_of)}
POINTS = (*CLAIM_POINTS, "bind.before_post", "bind.after_post")
TEMPLATES = {
    "one": {"exactly": {"deviceClassName": CLASS}},
    "two": {"exactly": {"deviceClassName": CLASS, "count": 2}},
    "best": {
        "firstAvailable": [
            {
                "name": "large",
                "deviceClassName": CLASS,
                "count": 2,
                "selectors": [
                    {
                        "cel": {
                            "expression": f'device.capacity["{CLASS}"].memory.compareTo('
                            'quantity("80Gi")) >= 0'
                        }
                    }
                ],
            },
            {"name": "any", "deviceClassName": CLASS},
        ]
    },
}
QUEUES = ("left", "right")
DRAIN_S = 120.0
"""As long at the end until all is gone, and again until every device was had once more."""


class ClaimChurn:
    """Users: pods with claims from templates, gangs of them, and pods that share a claim."""

    def __init__(self, asking, world, chance, end, wanted):
        self.is_making, self.made = True, 0
        self._asking, self._world, self._chance, self._end = asking, world, chance, end
        self._wanted, self._shared = wanted, {}
        self._thread = threading.Thread(target=self._run, name="churn", daemon=True)

    def start(self):
        self._thread.start()

    def _run(self):
        while not self._end.wait(0.2):
            try:
                self._tick()
            except (ClusterUnavailable, Refused):
                self._end.wait(0.5)

    def _tick(self):
        pods = [it for it in self._world.all("pods") if it.key.startswith(f"{NAMESPACE}/")]
        for pod in pods:
            if pod.phase in {"Succeeded", "Failed"} and not pod.is_leaving:
                self._asking.client.call("DELETE", f"{PODS}/{pod.key.partition('/')[2]}", body={})
        alive = {it.key.partition("/")[2] for it in pods}
        for claim, users in list(self._shared.items()):
            if not alive & users:
                self._asking.client.call("DELETE", f"{CLAIM_LIST}/{claim}", body={})
                del self._shared[claim]
        if self.is_making and len(pods) < self._wanted:
            self._make()

    def _make(self):
        self.made += 1
        sort = self._chance.choices(("one", "two", "best", "gang", "shared"), (4, 3, 3, 2, 3))[0]
        name = f"{sort}-{self.made}"
        if sort == "shared":
            users = {f"{name}-{at}" for at in range(self._chance.randint(2, 4))}
            self._shared[name] = users
            spec = {"devices": {"requests": [{"name": "gpu", **TEMPLATES["one"]}]}}
            self._post(CLAIM_LIST, {"metadata": {"name": name}, "spec": spec})
            for user in sorted(users):
                self._pod(user, {"resourceClaimName": name})
        elif sort == "gang":
            self._post(GROUPS, objects.group(name, self._chance.choice(QUEUES), 3))
            for at in range(3):
                self._pod(f"{name}-{at}", {"resourceClaimTemplateName": "one"}, group=name)
        else:
            self._pod(name, {"resourceClaimTemplateName": sort})

    def _pod(self, name, ref, group=""):
        run_s = f"{self._chance.uniform(1.0, 8.0):.1f}"
        self._post(PODS, pod_of(name, ref, self._chance.choice(QUEUES), run_s, group=group))

    def _post(self, path, obj):
        answer = self._asking.client.call("POST", path, body=obj)
        if not answer.is_done and "AlreadyExists" not in answer.text():
            raise Refused(answer.text())

    def end_all(self):
        """Delete all pods and claims that users made; return how many pods are left."""
        pods = self._asking.must("GET", PODS)["items"]
        for pod in pods:
            body = {"gracePeriodSeconds": 0}
            self._asking.client.call("DELETE", f"{PODS}/{pod['metadata']['name']}", body=body)
        claims = self._asking.must("GET", CLAIM_LIST)["items"]
        for claim in claims:
            path = f"{CLAIM_LIST}/{claim['metadata']['name']}"
            self._asking.client.call("DELETE", path, body={})
        return len(pods) + len(claims)


def pod_of(name, ref, queue, run_s, **more):
    """A pod of the device of one claim."""
    return objects.pod(
        name,
        queue,
        main={"resources": {"claims": [{"name": "gpu"}]}},
        gpus=0,
        annotations={RUN_SECONDS: run_s},
        terminationGracePeriodSeconds=1,
        resourceClaims=[{"name": "gpu", **ref}],
        **more,
    )


class ClaimRun:
    """One run: everything started, faults played, all drained and looked at."""

    def __init__(self, here, folder, seed, *, nodes, is_short, say):
        self.here, self.folder, self.say = here, folder, say
        self.nodes = [f"node-{number:02}" for number in range(nodes)]
        self.world, self.checker, self.sorter = World(), ClaimChecker(), Sorter()
        self.outages, self.asking = Outages(), asking_of(here)
        self.failures = []
        self._end, self._chance, self._is_short = threading.Event(), random.Random(seed), is_short

    def furnish(self):
        """Deploy what is shipped, with the rights of claims, and make nodes with devices."""
        roles = KUSTOMIZE / "components" / "claims" / "claims-role.yaml"
        for obj in (*shipped(), *documents(roles.read_text(encoding="utf-8"))):
            insist(lambda it=obj: self.asking.apply(it))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        self.asking.apply(namespace)
        body = {"spec": {"resourceClaims": True}}
        insist(lambda: self.asking.must("PATCH", SHARD, body, MERGE))
        for name in QUEUES:
            insist(lambda it=name: self.asking.apply(objects.queue(it, 2 * len(self.nodes))))
        self._make(f"{RESOURCE}/deviceclasses", device_class())
        for name in self.nodes:
            make_node(self.asking, name)
            body = {"status": {"capacity": {"nvidia.com/gpu": "0"}}}
            body["status"]["allocatable"] = body["status"]["capacity"]
            self.asking.must("PATCH", f"{NODES}/{name}/status", body, MERGE)
            self._make(f"{RESOURCE}/resourceslices", slice_of(name, DEVICES))
        path = f"{RESOURCE}/namespaces/{NAMESPACE}/resourceclaimtemplates"
        for name, request in TEMPLATES.items():
            spec = {"spec": {"devices": {"requests": [{"name": "gpu", **request}]}}}
            self._make(path, {"metadata": {"name": name}, "spec": spec})

    def _make(self, path, obj):
        answer = self.asking.client.call("POST", path, body=obj)
        if not answer.is_done and "AlreadyExists" not in answer.text():
            raise Refused(answer.text())

    def start(self):
        self.furnish()
        kubeconfig = self.folder / "kubeconfig"
        self.here.log_in(kubeconfig)
        self.replicas = Replicas(kubeconfig, self.folder, self._end)
        chance = random.Random(self._chance.random())
        self.replicas.more = lambda: self._more(chance)
        watching = Client(self.here.access, connections=8, timeout_s=60.0)
        self.streams = [
            Stream(watching, kind, self._handle, self._end, STREAMS).start() for kind in STREAMS
        ]
        hands = Client(self.here.access, connections=4, timeout_s=60.0)
        self.parts = ClaimParts(hands, NAMESPACE, self._end).start()
        self.replicas.start()
        if not self._comes(lambda: self.world.leader, 180.0):
            said = self.replicas.last_words()
            raise RuntimeError("\n".join(["nobody leads after three minutes", *said]))
        chance = random.Random(self._chance.random())
        wanted = 2 * DEVICES * len(self.nodes)
        self.churn = ClaimChurn(self.asking, self.world, chance, self._end, wanted)
        self.churn.start()

    def _more(self, chance):
        """Let every second process end by itself between two writes."""
        if not self.churn_runs or chance.random() < 0.5:
            return {}
        return {"KAISCHED_FAILPOINT": f"{chance.choice(POINTS)}:{chance.randint(1, 25)}"}

    @property
    def churn_runs(self):
        return getattr(self, "churn", None) is not None and self.churn.is_making

    def _handle(self, event):
        self.sorter.put(event)
        if event.kind != "claims":
            self.world.handle(event)

    def _comes(self, condition, seconds):
        end_s = time.monotonic() + seconds
        while not condition() and time.monotonic() < end_s:
            time.sleep(0.2)
        return condition()

    def play(self, seconds):
        listed = FIXED if self._is_short else LANES
        lanes = {
            "replicas": listed["replicas"],
            "server": listed["server"],
            "objects": ("pods_deleted", "node_cordoned"),
        }
        self.faults = Faults(
            self.here,
            self.asking,
            self.world,
            self.replicas,
            None,
            self.outages,
            self._chance.random(),
            is_fixed=self._is_short,
            lanes=lanes,
        )
        self.faults.start()
        end_s = told_s = time.monotonic()
        end_s += seconds
        while time.monotonic() < end_s:
            time.sleep(1.0)
            self.check()
            if time.monotonic() - told_s > 60.0:
                told_s = time.monotonic()
                self.print_state()
        self.faults.stop()
        self.print_state()

    def check(self):
        known = len(self.checker.breaches)
        ripe_s = time.monotonic() - self.sorter.lag_s
        self.checker.take(self.sorter.ready(ripe_s, self.streams))
        for text in self.checker.breaches[known:]:
            self.say(f"BREACH at {text}")
            for it in self.faults.before(time.monotonic(), 3):
                self.say(f"  fault {it.kind}: {it.text or 'now'}")

    def print_state(self):
        counts = dict(sorted(self.checker.counts.items()))
        self.say(f"{counts}, {len(self.faults.done)} faults, {len(self.replicas.lives)} processes")

    # -- the end ---------------------------------------------------------------------------------

    def drain(self):
        """End all pods: no claim keeps anything, and every device can be had once more."""
        self.churn.is_making = False
        if not self._comes(self._is_empty, DRAIN_S):
            time.sleep(self.sorter.lag_s + 1)
            self.check()
            self.failures += self.checker.leaks() or ["pods are left"]
        number = DEVICES * len(self.nodes)
        for at in range(number):
            body = pod_of(f"last-{at}", {"resourceClaimTemplateName": "one"}, QUEUES[0], "600")
            insist(lambda it=body: self._make(PODS, it))
        if not self._comes(lambda: self._running() == number, DRAIN_S):
            text = f"only {self._running()} of {number} devices can be had at the end"
            self.failures += [text, *self._why_waiting()]
        if not self._comes(self._is_empty, DRAIN_S):
            self.failures.append("pods or claims are left at the end")
        time.sleep(self.sorter.lag_s + 1)
        self.check()

    def _is_empty(self):
        try:
            return self.churn.end_all() == 0
        except (Refused, ClusterUnavailable):
            return False

    def _running(self):
        pods = self.world.all("pods")
        return sum(it.phase == "Running" and "/last-" in it.key for it in pods)

    def _why_waiting(self):
        found = [it for it in self.world.all("pods") if "/last-" in it.key and not it.node]
        return [f"{it.key}: {it.why}" for it in found[:3]]

    def stop(self):
        if hasattr(self, "faults"):
            self.faults.stop()
        self._end.set()
        if hasattr(self, "replicas"):
            self.replicas.stop()


def options():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.claims", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of churn and faults")
    parser.add_argument("--seed", type=int, help="a number; by chance unless given")
    parser.add_argument("--short", action="store_true", help="fewer nodes, fixed faults")
    parser.add_argument("--logs", type=Path, help="folder for the logs of the replicas")
    return parser.parse_args()


def main():
    asked = options()
    seed = secrets.randbelow(10**6) if asked.seed is None else asked.seed

    def say(text):
        print(text, flush=True)

    say(f"claims: seed {seed}, {asked.minutes:g} minutes")
    with tempfile.TemporaryDirectory(prefix="claims-") as kept, stage() as here:
        folder = asked.logs or Path(kept)
        folder.mkdir(parents=True, exist_ok=True)
        nodes = 3 if asked.short else 10
        run = ClaimRun(here, folder, seed, nodes=nodes, is_short=asked.short, say=say)
        try:
            run.start()
            run.play(asked.minutes * 60)
            run.drain()
        finally:
            run.stop()
        bad = [f"{who}: {what}, {of}" for (who, what), of in run.replicas.bad.items()]
        for text in (*run.failures, *bad):
            say(f"FAILED {text}")
        say(f"kubelets saw: {dict(run.parts.waits)}; faults: {len(run.faults.done)}")
        say(f"ends by themselves: {len(run.replicas.ends)}; late events: {run.sorter.late}")
        return 1 if run.checker.breaches or run.failures or bad else 0


if __name__ == "__main__":
    sys.exit(main())
