"""A nomination is written once, however many cycles repeat it, also by the next leader."""

from kaisched.clock import ManualClock
from kaisched.cluster.kubernetes.cluster import NOMINATE, KubernetesCluster
from kaisched.cluster.kubernetes.leader_election import Leadership
from kaisched.cluster.kubernetes.reflector import Change
from kaisched.cluster.store import StateStore
from kaisched.framework.intents import Nominate
from kaisched.objects.decode import decode_object
from kaisched.objects.pod import Pod


class Written:
    """A write queue that only keeps what it is given."""

    def __init__(self):
        self.works = []

    def put(self, kind, work):
        assert kind == NOMINATE
        self.works.append((work.pod, work.status["nominatedNodeName"]))


def started():
    written = Written()
    return KubernetesCluster(
        None, Leadership(), written, ManualClock(1e9), StateStore()
    ), written.works


def nominated(pod, node):
    return Nominate(f"ns/{pod}", f"uid-{pod}", node, f"ns/{pod}", 0, 0)


def waiting(name, node):
    plain = {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
        "spec": {"schedulerName": "kaisched", "containers": [{"name": "main"}]},
        "status": {"phase": "Pending", "nominatedNodeName": node},
    }
    return Change(decode_object(plain, Pod)[0])


def test_a_nomination_that_stands_is_not_written_again():
    cluster, written = started()
    for _ in range(5):
        cluster.apply([], [], [nominated("p", "n0"), nominated("q", "n1")])
    assert written == [("ns/p", "n0"), ("ns/q", "n1")]
    cluster.apply([], [], [nominated("p", "n1"), nominated("q", "n1")])
    assert written[2:] == [("ns/p", "n1")]


def test_the_next_leader_does_not_write_what_statuses_say():
    cluster, written = started()
    cluster.handle(waiting("p", "n0"))
    cluster.snapshot()
    cluster.apply([], [], [nominated("p", "n0"), nominated("q", "n1")])
    assert written == [("ns/q", "n1")]
