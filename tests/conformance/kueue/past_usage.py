"""Families of admission fair sharing: the score, its penalties, a queue's head, whole cycles."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np

from kaisched.cluster.nodes import NodeRow
from kaisched.cluster.queues import QueueRow
from kaisched.cluster.rowstore import RowStore
from kaisched.core.axis import TaskState
from kaisched.core.snapshot import Snapshot
from kaisched.core.tables import Sharing
from kaisched.core.usage import PARTS, Usage
from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from kaisched.framework.policy import Policy
from kaisched.testing.builder import Group, Job, Task, add_job, policy_of
from kaisched.units import parse_quantity
from kaisched_plugins.fair_sharing.order import penalties, scores
from kaisched_plugins.fair_sharing.work import line_columns
from tests.conformance.kueue import judges
from tests.conformance.kueue.tree import priority_of
from tests.conformance.outcome import NotBuiltError

NOW_S: Final = 1e6
MOST: Final = 10**9
"""What the node has of each resource: few enough that parts of it are told apart."""
BY_USAGE: Final = "UsageBasedAdmissionFairSharing"
_CONFIG: Final = {"resourceWeights", "usageHalfLifeTime", "usageSamplingInterval"}


def afs_usage(case: dict[str, Any]) -> str:
    """Compare the usage by which LocalQueues are ordered; a case without any expects no bound."""
    consumed, penalty = case.get("consumed") or {}, case.get("penalty") or {}
    given = case.get("resWeights") or {}
    names = sorted({*consumed, *penalty})
    weight = case.get("lqWeight")
    (got,) = scores(
        np.array([[_number(consumed.get(name, 0))] for name in names]).reshape(-1, 1),
        np.array([[_number(penalty.get(name, 0))] for name in names]).reshape(-1, 1),
        np.array([float(given.get(name, 1)) for name in names]),
        np.array([1.0 if weight is None else float(weight)]),
    ).tolist()
    wanted = case.get("wantUsage", np.inf)
    return "" if got == wanted else f"expected {wanted}, got {got}"


def afs_penalty(case: dict[str, Any]) -> str:
    """Compare what counts for the workloads that were admitted last and have not gone since.

    Penalties are made anew of what runs, one entry for each workload: a second entry of the same
    one replaces the first, and nothing is left of one that has gone.
    """
    admitted: dict[str, Mapping[str, Any]] = {}
    for each in case["ops"]:
        if each.get("push") is not None:
            admitted[each["wl"]] = each["push"]
        else:
            admitted.pop(each["wl"], None)
    wanted = case.get("wantMilli") or {}
    names = sorted(wanted)
    amounts = [[_number(it.get(name, 0)) for it in admitted.values()] for name in names]
    count = len(admitted)
    total = penalties(
        np.zeros(count, np.int64),
        np.array(amounts, np.float64).reshape(len(names), count),
        np.ones(count),
        1,
    )
    got = {name: total[at, 0] * 1000 for at, name in enumerate(names)}
    if bool(admitted) != case["wantHas"]:
        return f"expected {case['wantHas']}, got {bool(admitted)}"
    expected = {name: float(wanted[name]) for name in names}
    return "" if got == expected else f"expected {expected}, got {got}"


def afs_queue_head(case: dict[str, Any]) -> str:
    """Compare which workload is started where there is a place for one."""
    queue = case["cluster_queue"]
    locals_ = [{**each, "cluster_queue": queue["name"]} for each in case["local_queues"]]
    world = _World([queue], locals_, case["workloads"], case.get("consumed") or {}, case)
    got, expected = world.cycle(), case["expected"]["head"]
    return "" if got == [expected] else f"expected {expected}, got {got}"


def afs_cycle(case: dict[str, Any]) -> str:
    """Compare who is admitted, one workload in each cycle, and who waits after as many cycles."""
    fixtures = case["fixtures"]
    used = {f"default/{name}": amounts for name, amounts in case["initial_usage"].items()}
    world = _World(fixtures["clusterQueues"], fixtures["queues"], case["workloads"], used, case)
    wanted = case["expected"]
    for _ in range(max(1, len(wanted["admitted"]) - len(world.holders))):
        world.cycle()
    got = sorted(world.holders), sorted(it["key"] for it in world.waiting)
    expected = sorted(wanted["admitted"]), sorted(wanted["pending"])
    return "" if got == expected else f"expected {expected}, got {got}"


def candidate_order(case: dict[str, Any]) -> str:
    """Compare the order of victims where usage decides between those of one queue.

    Raises:
        NotBuiltError: victims of several queues are compared, and usage counts in one of them.

    """
    used: dict[str, set[float]] = {}
    for each in case["candidates"]:
        usage = each.get("local_queue_usage") or 0.0
        used.setdefault(each.get("cluster_queue", ""), set()).add(usage)
    if all(len(some) == 1 for some in used.values()):
        return judges.candidate_order(case)
    blocks: dict[tuple[bool, bool], list[Mapping[str, Any]]] = {}
    for each in case["candidates"]:
        is_own = each.get("cluster_queue") == case["preemptor_cluster_queue"]
        blocks.setdefault((not judges.is_leaving(each), is_own), []).append(each)
    got: list[str] = []
    for _, block in sorted(blocks.items(), key=lambda it: it[0]):
        if len({each.get("cluster_queue", "") for each in block}) > 1:
            raise NotBuiltError("members of pools are compared with each other only")
        block.sort(key=lambda each: each.get("uid") or each["name"])  # the last rule
        columns = line_columns(
            np.array([-float(each.get("quota_reserved_at") or 0.0) for each in block]),
            np.array([priority_of(case, each) for each in block]),
            None,
            np.array([each.get("local_queue_usage") or 0.0 for each in block]),
        )
        got += [block[at]["name"] for at in np.lexsort(columns).tolist()]
    expected = case["expected"]["order"]
    return "" if got == expected else f"expected {expected}, got {got}"


def _policy(config: Mapping[str, Any]) -> Policy:
    """Return the policy of Kueue's configuration of admission fair sharing."""
    odd = config.keys() - _CONFIG
    if odd:
        raise NotBuiltError(f"configuration {min(odd)}")
    weights = config.get("resourceWeights") or {}
    arguments = {
        "isCompatible": True,
        "usageSamplingInterval": config.get("usageSamplingInterval", "5m"),
        "resourceWeights": {_name(resource): weight for resource, weight in weights.items()},
    }
    usage = {"halfLifePeriod": config.get("usageHalfLifeTime", "10m")}
    plugins = {
        "proportion": {"enabled": False},
        "time-based-fairshare": {"enabled": False},
        "fair-sharing": {"enabled": True, "arguments": arguments},
    }
    spec = {"plugins": plugins, "usageDBConfig": {"clientType": "memory", "usageParams": usage}}
    return policy_of(spec, actions=("allocate",))


