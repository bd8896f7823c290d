"""What is done to the cluster: three lanes of faults, each at random from the seed.

Faults of one lane follow each other, those of different lanes meet as they may. What is met, of
the objects there are at the moment, is chosen from the seed too.
"""

import itertools
import random
import signal
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass

from kaisched.cluster.kubernetes.client import MERGE
from kaisched.errors import ClusterUnavailable
from tests.chaos.objects import (
    GROUPS,
    LEAVES,
    NODES,
    PODS,
    QUEUES,
    Refused,
    make_node,
    queue,
)

TAKE_OVER_S = 40.0
"""So long nothing more is done to the replicas after one of them was hurt."""
LANES = {
    "replicas": (
        "leader_killed",
        "leader_stopped",
        "leader_hung",
        "leader_terminated",
        "standby_killed",
    ),
    "server": (
        "server_restarted",
        "server_paused",
        "server_slow",
        "server_errors",
        "server_busy",
        "answers_dropped",
        "watches_cut",
        "watches_expired",
        "evictions_slow",
    ),
    "objects": (
        "node_deleted",
        "node_cordoned",
        "queue_deleted",
        "quota_changed",
        "pods_deleted",
        "group_deleted",
        "member_deleted",
        "beneficiary_deleted",
    ),
}
PAUSES_S = {"replicas": (15.0, 50.0), "server": (10.0, 35.0), "objects": (2.0, 8.0)}
"""Between the end of a fault and the next one of its lane."""
FIXED = {
    "replicas": ("leader_killed", "leader_stopped", "standby_killed", "leader_hung"),
    "server": (
        "answers_dropped",
        "watches_cut",
        "server_paused",
        "server_errors",
        "watches_expired",
        "server_restarted",
        "server_slow",
        "evictions_slow",
        "server_busy",
    ),
    "objects": (
        "member_deleted",
        "node_deleted",
        "quota_changed",
        "beneficiary_deleted",
        "pods_deleted",
        "node_cordoned",
        "group_deleted",
        "queue_deleted",
        "member_deleted",
        "node_deleted",
        "pods_deleted",
        "quota_changed",
    ),
}
"""The list of the short run, each lane in this order, again and again."""
SLOW_EVICTIONS = tuple(
    {"subresource": "eviction", "delay_s": delay_s, "share": share, "times": None}
    for delay_s, share in ((0.2, 0.2), (0.6, 0.25), (1.2, 0.33), (2.0, 0.5), (3.0, 1.0))
)
"""A fifth of all evictions is answered after each of these times; the first fault that meets one
happens to it."""
FIXED_PAUSES_S = {"replicas": (15.0, 15.0), "server": (4.0, 4.0), "objects": (3.0, 3.0)}


@dataclass(slots=True)
class Done:
    """One fault that happened."""

    lane: str
    kind: str
    begun_s: float
    ended_s: float = 0.0
    text: str = ""


