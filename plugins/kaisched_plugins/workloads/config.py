"""The arguments of workloads."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kaisched import Arguments


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