def _number(quantity: float | str) -> float:
    parsed = parse_quantity(quantity)
    return parsed.numerator / parsed.denominator


def _name(resource: str) -> str:
    return resource if resource in ("cpu", "memory") else f"case.io/{resource.replace('/', '-')}"


class _World:
    """ClusterQueues with their LocalQueues, and workloads that start one after the other."""

    def __init__(
        self,
        queues: Sequence[Mapping[str, Any]],
        locals_: Sequence[Mapping[str, Any]],
        works: Sequence[Mapping[str, Any]],
        consumed: Mapping[str, Mapping[str, str]],
        case: Mapping[str, Any],
    ) -> None:
        self._queues, self._locals, self._case = queues, locals_, case
        self._consumed = consumed
        self._policy = _policy(case.get("config") or {})
        gates = case.get("feature_gates") or {}
        is_on = gates.get("AdmissionFairSharing", True)
        self._pools = {
            queue["name"] for queue in queues if is_on and queue.get("admission_mode") == BY_USAGE
        }
        self._works = list(works)
        self.holders = {work["key"] for work in works if work.get("cluster_queue")}

    @property
    def waiting(self) -> list[Mapping[str, Any]]:
        """The workloads that hold no quota."""
        return [work for work in self._works if work["key"] not in self.holders]

    def cycle(self) -> list[str]:
        """Run a cycle with a place for one more workload; return who got it."""
        store = self._store()
        snapshot = store.snapshot()
        if self._case.get("deleted_queue"):  # while the cycle decides on what it has seen
            store.remove_queue(f"default/{self._case['deleted_queue']}")
        result, _ = run_cycle(snapshot, self._usage(snapshot), self._policy, NOW_S, Memory())
        if result.failures:
            raise RuntimeError(f"{result.failures[0]}")
        started = [bind.pod_group for bind in result.binds]
        self.holders.update(started)
        return started

    def _store(self) -> RowStore:
        quotas = [quota for queue in self._queues for quota in queue.get("quotas") or ()]
        if any(
            len(queue.get("quotas") or ()) != len(self._quota_of(queue)) for queue in self._queues
        ):
            raise NotBuiltError("flavors")
        if any(queue.get("cohort") for queue in self._queues):
            raise NotBuiltError("a cohort beside usage")
        names = {_name(quota["resource"]) for quota in quotas}
        names |= {_name(resource) for work in self._works for resource in _total(work)}
        store = RowStore()
        node = {**dict.fromkeys(names | {"cpu", "memory"}, MOST), "pods": len(self.holders) + 1}
        store.put_node(NodeRow("n0", node))
        for at, queue in enumerate(self._queues):
            is_by_usage = queue["name"] in self._pools
            quota = {name: self._quota_of(queue).get(name, 0) for name in names}
            sharing = Sharing(is_by_usage=is_by_usage, within="Never", across="Never")
            row = QueueRow(queue["name"], created_s=at, quota=quota, sharing=sharing)
            store.put_queue(row)
            for local in self._locals_of(queue) if is_by_usage else ():
                weight = local.get("weight")
                shared = Sharing(weight=Fraction("1" if weight is None else weight))
                store.put_queue(QueueRow(_key(local), queue["name"], at, sharing=shared))
        for at, work in enumerate(self._works):
            self._add(store, work, at)
        return store

    def _quota_of(self, queue: Mapping[str, Any]) -> dict[str, int]:
        return {_name(it["resource"]): it["nominal"] for it in queue.get("quotas") or ()}

    def _locals_of(self, queue: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return [each for each in self._locals if each["cluster_queue"] == queue["name"]]

    def _add(self, store: RowStore, work: Mapping[str, Any], at: int) -> None:
        """Add a workload as one pod that asks for all of it."""
        (local,) = (
            each
            for each in self._locals
            if (each["namespace"], each["name"]) == (work["namespace"], work["queue"])
        )
        total = {_name(resource): amount for resource, amount in _total(work).items()}
        namespace, _, name = work["key"].partition("/")
        holds = work["key"] in self.holders
        state = {"state": TaskState.RUNNING, "node": "n0"} if holds else {}
        created = work.get("created_at")
        job = Job(
            name,
            _key(local) if local["cluster_queue"] in self._pools else local["cluster_queue"],
            (Task(f"{name}-0", total, **state),),
            priority=priority_of(self._case, work),
            created_s=at * 1e-3 if created is None else NOW_S + created,
            root=Group("default", 1),
            started_s=NOW_S + (work.get("quota_reserved_at") or 0.0),
        )
        add_job(store, job, namespace)

    def _usage(self, snapshot: Snapshot) -> Usage:
        """Return a history that has seen the LocalQueues hold as much all the time."""
        parts = np.zeros((len(snapshot.axis), len(snapshot.queues)), np.int64)
        for key, amounts in self._consumed.items():
            row = snapshot.queues.row_of_name.get(key)
            for resource, quantity in amounts.items() if row is not None else ():
                at = snapshot.axis.position.get(_name(resource))
                if at is None:
                    raise NotBuiltError(f"past usage of {resource}, which nothing asks for")
                base = _number(quantity) * {"cpu": 1000, "memory": 1 / 64}.get(resource, 1)
                parts[at, row] = round(base * PARTS / MOST)
        return Usage(parts, age_s=0.0, coverage=1.0)


def _key(local: Mapping[str, Any]) -> str:
    return f"{local['namespace']}/{local['name']}"


def _total(work: Mapping[str, Any]) -> dict[str, int]:
    """Return what a workload asks for, memory in our base unit."""
    total: dict[str, int] = {}
    for podset in work["podsets"]:
        if podset.get("min_count"):
            raise NotBuiltError("partial admission")
        for resource, amount in podset["requests"].items():
            total[resource] = total.get(resource, 0) + amount * podset["count"]
    return total
