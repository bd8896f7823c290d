"""Flags that set settings, shared by ``kaisched run`` and ``kaisched config show``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import typer

ConfigFile: TypeAlias = Annotated[
    Path | None, typer.Option("-c", "--config", help="Settings file; else KAISCHED_CONFIG.")
]
Manifests: TypeAlias = Annotated[
    list[Path] | None,
    typer.Option("-f", "--filename", help="File or folder of manifests to start with."),
]
Shard: TypeAlias = Annotated[Path | None, typer.Option(help="SchedulingShard to run by.")]
SchedulePeriod: TypeAlias = Annotated[
    str | None, typer.Option(help="Longest time between two cycles, such as 1s.")
]
Cluster: TypeAlias = Annotated[
    Literal["embedded", "kubernetes"] | None, typer.Option(help="Which cluster to schedule.")
]
Kubeconfig: TypeAlias = Annotated[
    str | None, typer.Option(help="Kubeconfig file of a real cluster.")
]
Context: TypeAlias = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
Namespace: TypeAlias = Annotated[
    str | None, typer.Option("-n", "--namespace", help="Where the scheduler and its leases are.")
]
Observe: TypeAlias = Annotated[
    bool | None,
    typer.Option("--observe/--no-observe", help="Decide and log, write nothing to the cluster."),
]
Evictions: TypeAlias = Annotated[
    bool | None, typer.Option("--evictions/--no-evictions", help="Whether anything is evicted.")
]
MetricsAddress: TypeAlias = Annotated[str | None, typer.Option(help="Where metrics are served.")]
MetricsPort: TypeAlias = Annotated[int | None, typer.Option(help="Port of the metrics.")]
HealthAddress: TypeAlias = Annotated[str | None, typer.Option(help="Where probes are served.")]
HealthPort: TypeAlias = Annotated[int | None, typer.Option(help="Port of the probes.")]
View: TypeAlias = Annotated[
    bool | None,
    typer.Option("--view/--no-view", help="Serve the live view, for people and programs."),
]
ViewAddress: TypeAlias = Annotated[str | None, typer.Option(help="Where the view is served.")]
ViewPort: TypeAlias = Annotated[int | None, typer.Option(help="Port of the view.")]
LogFormat: TypeAlias = Annotated[
    Literal["auto", "json", "text"] | None, typer.Option(help="How events are written.")
]
LogLevel: TypeAlias = Annotated[
    Literal["debug", "info", "warning", "error"] | None,
    typer.Option(help="Least severe events that are written."),
]

_SETTING: Final = {
    "files": ("manifests", "--filename"),
    "shard": ("shards", "--shard"),
    "schedule_period": ("schedulePeriod", "--schedule-period"),
    "cluster": ("cluster", "--cluster"),
    "kubeconfig": ("kubernetes.kubeconfig", "--kubeconfig"),
    "context": ("kubernetes.context", "--context"),
    "namespace": ("kubernetes.namespace", "--namespace"),
    "observe": ("kubernetes.observe", "--observe"),
    "evictions": ("evictions", "--evictions"),
    "metrics_bind_address": ("metrics.bindAddress", "--metrics-bind-address"),
    "metrics_port": ("metrics.port", "--metrics-port"),
    "health_bind_address": ("health.bindAddress", "--health-bind-address"),
    "health_port": ("health.port", "--health-port"),
    "view": ("view.enabled", "--view"),
    "view_bind_address": ("view.bindAddress", "--view-bind-address"),
    "view_port": ("view.port", "--view-port"),
    "log_format": ("log.format", "--log-format"),
    "log_level": ("log.level", "--log-level"),
}
_LISTS: Final = ("files", "shard")


def flags_of(parameters: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Map the key of each given flag of a command to the flag and its value."""
    flags = {}
    for name, (key, flag) in _SETTING.items():
        value = parameters.get(name)
        if value is None or value == []:
            continue
        if name in _LISTS:
            value = tuple(value) if isinstance(value, list) else (value,)
        flags[key] = (flag, value)
    return flags