class Faults:
    """Plays the faults until told to end; the last one is over when ``stop`` returns."""

    def __init__(
        self,
        stage,
        asking,
        world,
        replicas,
        churn,
        outages,
        seed,
        *,
        is_fixed,
        is_gentle=False,
        lanes=None,
    ):
        self.done, self.left_out = [], sorted(stage.cannot)
        self._is_gentle = is_gentle
        """Whether the replicas are to live on, so that it can be seen whether they grow."""
        self._stage, self._asking, self._world = stage, asking, world
        self._replicas, self._churn, self._outages = replicas, churn, outages
        self._end, self._is_fixed = threading.Event(), is_fixed
        self._lock = threading.Lock()
        self._chances = {lane: random.Random(f"{seed} {lane}") for lane in LANES}
        self.lanes = {
            lane: [it for it in kinds if it not in stage.cannot]
            for lane, kinds in (lanes or (FIXED if is_fixed else LANES)).items()
            if not (lane == "replicas" and is_gentle)
        }
        """The faults that are played."""
        self._threads = [
            threading.Thread(target=self._run, args=(lane, kinds), name=lane, daemon=True)
            for lane, kinds in self.lanes.items()
        ]

    def start(self):
        for thread in self._threads:
            thread.start()

    def stop(self):
        self._end.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def before(self, at_s, count=3):
        """Return the last faults that had begun by a moment, the latest first."""
        with self._lock:
            return [it for it in reversed(self.done) if it.begun_s <= at_s][:count]

    def _run(self, lane, kinds):
        chance = self._chances[lane]
        least, most = (FIXED_PAUSES_S if self._is_fixed else PAUSES_S)[lane]
        listed = itertools.cycle(kinds)
        while not self._end.wait(chance.uniform(least, most)):
            kind = next(listed) if self._is_fixed else chance.choice(kinds)
            self._play(lane, kind, random.Random(chance.random()))

    def _play(self, lane, kind, chance):
        done = Done(lane, kind, time.monotonic())
        with self._lock:
            self.done.append(done)
        try:
            done.text = getattr(self, f"_{kind}")(chance) or "nobody to meet"
        except (ClusterUnavailable, Refused) as wrong:
            done.text = f"not done: {wrong}"
        done.ended_s = time.monotonic()

    def _insist(self, act):
        """Do something that has to be done, however the server is."""
        while True:
            try:
                return act()
            except (ClusterUnavailable, Refused):
                time.sleep(0.5)

    # -- replicas --------------------------------------------------------------------------------

    def _leader(self):
        """Return who leads, once somebody does."""
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < TAKE_OVER_S and not self._end.is_set():
            life = self._replicas.named(self._world.leader)
            if life is not None:
                return life
            time.sleep(0.1)
        return None

    def _standby(self):
        leader = self._leader()
        return next((it for it in self._replicas.alive() if it is not leader), None)

    def _settle(self):
        """Give the replicas time, unless all is to end."""
        self._end.wait(1.0 if self._is_fixed else TAKE_OVER_S)

    def _kill(self, life, number):
        if life is None:
            return ""
        life.why = f"killed by {number.name}"
        life.process.terminate() if number is signal.SIGTERM else life.signal(number)
        self._settle()
        return life.name

    def _leader_killed(self, _):
        return self._kill(self._leader(), signal.SIGKILL)

    def _leader_terminated(self, _):
        return self._kill(self._leader(), signal.SIGTERM)

    def _standby_killed(self, _):
        return self._kill(self._standby(), signal.SIGKILL)

    def _leader_stopped(self, chance):
        """Stop all of it for longer than its lease lasts."""
        return self._stopped(chance, lambda life, number: life.signal(number))

    def _leader_hung(self, chance):
        """Stop the process that decides, and none that it has started."""
        return self._stopped(chance, lambda life, number: life.process.send_signal(number))

    def _stopped(self, chance, send):
        life, seconds = self._leader(), chance.uniform(18.0, 28.0)
        if life is None:
            return ""
        life.why = "stopped for longer than its lease"
        send(life, signal.SIGSTOP)
        time.sleep(seconds)
        send(life, signal.SIGCONT)
        self._settle()
        return f"{life.name} for {seconds:.0f} s"

    # -- the API server --------------------------------------------------------------------------

    def _most(self, much):
        """Return a bound of a fault: a third of it where no lease shall be lost by it."""
        return much / 3 if self._is_gentle else much

    def _out(self, begin, end, seconds):
        """Let nobody do anything for a while."""
        self._outages.begin(time.monotonic())
        begin()
        time.sleep(seconds)
        end()
        self._outages.end(time.monotonic())
        return f"for {seconds:.1f} s"

    def _server_restarted(self, chance):
        return self._out(self._stage.down, self._stage.up, chance.uniform(0.5, self._most(8.0)))

    def _server_paused(self, chance):
        return self._out(
            self._stage.pause, self._stage.go_on, chance.uniform(1.0, self._most(12.0))
        )

    def _for_a_while(self, chance, *faults):
        seconds = chance.uniform(4.0, 12.0)
        with ExitStack() as stack:
            for fault in faults:
                stack.enter_context(self._stage.fault(times=None, **fault))
            time.sleep(seconds)
        return f"for {seconds:.1f} s"

    def _server_slow(self, chance):
        # A lease that cannot be renewed in time is another fault.
        delay_s = chance.uniform(0.2, self._most(1.5))
        return self._for_a_while(chance, {"delay_s": delay_s}) + f", {delay_s:.1f} s an answer"

    def _evictions_slow(self, chance):
        with ExitStack() as stack:
            for fault in SLOW_EVICTIONS:
                stack.enter_context(self._stage.fault(**fault))
            self._end.wait(seconds := chance.uniform(20.0, 60.0))
        return f"for {seconds:.0f} s, 0.2 to 3 s an eviction"

    def _server_errors(self, chance):
        share = chance.choice((0.3, self._most(0.7)))
        code = chance.choice((500, 503, 504))
        fault = {"effect": "status", "code": code, "share": share, "seed": chance.randrange(999)}
        return f"{self._for_a_while(chance, fault)}, {code} to {share:.0%}"

    def _server_busy(self, chance):
        fault = {
            "effect": "status",
            "code": 429,
            "retry_after_s": 1,
            "share": 0.6,
            "seed": chance.randrange(999),
        }
        return self._for_a_while(chance, fault) + ", 429 to 60%"

    def _answers_dropped(self, chance):
        """Do what is asked and say nothing, for writes only."""
        faults = [
            {"effect": "drop_after", "verb": verb, "share": 0.5, "seed": chance.randrange(999)}
            for verb in ("create", "update", "patch")
        ]
        return self._for_a_while(chance, *faults) + ", half of the writes"

    def _watches_cut(self, _):
        self._stage.drop()
        return "all connections"

    def _watches_expired(self, _):
        with self._stage.fault(effect="expire", verb="watch", times=30):
            self._stage.drop()
            time.sleep(3.0)
        return "410 to every watch"

    # -- objects ---------------------------------------------------------------------------------

    def _pick(self, chance, found):
        found = sorted(found, key=lambda it: it.key)
        return chance.choice(found) if found else None

    def _running(self):
        return [it for it in self._world.all("pods") if it.holds_room and not it.is_leaving]

    def _delete(self, path, grace_s=None):
        body = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        self._asking.client.call("DELETE", path, body=body)

    def _node_deleted(self, chance):
        node = self._pick(chance, self._world.all("nodes"))
        if node is None:
            return ""
        self._delete(f"{NODES}/{node.key}")
        seconds = chance.uniform(0.0, 10.0)
        time.sleep(seconds)
        self._insist(lambda: make_node(self._asking, node.key))
        return f"{node.key} for {seconds:.1f} s"

    def _node_cordoned(self, chance):
        node = self._pick(chance, self._world.all("nodes"))
        if node is None:
            return ""
        path, seconds = f"{NODES}/{node.key}", chance.uniform(2.0, 12.0)
        for is_shut in (True, False):
            body = {"spec": {"unschedulable": is_shut or None}}
            self._insist(lambda it=body: self._asking.must("PATCH", path, it, MERGE))
            if is_shut:
                time.sleep(seconds)
        return f"{node.key} for {seconds:.1f} s"

    def _queue_deleted(self, chance):
        name, seconds = chance.choice(LEAVES), chance.uniform(0.5, 8.0)
        self._delete(f"{QUEUES}/{name}")
        time.sleep(seconds)
        self._insist(lambda: self._asking.apply(queue(name, self._gpus())))
        return f"{name} for {seconds:.1f} s"

    def _quota_changed(self, chance):
        name, factor = chance.choice(LEAVES), chance.choice((0.0, 0.5, 1.0, 2.0))
        was = queue(name, self._gpus())["spec"]["resources"]["gpu"]["quota"]
        now = round(was * factor)
        body = {"spec": {"resources": {"gpu": {"quota": now}}}}
        self._asking.must("PATCH", f"{QUEUES}/{name}", body, MERGE)
        return f"{name} to {now} of {was}"

    def _gpus(self):
        return self._churn.gpus

    def _pods_deleted(self, chance):
        pods = sorted(self._world.all("pods"), key=lambda it: it.key)
        chosen = chance.sample(pods, min(len(pods), chance.randint(1, 4)))
        for pod in chosen:
            self._delete(f"{PODS}/{pod.key.partition('/')[2]}", chance.choice((None, None, 0)))
        return ", ".join(it.key for it in chosen)

    def _group_deleted(self, chance):
        group = self._pick(chance, self._world.all("podgroups"))
        if group is None:
            return ""
        self._delete(f"{GROUPS}/{group.key.partition('/')[2]}")
        if chance.random() < 0.5:
            self._churn.give_up(group.key)
            return f"{group.key} with its job"
        return group.key

    def _member_deleted(self, chance):
        pod = self._pick(chance, [it for it in self._running() if it.group])
        if pod is None:
            return ""
        self._delete(f"{PODS}/{pod.key.partition('/')[2]}", chance.choice((None, 0)))
        return pod.key

    def _beneficiary_deleted(self, _):
        """Wait for an eviction, then delete whom it is for while its victims leave."""
        begun_s = time.monotonic()
        while time.monotonic() - begun_s < 15.0 and not self._end.is_set():
            for at_s, pod, action, job in reversed(self._replicas.recent):
                if at_s >= begun_s and job and self._churn.give_up(job):
                    return f"{job}, for whom {action} evicted {pod}"
            time.sleep(0.05)
        return ""
