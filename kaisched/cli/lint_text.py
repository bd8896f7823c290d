"""Findings of ``kaisched lint`` as lines, as JSON, and as SARIF 2.1.0."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kaisched import __version__
from kaisched.engine.linting import RULES, Finding
from kaisched.errors import ABSENT, show
from kaisched.objects.text import line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCHEMA: Final = "kaisched.io/lint/v1"
_SARIF: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def text_of(found: Sequence[Finding]) -> str:
    """Return a line for each finding, and the number of errors and warnings."""
    errors = sum(finding.is_error for finding in found)
    lines = [f"{_level(finding)}: {_line(finding)} [{finding.rule}]" for finding in found]
    return "\n".join(
        [*lines, f"{_count(errors, 'error')}, {_count(len(found) - errors, 'warning')}"]
    )


def json_of(found: Sequence[Finding]) -> str:
    """Return a document with all findings."""
    document = {"schemaVersion": SCHEMA, "findings": [_document(finding) for finding in found]}
    return json.dumps(document, indent=2)


def sarif_of(found: Sequence[Finding]) -> str:
    """Return a run of a static analysis tool."""
    rules = [{"id": rule, "shortDescription": {"text": text}} for rule, text in RULES.items()]
    driver = {"name": "kaisched", "version": __version__, "rules": rules}
    results = [_result(finding) for finding in found]
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SARIF, "version": "2.1.0", "runs": [run]}, indent=2)


FORMS: Final[dict[str, Callable[[Sequence[Finding]], str]]] = {
    "text": text_of,
    "json": json_of,
    "sarif": sarif_of,
}


def _level(finding: Finding) -> str:
    return "error" if finding.is_error else "warning"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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
