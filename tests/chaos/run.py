"""One run: everything started, faults played, quiet moments checked, all of it summed up."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass

from kaisched.cluster.kubernetes.client import Client
from tests.chaos import rest, statuses
from tests.chaos.checker import Checker, Outages
from tests.chaos.churn import Churn
from tests.chaos.faults import Faults
from tests.chaos.kubelet import Kubelet
from tests.chaos.objects import GPUS, NAMESPACE, TREE, insist, make_node, queue, shipped
from tests.chaos.replicas import Replicas
from tests.chaos.soak import Soak
from tests.chaos.stage import asking_of
from tests.chaos.tenants import Tenant
from tests.chaos.watching import KINDS, Sorter, Stream
from tests.chaos.world import World
from tests.pulse import Pulse

QUIET_S = 62.0
"""After the last fault, before it is asked what could run."""
DRAIN_S, SETTLE_S = 12.0, 15.0
"""Then pods end for a while, and what waits has so long to take their room."""
NOBODY_S = 60.0
"""As long as nobody leads it has longer, but no longer than this."""
CALM_S, RESTLESS_S = 10.0, 180.0
"""Evictions that go on then are waited for until none has begun for so long: at most so long."""
LOOKS, LOOK_S = 6, 2.0
"""What could run is a breach if it could at each of so many looks."""
SPELL_S = 600.0
"""Between two quiet moments of a long run."""
REST = ("pods", "nodes", "podgroups", "queues")
LISTED = (
    "/api/v1/pods",
    "/apis/scheduling.run.ai/v2alpha2/podgroups",
    "/apis/scheduling.run.ai/v2/queues",
)
LONG_S = 1800.0
"""In the middle half of so long a run the replicas live on."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is."""

    nodes: int
    load: tuple = (0.7, 2.0)
    """What jobs ask for, from the least to the most, in parts of all GPUs."""
    run_s: tuple = (30.0, 240.0)
    gang: int = 16
    """The pods of the largest gangs."""
    burst: int = 4
    """At most so many jobs are made every quarter of a second."""

    @property
    def gpus(self):
        return self.nodes * GPUS


LARGE = Size(60)
SMALL = Size(12, load=(1.0, 2.2), run_s=(10.0, 60.0), gang=8)


