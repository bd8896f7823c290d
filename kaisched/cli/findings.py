"""Findings of ``kaisched lint``: those of scenario files, and all as text, JSON and SARIF."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaisched import __version__
from kaisched.cli.printing import count
from kaisched.core.axis import GPU, GPU_UNIT
from kaisched.engine.linting import RULES, Core, Finding, advice
from kaisched.errors import ABSENT, ConfigError, KaischedError, show
from kaisched.objects.load import SCENARIO_KEYS
from kaisched.objects.text import line_of
from kaisched.sim.running import cluster_of, policy_of
from kaisched.sim.scenario.load import read_raw, read_scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kaisched.sim.scenario.load import Scenario

_RULE = "scenario"
_SHORT_S = 1800.0
"""Runs no longer than what an eviction is taken to cost need no protection."""


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
    return keys >= SCENARIO_KEYS and not keys & {"apiVersion", "kind"}


# -- as text, JSON and SARIF ---------------------------------------------------------------------

SCHEMA: Final = "kaisched.io/lint/v1"
_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def text_of(found: Sequence[Finding], files: Mapping[str, int]) -> list[str]:
    """Return a line for each finding, what was checked, and the number of errors and warnings."""
    checked = f"{count(sum(files.values()), 'object')} of {count(len(files), 'file')} checked"
    errors = sum(finding.is_error for finding in found)
    lines = [f"{_level(finding)}: {_line(finding)} [{finding.rule}]" for finding in found]
    numbers = f"{count(errors, 'error')}, {count(len(found) - errors, 'warning')}"
    return [*lines, f"{checked}: {numbers}"]


def json_of(found: Sequence[Finding], files: Mapping[str, int]) -> list[str]:
    """Return the lines of a document with all findings."""
    checked = {"files": len(files), "objects": sum(files.values())}
    findings = [_document(finding) for finding in found]
    document = {"schemaVersion": SCHEMA, **checked, "findings": findings}
    return json.dumps(document, indent=2).splitlines()


def sarif_of(found: Sequence[Finding], _: Mapping[str, int]) -> list[str]:
    """Return the lines of a run of a static analysis tool."""
    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in RULES.items()]
    driver = {"name": "kaisched", "version": __version__, "rules": rules}
    results = [_result(finding) for finding in found]
    run = {"tool": {"driver": driver}, "results": results}
    document = {"$schema": _SARIF, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=2).splitlines()


FORMS: Final[dict[str, Callable[[Sequence[Finding], Mapping[str, int]], list[str]]]] = {
    "table": text_of,
    "json": json_of,
    "sarif": sarif_of,
}


def _level(finding: Finding) -> str:
    return "error" if finding.is_error else "warning"


def _line(finding: Finding) -> str:
    """Return the finding as one line, with the line of the file where it is known."""
    file, line = getattr(finding.error, "file", ""), _line_number(finding)
    text = str(finding.error)
    return text.replace(file, f"{file}:{line}", 1) if file and line else text


def _document(finding: Finding) -> dict[str, Any]:
    error = finding.error
    value = getattr(error, "value", ABSENT)
    return {
        "level": _level(finding),
        "rule": finding.rule,
        "file": getattr(error, "file", ""),
        "line": _line_number(finding) or None,
        "document": finding.document or None,
        "kind": getattr(error, "kind", ""),
        "name": getattr(error, "name", ""),
        "path": getattr(error, "path", ""),
        "message": error.message,
        "value": None if value is ABSENT else show(value),
        "fix": error.fix,
    }


def _result(finding: Finding) -> dict[str, Any]:
    file, line = getattr(finding.error, "file", ""), _line_number(finding)
    place: dict[str, Any] = {"artifactLocation": {"uri": Path(file).as_posix()}}
    if line:
        place["region"] = {"startLine": line}
    return {
        "ruleId": finding.rule,
        "level": _level(finding),
        "message": {"text": str(finding.error)},
        "locations": [{"physicalLocation": place}] if file else [],
    }


def _line_number(finding: Finding) -> int:
    file, document = getattr(finding.error, "file", ""), finding.document
    if not document or not Path(file).is_file() or file.endswith(".json"):
        return 0
    return _found(file, document, getattr(finding.error, "path", ""))


@cache
def _found(file: str, document: int, path: str) -> int:
    return line_of(Path(file).read_bytes(), document, path)
