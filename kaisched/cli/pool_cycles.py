"""A cycle of each shard among manifests, and what projects have over their node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kaisched.cli import queue_text, why_document
from kaisched.cli.source import Cycle, Place, with_failures
from kaisched.engine.planning import OUR_NAMES, cycles_in_pools, read_plan_input
from kaisched.errors import ConfigError
from kaisched.objects.faults import did_you_mean
from kaisched.view.queues import PoolQueues, Projects

if TYPE_CHECKING:
    from kaisched.engine.planning import Plan, PlanInput
    from kaisched.framework.report.result import CycleResult


class PoolCycles(NamedTuple):
    """The cycle of the shard that is asked about, and the projects of all of them."""

    cycle: Cycle
    shard: str
    projects: Projects | None
    """None where there is one shard."""

    def document(self, queue: str) -> dict[str, Any]:
        """Return a queue and those around it, each with the sums of its project over all pools."""
        document = queue_text.document(self.cycle.result, queue)
        if self.projects is None:
            return document
        queues = [
            {**entry, "project": self.projects.document(self.shard, entry["name"])}
            for entry in document["queues"]
        ]
        return {**document, "queues": queues}


def cycles_with(place: Place, queue: str) -> PoolCycles:
    """Read manifests and let each shard among them have a cycle; choose that of a queue.

    Raises:
        KaischedError: the files cannot be read, a shard is wrong, or there is no such queue.

    """
    what, planned, results = _cycles(place)
    name = _chosen(results, queue, place.shard_name)
    cycle = _cycle(what, planned, results[name])
    return PoolCycles(cycle, name, _projects(what, results))


def cycle_with_job(place: Place, name: str) -> Cycle:
    """Read manifests and let each shard among them have a cycle; choose that of a job, or of a pod.

    Raises:
        KaischedError: the files cannot be read, a shard is wrong, or there is no such job.

    """
    what, planned, results = _cycles(place)
    among = [_named(results, place.shard_name)] if place.shard_name else list(results.values())
    found = next((result for result in among if _has(result, name)), None)
    if found is None:
        why_document.find(among[0], name)  # says what is wrong with the name
    return _cycle(what, planned, found or among[0])


def _has(result: CycleResult, name: str) -> bool:
    try:
        why_document.find(result, name)
    except ConfigError:
        return False
    return True


def _cycles(place: Place) -> tuple[PlanInput, Plan, dict[str, CycleResult]]:
    what = read_plan_input(place.files, is_one=False)
    planned = cycles_in_pools(what)
    return what, planned, {step.shard: step.result for step in planned.steps}


def _cycle(what: PlanInput, planned: Plan, result: CycleResult) -> Cycle:
    problems = list(map(str, planned.problems))
    cycle = Cycle(result, planned.warnings, problems, what.loaded.objects, OUR_NAMES)
    return with_failures(cycle)


def _chosen(results: dict[str, CycleResult], queue: str, shard: str) -> str:
    """Return the shard that is named, or the one that has the queue."""
    among = {shard: _named(results, shard)} if shard else results
    names = {name: [share.name for share in result.shares] for name, result in among.items()}
    for name, queues in names.items():
        if queue in queues:
            return name
    known_queues = [each for queues in names.values() for each in queues]
    raise ConfigError(f"there is no queue {queue}", fix=did_you_mean(queue, known_queues))


def _named(results: dict[str, CycleResult], shard: str) -> CycleResult:
    if shard not in results:
        known = f"known: {', '.join(results)}"
        raise ConfigError("no such shard", path="--shard-name", value=shard, fix=known)
    return results[shard]


def _projects(what: PlanInput, results: dict[str, CycleResult]) -> Projects | None:
    if not what.others:
        return None
    shards = [what.shard, *(shard for shard, _ in what.others)]
    return Projects(
        PoolQueues(
            shard.name,
            shard.spec.partition_label_value,
            results[shard.name].shares,
            results[shard.name].records.session.queues.labels,
        )
        for shard in shards
    )