class Run:
    def __init__(self, stage, folder, seed, size, *, is_fixed, is_hostile=False, say=print):
        self.stage, self.size, self.seed, self.say = stage, size, seed, say
        self.outages, self.world = Outages(), World()
        self._pulse = Pulse(self.outages.add).start()
        self._led = ("", 0.0)
        """Who leads, and since when."""
        self.begun_s = time.monotonic()
        self.asking = asking_of(stage)
        self._end = threading.Event()
        self._folder, self._chance, self._is_fixed = folder, random.Random(seed), is_fixed
        self._is_hostile = is_hostile
        self.tenant = None
        self.quiet_moments = 0
        self._errors = []
        threading.excepthook = lambda it: self._errors.append(it.exc_value)

    def at(self, moment_s):
        return f"{moment_s - self.begun_s:.1f} s"

    # -- beginning -------------------------------------------------------------------------------

    def furnish(self):
        """Deploy what is shipped, and make the nodes and queues."""
        asking = self.asking
        for obj in shipped():
            insist(lambda it=obj: asking.apply(it))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        asking.apply(namespace)
        for name in TREE:
            insist(lambda it=name: asking.apply(queue(it, self.size.gpus)))
        for number in range(self.size.nodes):
            make_node(asking, f"node-{number:02}")

    def start(self):
        self.furnish()
        kubeconfig = self._folder / "kubeconfig"
        self.stage.log_in(kubeconfig)
        self.replicas = Replicas(kubeconfig, self._folder, self._end)
        told = self.replicas.who_for, self.replicas.has_moves, self.stage.received
        self.checker = Checker(self.outages, *told)
        self.sorter = Sorter()
        watching = Client(self.stage.access, connections=8, timeout_s=60.0)
        self.streams = [Stream(watching, kind, self._handle, self._end).start() for kind in KINDS]
        chances = [random.Random(self._chance.random()) for _ in range(2)]
        hands = Client(self.stage.access, connections=8, timeout_s=60.0)
        self.kubelet = Kubelet(hands, self.world, chances[0], self._end)
        self.churn = Churn(self.asking, self.world, self.size, chances[1], self._end)
        self.faults = self._faults()
        self.soak = Soak(self.replicas, self._end)
        self.kubelet.start()
        self.replicas.start()
        if not self._comes(lambda: self.world.leader, 180.0):
            raise RuntimeError(
                "\n".join(["nobody leads after three minutes", *self.replicas.last_words()])
            )
        self.churn.start()
        if self._is_hostile:
            chance = random.Random(self._chance.random())
            self.tenant = Tenant(self.asking, self.world, chance, self._end)
            self.tenant.start()
        self.soak.start()

    def _faults(self, before=(), *, is_gentle=False):
        faults = Faults(
            self.stage,
            self.asking,
            self.world,
            self.replicas,
            self.churn,
            self.outages,
            self._chance.random(),
            is_fixed=self._is_fixed,
            is_gentle=is_gentle,
        )
        faults.done += before
        return faults

    def _handle(self, event):
        self.sorter.put(event)
        self.world.handle(event)

    def _comes(self, condition, seconds):
        """Wait for a condition, and tell whether it came true."""
        end_s = time.monotonic() + seconds
        while not condition() and time.monotonic() < end_s:
            time.sleep(0.1)
        return condition()

    # -- the run ---------------------------------------------------------------------------------

    def play(self, seconds):
        """Churn with faults for so long, with a quiet moment now and then and at the end."""
        passed_s = 0.0
        while passed_s < seconds:
            left_s = seconds - passed_s
            spell_s = left_s if left_s < 1.5 * SPELL_S else SPELL_S
            is_middle = 0.25 <= (passed_s + spell_s / 2) / seconds < 0.75
            is_gentle = is_middle and seconds >= LONG_S
            self.faults = self._faults(self.faults.done, is_gentle=is_gentle)
            self._be_busy(is_busy=True)
            self.faults.start()
            self._pass(spell_s)
            self.faults.stop()
            self._be_quiet()
            passed_s += spell_s

    def _pass(self, seconds):
        """Let time pass and check on the way."""
        begun_s = told_s = time.monotonic()
        while (left_s := seconds - self._counted(begun_s)) > 0:
            time.sleep(min(1.0, left_s))
            self.check()
            if time.monotonic() - told_s > 60.0:
                told_s = time.monotonic()
                self._print_state()

    def _counted(self, since_s):
        """Return for how many seconds until now somebody could have done something."""
        self._pulse.look()
        return self.outages.counted(since_s, time.monotonic())

    def check(self):
        if self._errors:
            raise RuntimeError("a thread of the test itself has failed") from self._errors[0]
        known = len(self.checker.breaches)
        self._pulse.look()
        # A machine that stood still has brought the streams nothing meanwhile.
        ripe_s = self.outages.ago(time.monotonic(), self.sorter.lag_s)
        self.checker.take(self.sorter.ready(ripe_s, self.streams))
        if all(it.is_up for it in self.streams):
            self.checker.pass_time(ripe_s)
        self._note_leader()
        for breach in self.checker.breaches[known:]:
            self.say(self.described(breach))

    def _note_leader(self):
        holder = self.world.leader if self.replicas.named(self.world.leader) else ""
        if holder != self._led[0]:
            self._led = (holder, time.monotonic())

    def _print_state(self):
        counts = self.checker.counts
        pods = self.world.all("pods")
        self.say(
            f"{self.at(time.monotonic())}: {len(self.churn.jobs)} jobs, {len(pods)} pods,"
            f" {sum(it.holds_room for it in pods)} on nodes; so far {counts['binds']} binds,"
            f" {counts['evictions']} evictions, {len(self.faults.done)} faults,"
            f" {len(self.checker.breaches)} breaches"
        )

    def _be_quiet(self):
        """Let nothing come or end for a while, then look for what waits though it could run."""
        self._be_busy(is_busy=False)
        self._pass(QUIET_S)
        self._until_led()
        self._until_calm()
        self._look()
        self.kubelet.is_holding = False
        self._pass(DRAIN_S)
        self.kubelet.is_holding = True
        self._pass(SETTLE_S)
        self._until_led()
        self._until_calm()
        self._look()
        self.quiet_moments += 1

    def _be_busy(self, *, is_busy):
        self.churn.is_making, self.kubelet.is_holding = is_busy, not is_busy
        if self.tenant is not None:
            self.tenant.is_making = is_busy

    def _until_led(self):
        """Wait until somebody has led for a while: a machine that is busy may lose a lease.

        Not for ever: what waits because nobody leads is a breach.
        """
        begun_s = time.monotonic()
        while self._counted(begun_s) < NOBODY_S and self._counted(self._led[1]) < SETTLE_S:
            self._pass(1.0)

    def _until_calm(self):
        """Wait until evictions have ended: on a slow server a plan takes a while to be carried out.

        Room that is promised meanwhile is nobody else's. Evictions without an end are a breach.
        """
        begun_s = last_s = time.monotonic()
        counts, known = self.checker.counts, self.checker.counts["evictions"]
        while time.monotonic() < last_s + CALM_S:
            self._pass(1.0)
            leaving = any(it.is_leaving and it.node for it in self.world.all("pods"))
            if counts["evictions"] != known or leaving:
                known, last_s = counts["evictions"], time.monotonic()
            if self._counted(begun_s) > RESTLESS_S:
                version = max(it.version for it in self.streams)
                text = (
                    f"nothing comes and nothing ends, but pods are evicted for {RESTLESS_S:.0f} s"
                )
                self.checker.breach(rest.NAME, "evictions", version, time.monotonic(), text)
                self.say(self.described(self.checker.breaches[-1]))
                return

    def _look(self):
        looks, statements = [], []
        for _ in range(LOOKS):
            looks.append(dict(rest.could_run(*map(self.world.all, REST))))
            statements.append(dict(statuses.untrue(*map(self._listed, LISTED))))
            self._pass(LOOK_S)
        self._judge(rest.NAME, looks)
        self._judge(statuses.NAME, statements)

    def _judge(self, promise, looks):
        """Call a breach what was so at each look, once."""
        version = max(it.version for it in self.streams)
        told = {it.subject for it in self.checker.breaches if it.promise == promise}
        for key in sorted(set.intersection(*map(set, looks)) - told):
            text = f"{looks[-1][key]}, at each look for {LOOKS * LOOK_S:.0f} s"
            self.checker.breach(promise, key, version, time.monotonic(), text)
            self.say(self.described(self.checker.breaches[-1]))

    def _listed(self, path):
        return self.asking.must("GET", path)["items"]

    def stop(self):
        if hasattr(self, "faults"):
            self.faults.stop()
        self._end.set()
        if hasattr(self, "replicas"):
            self.replicas.stop()

    # -- telling ---------------------------------------------------------------------------------

    def described(self, breach):
        lines = [
            f"BREACH of {breach.promise}",
            f"  {breach.subject} at revision {breach.order}, {self.at(breach.at_s)}",
            f"  {breach.text}",
        ]
        for it in self.faults.before(
            breach.at_s, 1 if breach.promise in {rest.NAME, statuses.NAME} else 5
        ):
            until = self.at(it.ended_s) if it.ended_s else "now"
            lines.append(f"  fault {it.kind}, {self.at(it.begun_s)} to {until}: {it.text}")
        return "\n".join(lines)

    def faults_by_kind(self):
        met = Counter(it.kind for it in self.faults.done if it.text != "nobody to meet")
        return dict(sorted(met.items()))
