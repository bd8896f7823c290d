"""Churn of pods that share GPUs, while schedulers, the API server and agents are hurt."""

import random
import threading
import time
from collections import Counter
from contextlib import suppress

import msgspec

from kaisched.errors import ClusterUnavailable
from tests import objects
from tests.chaos.objects import Refused, insist, shipped
from tests.chaos.replicas import Replicas
from tests.chaos.stage import BY_COMMAND, asking_of
from tests.deploy.manifests import KUSTOMIZE, documents
from tests.sharing.kubelet import Kubelet
from tests.sharing.ledger import Ledger
from tests.sharing.world import CONFIG_MAP, PODS, SEES, by_webhook

CARD_MIB = 80_000
SPACE = "sharing"
OF_USERS = f"/api/v1/namespaces/{SPACE}/pods"
ASKS = (
    {"gpu-fraction": "0.5"},
    {"gpu-fraction": "0.25"},
    {"gpu-fraction": "0.3333"},
    {"gpu-fraction": "0.75"},
    {"gpu-memory": "20000"},
    {"gpu-memory": "26666"},
    {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"},
    {"whole": "1"},
    {"whole": "2"},
)
SPELL_S = 30.0
"""In one half of each there is more than enough to do, in the other GPUs are given back."""
CLEARED_S = 300.0
"""How long it may take at the end until nothing is left; an agent that tells nothing is waited for
two minutes."""


class Run:
    """One run; ``breaches`` has what was wrong."""

    def __init__(self, stage, folder, seed, *, nodes=4, gpus=4, most=60, say=print):
        self.stage, self.say, self._chance = stage, say, random.Random(seed)
        self._folder, self._nodes, self._gpus, self._most = folder, nodes, gpus, most
        self.asking, self.done = asking_of(stage), Counter()
        self._end = threading.Event()
        self.kubelet = Kubelet(stage.access, pause_s=0.1)
        self.ledger = Ledger(self.kubelet, CARD_MIB)
        self._due, self._made, self._telling = {}, 0, {}
        self._tell_chance = random.Random(self._chance.random())
        self.kubelet.record = self._record

    # -- beginning and end -----------------------------------------------------------------------

    def start(self):
        deployed = shipped()
        folders = (KUSTOMIZE / "components" / it for it in ("gpu-sharing", "gpu-config-maps"))
        for file in sorted(file for folder in folders for file in folder.glob("*.yaml")):
            found = documents(file.read_text(encoding="utf-8"))
            deployed += [it for it in found if "kustomize" not in it["apiVersion"]]
        deployed += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}]
        deployed += [objects.queue("shared", 16)]
        for obj in deployed:
            if obj["kind"] == "SchedulingShard":
                sharing = {"image": "example.com/agent:1", "configMaps": True}
                obj["spec"] = {"gpuSharing": sharing}
            insist(lambda it=obj: self.asking.apply(it))
        for number in range(self._nodes):
            self._make_node(f"gpu-{number}")
        kubeconfig = self._folder / "kubeconfig"
        self.stage.log_in(kubeconfig)
        self.replicas = Replicas(kubeconfig, self._folder, self._end)
        self.kubelet.start()
        self.replicas.start()

    def stop(self):
        self._end.set()
        self.replicas.stop()
        self.kubelet.stop()

    def _make_node(self, name):
        labels = {"nvidia.com/gpu.memory": str(CARD_MIB), "nvidia.com/gpu.count": str(self._gpus)}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        self.asking.apply(node)
        objects.make_ready(self.asking.must, name, self._gpus)

    # -- agents ----------------------------------------------------------------------------------

    def _record(self, pod, gpus):
        """Tell after a while; some agents never do, some tell what is no UUID, some are killed."""
        uid, chance = pod["metadata"]["uid"], self._tell_chance
        if uid not in self._telling:
            kind = chance.choices(("soon", "late", "never", "wrong"), (80, 16, 2, 2))[0]
            wait_s = {"soon": 0.0, "late": chance.uniform(1.0, 8.0)}.get(kind, 0.0)
            self._telling[uid] = kind, time.monotonic() + wait_s
            self.done[f"agent {kind}"] += 1
        kind, when_s = self._telling[uid]
        if kind == "never" or time.monotonic() < when_s:
            return None
        return "no GPU, two GPUs" if kind == "wrong" else gpus[0]

    # -- churn -----------------------------------------------------------------------------------

    def play(self, seconds):
        """Churn and hurt for so long."""
        end_s = time.monotonic() + seconds
        fault = threading.Thread(target=self._hurt, args=(end_s,), daemon=True)
        fault.start()
        while time.monotonic() < end_s:
            with suppress(ClusterUnavailable, Refused):
                self._churn()
            time.sleep(0.15)
        fault.join()

    def _churn(self):
        now_s, chance = time.monotonic(), self._chance
        pods = {it["metadata"]["name"]: it for it in self._pods(OF_USERS)}
        for name in [it for it in self._due if it not in pods]:
            del self._due[name]
        for name, pod in pods.items():
            is_over = pod["status"].get("phase") in {"Succeeded", "Failed"}
            if pod["metadata"]["uid"] in self.kubelet.saw and name not in self._due:
                self._due[name] = now_s + chance.uniform(1.0, 10.0)
            if is_over or now_s > self._due.get(name, now_s + 1) or chance.random() < 0.002:
                self._delete(OF_USERS, name)
        most = self._most if now_s % SPELL_S < SPELL_S / 2 else self._most // 8
        for _ in range(min(4, most - len(pods))):
            self._make(chance.choice(ASKS))
        if chance.random() < 0.01:
            self._make({"whole": "1"}, node=f"gpu-{chance.randrange(self._nodes)}")
            self.done["GPU taken by another scheduler"] += 1

    def _pods(self, path):
        answer = self.asking.client.call("GET", path)
        return msgspec.json.decode(answer.data)["items"] if answer.is_done else []

    def _delete(self, path, name):
        self.asking.client.call("DELETE", f"{path}/{name}", body={"gracePeriodSeconds": 1})

    def _make(self, asked, node=""):
        self._made += 1
        container = {"name": "main", "image": "none", "env": [SEES]}
        whole = asked.get("whole")
        if whole:
            container["resources"] = {"limits": {"nvidia.com/gpu": whole}}
        elif self._chance.random() < 0.5:
            prefix, changed = by_webhook(f"pod-{self._made}")
            container, asked = container | changed, asked | {CONFIG_MAP: prefix}
            self.done["pods as KAI-Scheduler's webhook leaves them"] += 1
        place = {"nodeName": node, "schedulerName": "other"} if node else {}
        pod = objects.pod(
            f"pod-{self._made}",
            "shared",
            0,
            main=container,
            annotations={} if whole else asked,
            **place,
        )
        self.asking.must("POST", OF_USERS, pod)

    # -- faults ----------------------------------------------------------------------------------

    def _hurt(self, end_s):
        chance = random.Random(self._chance.random())
        deeds = [
            self._kill_leader,
            *([] if BY_COMMAND & self.stage.cannot else [self._restart, self._pause]),
            self.stage.drop,
        ]
        while time.monotonic() < end_s:
            time.sleep(chance.uniform(4.0, 14.0))
            deed = chance.choice(deeds)
            self.done[deed.__name__.strip("_")] += 1
            deed()

    def _kill_leader(self):
        leases = "/apis/coordination.k8s.io/v1/namespaces/kaisched/leases/kaisched-default"
        with suppress(ClusterUnavailable, Refused):
            holder = self.asking.must("GET", leases)["spec"].get("holderIdentity", "")
            life = self.replicas.named(holder)
            if life is not None:
                life.why = "killed"
                life.signal(9)

    def _restart(self):
        self.stage.down()
        time.sleep(1.0)
        self.stage.up()

    def _pause(self):
        self.stage.pause()
        time.sleep(3.0)
        self.stage.go_on()

    # -- the end ---------------------------------------------------------------------------------

    def clear(self):
        """Delete all pods, and return what is left in the end."""
        end_s = time.monotonic() + CLEARED_S
        left = ["all"]
        while left and time.monotonic() < end_s:
            with suppress(ClusterUnavailable):
                for pod in self._pods(OF_USERS):
                    self._delete(OF_USERS, pod["metadata"]["name"])
                there = [*self._pods(OF_USERS), *self._pods(PODS)]
                left = [it["metadata"]["name"] for it in there]
                left += [] if self.kubelet.plugin.given() == {} else ["GPUs of the device plugin"]
                left += [] if self.ledger.is_empty else ["parts in use"]
            time.sleep(0.5)
        return left
