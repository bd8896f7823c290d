"""Workloads: makes rows of the table of workloads from the shard's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from kaisched import Arguments, Gang, Plugin, Workload, hookimpl


class KindArguments(Arguments):
    """One kind of workload."""

    api_version: str
    plural: str
    kind: str
    pods: Literal["together", "each", "through"] = "together"
    minimum: tuple[str, ...] = ()
    priority_class: str = ""
    index_label: str = ""


class WorkloadsArguments(Arguments):
    """Kinds that extend or replace the built-in kinds."""

    kinds: tuple[KindArguments, ...] = Field(
        default=(), description="The kinds, each with `apiVersion`, `plural`, `kind` and more."
    )


MOST = 100_000


class Workloads(Plugin):
    """Groups the pods of more kinds of workload, as the shard's arguments declare."""

    name = "workloads"
    Arguments = WorkloadsArguments

    @hookimpl
    def workloads(self) -> Sequence[Workload]:
        """Answer a row for each kind of the arguments."""
        return [_row(kind) for kind in self.arguments.kinds]


def _row(kind: KindArguments) -> Workload:
    return Workload(
        kind.api_version,
        kind.plural,
        kind.kind,
        kind.pods,
        read=SumOf(kind.minimum) if kind.minimum else None,
        priority_class=kind.priority_class,
        index_label=kind.index_label,
    )


@dataclass(frozen=True)
class SumOf:
    """Reads a gang's minimum from a spec: the sum of the numbers at some paths."""

    paths: tuple[str, ...]

    def __call__(self, spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Gang:
        """Return the gang; a missing or invalid number counts as 1."""
        del annotations
        return Gang(minimum=min(max(sum(_number(spec, path) for path in self.paths), 1), MOST))


def _number(spec: Mapping[str, Any], path: str) -> int:
    at: Any = spec
    for key in path.removeprefix("spec.").split("."):
        at = at.get(key) if isinstance(at, Mapping) else None
    is_count = isinstance(at, int) and not isinstance(at, bool) and 0 <= at <= MOST
    return int(at) if is_count else 1
