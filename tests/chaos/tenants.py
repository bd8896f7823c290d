"""A tenant who means no good, with the role ``edit`` in one namespace: ``--hostile``.

Its queue deserves nothing. What it makes is found in SECURITY.md; it makes something new every
second, and its oldest objects go.
"""

import itertools
import threading
from collections import deque

from kaisched.cluster.kubernetes.client import MERGE
from kaisched.errors import ClusterUnavailable
from tests import objects
from tests.chaos.facts import GPU
from tests.chaos.objects import QUEUES, Refused, insist
from tests.on_kubernetes import attacks
from tests.on_kubernetes.attacks import NAMESPACE, QUEUE

TICK_S = 1.0
MOST = 120
"""So many of its objects are there at a time."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GROUPS = objects.groups_path(NAMESPACE)
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
GPU_GROUP = "runai-gpu-group"
ESCAPES = "\x1b]8;;http://example.com\x1b\\\x1b[2J\u202e"


def hoard(name, node):
    """A pod that keeps a whole node, protected by a budget of its own, and that leaves late."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}},
    }
    yield BUDGETS, budget
    limits = {GPU: "8", "cpu": "100m"}
    labels = {"app": name}
    yield (
        PODS,
        objects.pod(name, QUEUE, limits=limits, labels=labels, terminationGracePeriodSeconds=30),
    )


def owns_cards(name, node):
    """A pod without a GPU, bound by hand, that says it shares the cards of its node."""
    labels = {GPU_GROUP: name}
    yield PODS, objects.pod(name, QUEUE, limits={"cpu": "10m"}, labels=labels, nodeName=node)


def owns_many_cards(name, node):
    """A pod, bound by hand, that says it shares 300 cards."""
    groups = {f"{GPU_GROUP}/{name}-{at}": f"{name}-{at}" for at in range(300)}
    yield PODS, objects.pod(name, QUEUE, limits={"cpu": "10m"}, labels=groups, nodeName=node)


def thin(name, node):
    """Shares of a hundredth of eight cards."""
    notes = {"gpu-fraction": "0.01", "gpu-fraction-num-devices": "8"}
    yield PODS, objects.pod(name, QUEUE, limits={"cpu": "10m"}, annotations=notes)


def half_a_gang(name, node):
    """Half of the pods of a gang, which is never whole."""
    yield GROUPS, objects.group(name, QUEUE, 8)
    for at in range(4):
        yield PODS, objects.pod(f"{name}-{at}", QUEUE, 2, group=name)


def escapes(name, node):
    """Names and texts that terminals obey, and a text of 200 KB."""
    notes = {"pod-group-name": f"{ESCAPES}{name}", "note": "x" * 200_000}
    yield PODS, objects.pod(name, QUEUE, annotations=notes)


def in_two_queues(name, node):
    """A pod of its own queue in a group that names somebody else's."""
    yield GROUPS, objects.group(name, "a-big", 1)
    yield PODS, objects.pod(name, QUEUE, group=name)


def endless(name, node):
    """Amounts beyond all numbers."""
    yield PODS, objects.pod(name, QUEUE, limits={"cpu": "9E", "memory": "9E"})


SORTS = (hoard, owns_cards, owns_many_cards, thin, half_a_gang, escapes, in_two_queues, endless)
STREAMS = (attacks.terms, attacks.shapes, attacks.anti, attacks.spread, attacks.structures)


class Tenant:
    """Makes hostile objects until it is told to be still."""

    def __init__(self, asking, world, chance, end):
        self.is_making = True
        self.made = {sort.__name__: 0 for sort in (*SORTS, *STREAMS)}
        self._asking, self._world, self._chance, self._end = asking, world, chance, end
        self._streams = {it.__name__: it() for it in STREAMS}
        self._number, self._there = itertools.count(), deque()
        self._thread = threading.Thread(target=self._run, name="tenant", daemon=True)

    def start(self):
        asking = self._asking
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        insist(lambda: asking.apply(namespace))
        insist(lambda: self._post(QUEUES, objects.queue(QUEUE)))
        self._thread.start()

    def _run(self):
        while not self._end.wait(TICK_S):
            if not self.is_making:
                continue
            try:
                self._make()
                self._flap()
            except (ClusterUnavailable, Refused):
                self._end.wait(0.5)

    def _make(self):
        sort = self._chance.choice((*SORTS, *STREAMS))
        name = sort.__name__
        self.made[name] += 1
        nodes = [it.key for it in self._world.all("nodes")] or [""]
        if sort in SORTS:
            made = sort(
                f"{name.replace('_', '-')}-{next(self._number)}", self._chance.choice(nodes)
            )
        else:
            made = itertools.islice(self._streams[name], 3)
        for path, obj in made:
            self._post(path, obj)
            self._there.append(f"{path}/{obj['metadata']['name']}")
        while len(self._there) > MOST:
            self._asking.client.call("DELETE", self._there.popleft(), body={})

    def _flap(self):
        """Change what one of its gangs needs, from one pod to more than there are."""
        gangs = [it for it in self._there if it.startswith(f"{GROUPS}/half-a-gang")]
        if gangs:
            gang, least = self._chance.choice(gangs), self._chance.choice((1, 4, 50))
            body = {"spec": {"minMember": least}}
            self._asking.client.call("PATCH", gang, body=body, content_type=MERGE)

    def _post(self, path, obj):
        answer = self._asking.client.call("POST", path, body=obj)
        if not answer.is_done and answer.code not in {400, 403, 409, 413, 422}:
            raise Refused(answer.text())
