"""Scenario files among those that are linted: no manifests, and with faults of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kaisched.core.axis import GPU, GPU_UNIT
from kaisched.engine.linting import Core, Finding, advice
from kaisched.errors import ConfigError, KaischedError
from kaisched.sim.running import cluster_of, policy_of
from kaisched.sim.scenario.load import read_raw, read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kaisched.sim.scenario.setup import Scenario

_RULE = "scenario"
_SHORT_S = 1800.0
"""Runs no longer than what an eviction is taken to cost need no protection."""
_KEYS = {"time", "nodes"}
"""What every scenario has, and no manifest."""


def with_scenarios(found: Sequence[Finding]) -> list[Finding]:
    """Return findings, with those of a scenario in the place of its missing apiVersion."""
    return [each for finding in found for each in _read(finding)]


def _read(finding: Finding) -> Iterator[Finding]:
    error = finding.error
    file = getattr(error, "file", "")
    if getattr(error, "path", "") != "apiVersion" or not _is_scenario(file):
        yield finding
        return
    try:
        scenario = read_scenario(Path(file))
    except KaischedError as wrong:
        for each in (wrong, *wrong.others):
            yield Finding(_RULE, each, document=1)
    else:
        for text in scenario.warnings:
            yield Finding(_RULE, ConfigError(text), is_error=False)
        yield from _min_runtimes(scenario, file)


def _min_runtimes(scenario: Scenario, file: str) -> Iterator[Finding]:
    """Yield the queues that need a minimum runtime for jobs that the scenario says."""
    if scenario.usage is None or scenario.others or "traces" in scenario.raw:
        return
    cluster = cluster_of(scenario)
    queues, rows = cluster.queues, cluster.queues.row_of_name
    jobs = [*scenario.planned, *(it.bodies.make(0.0) for it in scenario.backlogs)]
    cores = [
        Core(job.group, rows[scenario.leaves[job.queue]], int(job.gpus * GPU_UNIT))
        for job in jobs
        if job.kind.is_preemptible and job.ticks * scenario.pace.step_s > _SHORT_S
    ]
    policy, _ = policy_of(scenario)
    for each in advice(policy, queues, int(cluster.total()[GPU]), cores):
        error = ConfigError(each.message, file=file, path="queues", fix=each.fix)
        yield Finding("min-runtime", error, is_error=False)


def _is_scenario(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        return False
    try:
        keys = read_raw(path).keys()
    except KaischedError:
        return False
    return keys >= _KEYS and not keys & {"apiVersion", "kind"}
