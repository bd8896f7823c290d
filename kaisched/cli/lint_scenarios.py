"""Scenario files among those that are linted: no manifests, and with faults of their own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kaisched.engine.linting import Finding
from kaisched.errors import ConfigError, KaischedError
from kaisched.sim.scenario.load import read_raw, read_scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RULE = "scenario"
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


def _is_scenario(file: str) -> bool:
    path = Path(file)
    if not path.is_file():
        return False
    try:
        keys = read_raw(path).keys()
    except KaischedError:
        return False
    return keys >= _KEYS and not keys & {"apiVersion", "kind"}
