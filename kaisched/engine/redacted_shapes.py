"""Redaction of objects of which only numbers or levels matter: workloads and topologies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kaisched.engine.aliases import Aliases


def workload(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a workload that hold no names: its numbers of pods."""
    counts = {
        key: value
        for key, value in obj.get("spec", {}).items()
        if key in {"parallelism", "completions", "completionMode", "suspend", "replicas"}
    }
    return {"spec": counts}


def levels(alias: Aliases, obj: dict[str, Any]) -> dict[str, Any]:
    """Return a topology with aliases of its levels."""
    listed = obj["spec"]["levels"]
    return {"spec": {"levels": [{key: alias("key", it[key]) for key in it} for it in listed]}}
