"""Checks the rows with which plugins describe how pods of a workload kind are grouped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, get_args

from kaisched.objects.gangs import GANG_API
from kaisched.objects.workloads import Grouping, Workload

if TYPE_CHECKING:
    from collections.abc import Iterator

_VERSION: Final = re.compile(r"[a-z0-9.-]{1,200}/v[a-z0-9]{1,60}", re.ASCII)
_PLURAL: Final = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}", re.ASCII)
_NOT_OWNERS: Final = ("", "scheduling.run.ai", "kai.scheduler", GANG_API)
"""API groups of objects that are watched for other reasons than their pods."""


def rows_fault(rows: list[object], asked: object) -> str:
    """Return what is wrong with a plugin's rows, or an empty string."""
    del asked
    return next((fault for row in rows for fault in row_faults(row)), "")


def row_faults(row: object) -> Iterator[str]:
    """Yield what is wrong with a row."""
    if not isinstance(row, Workload):
        yield f"{row!r} is no kaisched.Workload"
        return
    for version in (row.api_version, *row.other_versions):
        if not _VERSION.fullmatch(version):
            yield f"{row.kind}: api_version {version!r} is none; write it like example.com/v1"
        elif version.rpartition("/")[0] != row.api_group:
            yield f"{row.kind}: {version!r} is not of API group {row.api_group!r}"
    if row.api_group in _NOT_OWNERS:
        yield f"{row.kind}: kinds of API group {row.api_group!r} are not grouped by"
    if not _PLURAL.fullmatch(row.plural):
        yield f"{row.kind}: plural {row.plural!r} is none; write it like widgets"
    if not _KIND.fullmatch(row.kind):
        yield f"kind {row.kind!r} is none; write it like Widget"
    if row.pods not in get_args(Grouping):
        yield f"{row.kind}: pods {row.pods!r}; write one of {', '.join(get_args(Grouping))}"
