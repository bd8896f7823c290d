"""Redaction of a recording: a cycle decides as before, and all names are gone.

Names, UIDs, labels and annotations get aliases (:mod:`kaisched.engine.redaction`). Fields that a
cycle does not read are left out. Amounts, times, the shape of the queue tree and the policy remain.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kaisched.cluster.jobs import BUILT_IN
from kaisched.engine.recording import (
    TIMES_BY_JOB,
    TURNS,
    RecordedAssumption,
    RecordedOwner,
    objects_of,
    replay,
    sealed,
)
from kaisched.engine.redacted_objects import ObjectWalk, class_alias
from kaisched.objects.decode import encode
from kaisched.objects.gpus import is_ours
from kaisched.objects.labels import DEFAULT_QUEUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.core.snapshot import Snapshot
    from kaisched.engine.recording import RecordedPools, RecordedUsage, Recording, Replay
    from kaisched.framework.report.result import CycleResult

_OURS: Final = frozenset({"kaisched", "kai-scheduler", "default-scheduler", "default"})
_OF_KUBERNETES: Final = frozenset({"system-node-critical", "system-cluster-critical"})
_READABLE_FACTS: Final = frozenset({*TIMES_BY_JOB, "time-based-fairshare"})
"""Plugins and actions whose facts are times and amounts by job or queue."""


class Redacted(NamedTuple):
    """A recording without names, with its warnings."""

    recording: Recording
    warnings: list[str]
    """Information that was lost with the names."""


def redacted(recording: Recording, file: str = "") -> Redacted:
    """Return a recording without names, with the result of its own replay.

    Raises:
        ConfigError: the recording contradicts itself.
        ObjectError: its shard is wrong.

    """
    before = replay(recording, file)
    objects, problems = objects_of(recording, file)
    kept = {*_OURS, *_OF_KUBERNETES, *BUILT_IN, DEFAULT_QUEUE, *recording.scheduler_names}
    aliases = Aliases(frozenset(kept))
    plain = [encode(obj) for obj in objects]
    asked = [owner.node_label for owner in recording.owners if owner.node_label]
    walk = ObjectWalk(aliases, plain, _queue_of_pod(before.snapshot), asked)
    _renamed(recording, plain, walk, aliases)  # registers the names
    aliases.settle()
    bare = _renamed(recording, plain, walk, aliases)
    bare = replace(
        bare,
        assumed=[
            RecordedAssumption(
                pod=_key(it.pod, aliases), node=aliases.known("node", it.node) or "", sent=it.sent
            )
            for it in recording.assumed
        ],
        disrupted=sorted(_key(pod, aliases) for pod in recording.disrupted),
        stuck=sorted(_key(pod, aliases) for pod in recording.stuck),
        without_owner=sorted(_key(pod, aliases) for pod in recording.without_owner),
        pools=_pools(recording.pools, aliases),
        usage=_usage(recording.usage, aliases),
    )
    jobs = _job_aliases(before, replay(bare), aliases)
    facts, lost = _facts(recording.facts, jobs, aliases)
    past = {jobs[name]: times for name, times in recording.past.items() if name in jobs}
    done = replace(bare, past=past, facts=facts)
    after = replay(done)
    warnings = [f"left out, for it is wrong: {problem}" for problem in problems]
    warnings += [f"what plugin {name} remembers is left out: it may hold names" for name in lost]
    if not _is_same(before.result, after.result, aliases):
        warnings.append("without names the decision differs: keep the names to show it")
    return Redacted(sealed(done, after.result), warnings)


def _renamed(
    recording: Recording, plain: list[dict[str, Any]], walk: ObjectWalk, alias: Aliases
) -> Recording:
    """Return a recording with only its objects, owners and shard, renamed."""
    owners = [_owner(owner, walk) for owner in recording.owners]
    return replace(
        recording,
        is_redacted=True,
        shard=_shard(recording.shard, alias),
        objects=[msgspec.Raw(msgspec.json.encode(walk(obj))) for obj in plain],
        owners=owners,
        assumed=[],
        disrupted=[],
        stuck=[],
        without_owner=[],
        pools=None,
        past={},
        facts={},
        usage=None,
        result="",
    )


def _owner(owner: RecordedOwner, walk: ObjectWalk) -> RecordedOwner:
    plain = walk.gang(msgspec.to_builtins(owner))
    plain["metadata"] = walk.meta(plain["metadata"], "job")
    return msgspec.convert(plain, RecordedOwner)


def _queue_of_pod(snapshot: Snapshot) -> dict[str, str]:
    of_job, job_of_task = snapshot.jobs.queue_name, snapshot.tasks.job_of_task.tolist()
    pairs = zip(snapshot.tasks.name, job_of_task, strict=True)
    return {pod: of_job[job] for pod, job in pairs if job >= 0}


def _shard(shard: dict[str, Any], alias: Aliases) -> dict[str, Any]:
    spec = dict(shard.get("spec", {}))
    if spec.get("partitionLabelValue"):
        spec["partitionLabelValue"] = alias("pool", spec["partitionLabelValue"])
    if spec.get("gpuSharing"):
        of_class = spec["gpuSharing"].get("deviceClass")
        how = {"deviceClass": class_alias(alias, of_class)} if of_class else {"image": "agent"}
        spec["gpuSharing"] = how
    return {**shard, "metadata": {"name": "shard"}, "spec": spec}


def _key(key: str, alias: Aliases) -> str:
    """Return the alias of ``namespace/name`` of a pod."""
    namespace, _, name = key.partition("/")
    return f"{alias.known('namespace', namespace) or ''}/{alias.known('pod', name) or ''}"


def _pools(pools: RecordedPools | None, alias: Aliases) -> RecordedPools | None:
    if pools is None:
        return None
    served = {alias("pool", name) if name else "": all_ for name, all_ in pools.served.items()}
    owned = sorted(_key(pod, alias) for pod in pools.owned)
    impatient = sorted(_key(pod, alias) for pod in pools.impatient)
    return RecordedPools(served=served, owned=owned, impatient=impatient)


def _usage(usage: RecordedUsage | None, alias: Aliases) -> RecordedUsage | None:
    if usage is None:
        return None
    named = ((alias.known("queue", name), parts) for name, parts in usage.queues.items())
    queues = {name: parts for name, parts in named if name is not None}
    return replace(usage, queues=queues, reasons=[])


def _job_aliases(before: Replay, after: Replay, alias: Aliases) -> dict[str, str]:
    """Return the new name of each job, found by an equal pod, since names of jobs are made up."""
    new_tasks = {name: task for task, name in enumerate(after.snapshot.tasks.name)}
    found = {}
    old = before.snapshot
    for task, name in enumerate(old.tasks.name):
        now, job = new_tasks.get(_key(name, alias), -1), int(old.tasks.job_of_task[task])
        if now >= 0 and job >= 0:
            found[old.jobs.name[job]] = after.snapshot.jobs.name[
                int(after.snapshot.tasks.job_of_task[now])
            ]
    return found


def _facts(
    facts: Mapping[str, Any], jobs: Mapping[str, str], alias: Aliases
) -> tuple[dict[str, Any], list[str]]:
    """Return the known facts under new names, and owners of facts that were left out."""
    told: dict[str, Any] = {}
    lost = []
    for owner, fact in sorted(facts.items()):
        if owner == TURNS:
            continue  # numbers made of names: they rarely matter, and then there is a warning
        if owner not in _READABLE_FACTS or not isinstance(fact, dict):
            lost += [owner] if fact else []
            continue
        named = ((jobs.get(name) or alias.known("queue", name), it) for name, it in fact.items())
        told[owner] = {name: it for name, it in named if name is not None}
    return told, lost


def _is_same(before: CycleResult, after: CycleResult, alias: Aliases) -> bool:
    """Tell whether equal pods go to equal nodes, are evicted and are promised room."""

    def moves(result: CycleResult, *, is_old: bool) -> list[list[tuple[str, str]]]:
        kinds = (result.binds, result.evictions, result.nominations)
        pairs = [[(it.pod, it.node) for it in kind] for kind in kinds]
        if is_old:
            pairs = [
                [(_key(pod, alias), alias.known("node", node) or "") for pod, node in kind]
                for kind in pairs
            ]
        return [sorted(kind) for kind in pairs]

    return moves(before, is_old=True) == moves(after, is_old=False)


USES: Final = (
    "queue",
    "pool",
    "node",
    "class",
    "job",
    "pod",
    "subgroup",
    "container",
    "key",
    "value",
    "gate",
    "claim",
    "volume",
    "storage",
    "flavor",
    "scheduler",
)
"""Uses of names; ``namespace`` and ``uid`` are apart, since no other use shares their names."""
_APART: Final = ("namespace", "uid")
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_PUBLIC_KEY: Final = re.compile(
    r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|nvidia\.com|amd\.com|intel\.com|run\.ai"
    r"|kai\.scheduler)/[A-Za-z0-9._-]+",
    re.ASCII,
)


class Aliases:
    """Maps names to aliases, once all names are registered."""

    def __init__(self, kept: frozenset[str]) -> None:
        """Start without names; ``kept`` are public names, which are not replaced."""
        self._kept = kept
        self._met: dict[str, dict[str, int]] = {use: {} for use in ("name", *_APART)}
        self._alias: dict[tuple[str, str], str] = {}
        self._is_settled = False

    def __call__(self, use: str, name: str) -> str:
        """Return the alias of a name; before :meth:`settle`, register the name and return it."""
        if not name or self._stays(use, name):
            return name
        world = use if use in _APART else "name"
        if self._is_settled:
            return self._alias[world, name]
        rank = USES.index(use) if world == "name" else 0
        self._met[world][name] = min(rank, self._met[world].get(name, rank))
        return name

    def known(self, use: str, name: str) -> str | None:
        """Return the alias of a registered name, or a name that is kept; else None."""
        if self._stays(use, name):
            return name
        return self._alias.get((use if use in _APART else "name", name))

    def settle(self) -> None:
        """Give every registered name its alias."""
        for world, met in self._met.items():
            # A namespace precedes a slash in keys, and is compared together with it.
            ordered = sorted(met, key=lambda name: name + "/" * (world == "namespace"))
            for rank in sorted(set(met.values())):
                use = USES[rank] if world == "name" else world
                names = [name for name in ordered if met[name] == rank]
                width = len(str(len(names)))
                for number, name in enumerate(names, 1):
                    self._alias[world, name] = f"{use}-{number:0{width}}"
        self._is_settled = True

    def _stays(self, use: str, name: str) -> bool:
        if use in {"value", "subgroup"} and _NUMBER.fullmatch(name):
            return True  # compared as a number by Gt and Lt
        if use == "claim" and is_ours(name):
            return True  # it follows from the annotations of a pod, and is looked for by them
        return name in self._kept or (use == "key" and bool(_PUBLIC_KEY.fullmatch(name)))
