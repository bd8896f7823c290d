"""A session of queues without a cluster, to ask proportion about reclaim."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from kaisched import CPU, GPU, PODS, UNLIMITED, Claim, Units
from kaisched.core.tree import build_tree
from kaisched_plugins.proportion import Proportion, refusals

OVER_SHARE = int(refusals.OVER_FAIR_SHARE)
OVER_QUOTA = int(refusals.OVER_QUOTA)
NOT_OVER = int(refusals.NOT_OVER_SHARE)
UNDER = int(refusals.UNDERSHOOTS)
ORDER = int(refusals.SATURATION_ORDER)
TRAIN, BUILD = 0, 1


class QueueColumns(SimpleNamespace):
    def __len__(self):
        return len(self.tree)


class World:
    """Queues in whole GPUs, ``cpu_...`` in milli-CPU; the CPU quota is 0 and its share endless.

    ``runs``: its running jobs, the most important first, as (GPUs of a pod, pods, minimum).
    """

    def __init__(self, queues, multiplier=1.0):
        names = list(queues)
        self.tree = build_tree(names, [queues[name].get("parent", "") for name in names])
        given = [queues[self.tree.names[at]] for at in range(len(names))]
        self.row = {name: at for at, name in enumerate(self.tree.names)}
        self.plugin = Proportion(
            Proportion.Arguments.model_validate({"reclaimerUtilizationMultiplier": multiplier})
        )
        count = len(names)
        runs = [(at, *run) for at, each in enumerate(given) for run in each.get("runs", ())]
        session: Any = SimpleNamespace(
            queues=QueueColumns(
                tree=self.tree,
                deserved=columns(given, "deserved", cpu=UNLIMITED, pods=UNLIMITED),
                limit=columns(given, "limit", UNLIMITED, cpu=UNLIMITED, pods=UNLIMITED),
                priority=np.zeros(count, np.int64),
            ),
            # One preemptible and one non-preemptible job in each queue, and those that run.
            jobs=SimpleNamespace(
                queue_of_job=np.array([*np.repeat(np.arange(count), 2), *(run[0] for run in runs)]),
                is_preemptible=np.array([True, False] * count + [True] * len(runs)),
                active=np.array([0, 0] * count + [run[2] for run in runs]),
                created_s=np.arange(2.0 * count + len(runs)),
                podset_count=np.ones(2 * count + len(runs), np.int64),
                first_podset=np.arange(2 * count + len(runs)),
                shape_of_job=np.arange(-2 * count, len(runs)),
            ),
            podsets=SimpleNamespace(minimum=np.array([0, 0] * count + [run[3] for run in runs])),
            shapes=SimpleNamespace(
                charge=np.array([amounts(run[1]) for run in runs]).reshape(-1, 4).T,
                by_card=None,
            ),
            ask=SimpleNamespace(job_order=lambda session, job: []),
            fair_share=columns(given, "share", cpu=UNLIMITED, pods=1),
            held=(held := columns(given, "held", pods=9)),
            held_now=held,
            held_non_preemptible=(strict := columns(given, "strict", pods=9)),
            held_non_preemptible_now=strict,
            overdrawn=None,
            parts_of_gpus=None,
            fair_tree=self.tree,
            held_not_evictable=strict,
            axis=SimpleNamespace(unit=np.array([1, 1, 1000, 1])),
            total=np.array([100, 100, 100, 1]) * 1000,
            hints={},
            found={},
            state={},
        )
        session.state["proportion"] = self.plugin.session_open(session)
        self.session = session

    def job(self, queue, kind=TRAIN):
        return self.row[queue] * 2 + kind

    def gate(self, queue, gpus=0, cpu=0, kind=TRAIN, action="reclaim"):
        """Return the code for one job."""
        job = np.array([self.job(queue, kind)])
        said = self.plugin.claim_gate(self.session, action, job, amounts(gpus, cpu)[:, None])
        return 0 if said is None else int(said[0])

    def claim(self, queue, gpus, cpu=0, last=False, action="reclaim"):
        return Claim(action, self.job(queue), self.row[queue], amounts(gpus, cpu), last)

    def victims(self, claim):
        """Return the names of leaf queues whose jobs may be taken."""
        leaves = [name for name, at in self.row.items() if self.tree.is_leaf[at]]
        job = np.array([self.job(name) for name in leaves])
        said = self.plugin.victim_filter(self.session, claim, job)
        codes = [0] * len(leaves) if said is None else said.tolist()
        return {name for name, code in zip(leaves, codes, strict=True) if not code}

    def take(self, claim, *given, taken=None):
        """Return the codes of units: (queue, GPUs) or (queue, GPUs, milli-CPU)."""
        units = units_of([(self.row[queue], amounts(*rest)) for queue, *rest in given])
        which = np.ones(len(given), np.bool_) if taken is None else np.array(taken, np.bool_)
        codes = self.plugin.scenario_gate(self.session, claim, units, which)
        return [0] * len(given) if codes is None else codes.tolist()


def amounts(gpus, cpu=0):
    """Return ``(R,)``; every unit and claim has some pods, which must never matter."""
    column = np.zeros(4, np.int64)
    column[GPU], column[CPU], column[PODS] = round(gpus * 1000), cpu, 5
    return column


def columns(given, name, missing=0, cpu=0, pods=0):
    table = np.zeros((4, len(given)), np.int64)
    table[GPU] = [min(round(each.get(name, missing) * 1000), UNLIMITED) for each in given]
    table[CPU] = [each.get(f"cpu_{name}", cpu) for each in given]
    table[PODS] = pods
    return table


def units_of(pairs):
    count = len(pairs)
    return Units(
        job=np.arange(count),
        queue=np.array([queue for queue, _ in pairs], np.int64),
        amounts=np.array([each for _, each in pairs], np.int64).reshape(count, 4).T,
        is_core=np.ones(count, np.bool_),
        tasks=tuple((at,) for at in range(count)),
    )


def two(multiplier=1.0, **mine):
    """``b`` holds 6 where 4 are its due; ``a`` may have 4 and holds nothing unless said."""
    a = {"deserved": 2, "share": 4} | mine
    return World({"a": a, "b": {"deserved": 2, "share": 4, "held": 6}}, multiplier)
