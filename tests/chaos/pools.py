"""Jobs with lists of node pools while leaders are killed: ``python -m tests.chaos.pools``.

Two processes serve two pools; one leads, the other stands by. Jobs come with lists of pools: gangs,
single pods, and gangs of which a part may run. The leader is killed or stopped at random, and
another process takes its place. At the end it prints what came of the jobs, and what was wrong: a
job that never ended, a pod that was bound twice, a gang in two pools, a node with too many pods.
With ``--apart`` each process serves one of the pools, and passes jobs on by marks on their pods.

The server is ours, unless KAISCHED_TEST_KUBECONFIG names a real one.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec

from kaisched.cluster.kubernetes.client import STRATEGIC
from kaisched_apiserver.playground import kubeconfig_of
from tests.on_kubernetes.rig import KUBECONFIG, Rig
from tests.processes import ANY_PORTS, Daemon

POOL, LIST = "kai.scheduler/node-pool", "kaisched.io/node-pools"
POOLS = ("one", "two")
NODES, GPUS = 4, 8
LEASE = {"LEASE_DURATION": "4s", "RENEW_DEADLINE": "3s", "RETRY_PERIOD": "500ms"}
SHARDS = "/apis/kai.scheduler/v1/schedulingshards"


class Wrong(list):
    """What was wrong, each thing once."""

    def __iadd__(self, lines):
        self.extend(line for line in lines if line not in self)
        return self


class Replica:
    """One of the two processes, started again whenever it ends."""

    def __init__(self, number, kubeconfig, folder, **variables):
        self.number, self.lives, self._folder = number, 0, folder
        self._variables = {
            "KAISCHED_CLUSTER": "kubernetes",
            "KAISCHED_KUBERNETES__KUBECONFIG": str(kubeconfig),
            "KAISCHED_KUBERNETES__NAMESPACE": "default",
            "KAISCHED_SCHEDULE_PERIOD": "200ms",
            **variables,
            **{f"KAISCHED_LEADER_ELECTION__{key}": value for key, value in LEASE.items()},
        }
        self._daemon = None
        self.tend()

    @property
    def identity(self):
        return f"replica-{self.number}-{self.lives}"

    @property
    def process(self):
        return self._daemon.process

    def tend(self):
        """Start the process if it does not run."""
        if self._daemon is None or self.process.poll() is not None:
            self.lives += 1
            identity = {"KAISCHED_LEADER_ELECTION__IDENTITY": self.identity}
            log = self._folder / f"{self.identity}.log"
            self._daemon = Daemon(log, *ANY_PORTS, **self._variables, **identity)

    def end(self):
        self._daemon.end()


class Run:
    """The cluster, the jobs, and what is seen of them."""

    def __init__(self, seed, jobs, folder, *, is_apart):
        self.is_apart = is_apart
        self.dice, self.jobs, self.folder = random.Random(seed), jobs, folder
        self.rig = Rig()
        self.made = 0
        self.ended = {}
        self.bound, self.wrong = {}, Wrong()
        self.pools_of_job, self.ends_s = {}, {}
        self.faults, self.told_s = Counter(), 0.0
        self.sizes = {}

    # -- the cluster -----------------------------------------------------------------------------

    def furnish(self):
        for pool in POOLS:
            spec = {"partitionLabelValue": pool, "poolDwell": "1s"}
            # Nobody makes a pod anew here that was evicted to be moved.
            spec["args"] = {"max-consolidation-preemptees": "0"}
            shard = {"apiVersion": "kai.scheduler/v1", "kind": "SchedulingShard"}
            shard |= {"metadata": {"name": pool}, "spec": spec}
            if self.is_apart:
                (self.folder / f"{pool}.yaml").write_bytes(msgspec.json.encode(shard))
            else:
                self.rig.ask("POST", SHARDS, shard)
            labels = {POOL: pool, "kaisched.io/project": "team"}
            self.rig.queue(f"team-{pool}", NODES * GPUS, labels=labels)
            for number in range(NODES):
                self.rig.node(f"{pool}-{number}", GPUS, {POOL: pool})
        self.rig.start_kubelet()

    def kubeconfig(self):
        if KUBECONFIG:
            return Path(KUBECONFIG).absolute()
        file = self.folder / "kubeconfig"
        file.write_text(kubeconfig_of(self.rig.access.host), encoding="utf-8")
        return file

    def new_job(self):
        """A gang, a gang of which a part may run, or a single pod, with one pool or both."""
        dice, name = self.dice, f"j{self.made}"
        self.made += 1
        pools = ", ".join(dice.choice((POOLS, POOLS[::-1], POOLS, POOLS[::-1], POOLS[:1])))
        size, gpus = dice.choice((1, 1, 2, 4, 6, 8)), dice.choice((1, 2, 4))
        self.sizes[name] = size
        notes = {LIST: pools}
        if size == 1:
            self.rig.pod(f"{name}-0", "team-one", gpus, annotations=notes)
            return
        self.rig.group(name, "team-two", dice.choice((size, size, size // 2)), annotations=notes)
        for number in range(size):
            self.rig.pod(f"{name}-{number}", "team-two", gpus, group=name)

    # -- looking ---------------------------------------------------------------------------------

    def look(self):
        """Check all pods as they are now, and end those that have run for their time."""
        pods = self.rig.pods()
        held = Counter()
        now_s = time.monotonic()
        for name, pod in pods.items():
            node = pod["spec"].get("nodeName")
            if not node:
                continue
            uid, job = pod["metadata"]["uid"], name.partition("-")[0]
            if self.bound.setdefault(uid, node) != node:
                self.wrong.append(f"pod {name} was on {self.bound[uid]}, and is on {node}")
            self.pools_of_job.setdefault(job, set()).add(node.partition("-")[0])
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                self.ended[name] = node
                continue
            held[node] += int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
            due_s = self.ends_s.setdefault(uid, now_s + self.dice.uniform(1.0, 5.0))
            if pod["status"].get("phase") == "Running" and now_s >= due_s:
                path = f"{self.rig.pods_path}/{name}/status"
                self.rig.ask("PATCH", path, {"status": {"phase": "Succeeded"}}, STRATEGIC)
        self.wrong += [f"{node} holds {gpus} GPUs" for node, gpus in held.items() if gpus > GPUS]
        split = [job for job, there in self.pools_of_job.items() if len(there) > 1]
        self.wrong += [f"job {job} was in two pools" for job in split]

    def replica(self, number, kubeconfig):
        """Start one of two standbys for both pools, or the process of one pool."""
        if not self.is_apart:
            return Replica(number, kubeconfig, self.folder)
        variables = {
            "KAISCHED_SHARDS": str(self.folder / f"{POOLS[number]}.yaml"),
            "KAISCHED_KUBERNETES__OTHER_POOLS": POOLS[1 - number],
        }
        return Replica(number, kubeconfig, self.folder, **variables)

    def leader(self):
        pool = self.dice.choice(POOLS) if self.is_apart else POOLS[0]
        path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/kaisched-{pool}"
        answer = self.rig.ask("GET", path)
        if not answer.is_done:
            return ""
        return msgspec.json.decode(answer.data)["spec"].get("holderIdentity", "")

    def break_something(self, replicas):
        """Kill the leader, stop it for longer than its lease, or kill the standby."""
        held = self.leader()
        leading = next((it for it in replicas if it.identity == held), None)
        what = self.dice.choice(("kill", "kill", "stop", "kill the standby"))
        if what == "kill the standby" and not self.is_apart:
            leading = next((it for it in replicas if it is not leading), None)
        if leading is None or leading.process.poll() is not None:
            return
        self.faults["stop" if what == "stop" else "kill" if self.is_apart else what] += 1
        if what != "stop":
            leading.process.kill()
            leading.process.wait()
            return
        leading.process.send_signal(signal.SIGSTOP)
        time.sleep(self.dice.uniform(1.0, 7.0))
        leading.process.send_signal(signal.SIGCONT)

    def play(self, most_s):
        self.furnish()
        kubeconfig = self.kubeconfig()
        replicas = [self.replica(number, kubeconfig) for number in range(2)]
        begun_s = time.monotonic()
        break_s = begun_s + 10
        total = 0
        try:
            while time.monotonic() - begun_s < most_s:
                now_s = time.monotonic()
                if self.made < self.jobs and self.made - self._done() < 60:
                    for _ in range(3):
                        self.new_job()
                if now_s >= break_s:
                    self.break_something(replicas)
                    break_s = time.monotonic() + self.dice.uniform(15.0, 40.0)
                for replica in replicas:
                    replica.tend()
                self.look()
                total = sum(self.sizes.values())
                self.print_state(now_s - begun_s, total)
                if self.made >= self.jobs and len(self.ended) == total:
                    break
                time.sleep(0.2)
        finally:
            for replica in replicas:
                replica.end()
        left = total - len(self.ended)
        if self.made < self.jobs or left:
            self.wrong.append(f"{self.made} jobs were made, {left} of {total} pods did not end")
        return time.monotonic() - begun_s, total, sum(it.lives for it in replicas)

    def print_state(self, now_s, total):
        """Print every half minute how far it is."""
        if now_s >= self.told_s + 30:
            self.told_s = now_s
            ended = len(self.ended)
            print(f"{now_s:.0f} s: {self.made} jobs, {ended} of {total} pods", flush=True)

    def _done(self):
        ended = Counter(name.partition("-")[0] for name in self.ended)
        return sum(ended[job] == size for job, size in self.sizes.items())

    def close(self):
        for pool in POOLS:
            self.rig.ask("DELETE", f"{SHARDS}/{pool}")
        self.rig.close()


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.pools")
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=20.0, help="give up after so long")
    parser.add_argument("--apart", action="store_true", help="a process for each pool")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pools-") as folder:
        run = Run(asked.seed, asked.jobs, Path(folder), is_apart=asked.apart)
        try:
            took_s, pods, lives = run.play(asked.minutes * 60)
            there = Counter(next(iter(it)) for it in run.pools_of_job.values())
            moved = sum(
                log.read_text(errors="replace").count("job_passed_on")
                for log in Path(folder).glob("*.log")
            )
        finally:
            run.close()
    print(f"{asked.jobs} jobs of {pods} pods in {took_s:.0f} s, seed {asked.seed}")
    print(f"jobs by pool: {dict(there)}")
    print(f"faults: {dict(run.faults)}; processes started: {lives}; jobs passed on: {moved}")
    print(f"wrong: {len(run.wrong)}")
    for line in run.wrong[:20]:
        print(f"  {line}")
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
