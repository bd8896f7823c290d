"""Options that several commands share: settings, where a state is read, how it is printed.

A command has one parameter for a group of options; a decorator puts the options in its place.
"""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    get_type_hints,
)

import typer

from kaisched.cli.printing import warn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.config.loading import LoadedSettings
    from kaisched.config.settings import SchedulerConfiguration

PROMETHEUS: Final = "KAISCHED_PROMETHEUS"
"""The variable that names a Prometheus server."""

_OUTPUT: Final = typer.Option("-o", "--output", help="How to print.")
Output: TypeAlias = Annotated[Literal["table", "json", "yaml", "csv", "name"], _OUTPUT]
"""What every command that prints a document takes."""
Progress: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Show a progress bar; by default only on a terminal, after a second.",
    ),
]
Kubeconfig: TypeAlias = Annotated[
    str | None, typer.Option(help="Kubeconfig file of a real cluster.")
]
Context: TypeAlias = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
Shard: TypeAlias = Annotated[Path | None, typer.Option(help="SchedulingShard to run by.")]
ShardName: TypeAlias = Annotated[
    str, typer.Option(help="Which shard of the cluster or daemon, where there are several.")
]
ServerUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        "--server", help="Read the live view of a scheduler, such as http://127.0.0.1:8083."
    ),
]
Watch: TypeAlias = Annotated[
    bool, typer.Option("-w", "--watch", help="Print again at every change, with --server.")
]
Prometheus: TypeAlias = Annotated[
    str,
    typer.Option(
        "--prometheus",
        help=f"Read the scheduler's metrics from this Prometheus server; else {PROMETHEUS}.",
    ),
]
HistoryFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--history", help="Read the file of the usage store `sqlite`; a copy is made."),
]
Resource: TypeAlias = Annotated[
    Literal["gpu", "cpu", "memory"], typer.Option("-r", "--resource", help="Of which resource.")
]
Last: TypeAlias = Annotated[str, typer.Option("--last", help="How far back, such as 12h or 4w.")]

# -- groups of options ---------------------------------------------------------------------------


def _replaced(
    function: Callable[..., None],
    group: str,
    options: Mapping[str, tuple[Any, object]],
    made: Callable[[dict[str, Any]], object],
) -> Callable[..., None]:
    """Replace one parameter of a command with options, of which its value is made."""
    hints = get_type_hints(function, include_extras=True)
    parameters: list[Parameter] = []
    for it in signature(function).parameters.values():
        if it.name != group:
            parameters.append(it.replace(annotation=hints[it.name]))
            continue
        parameters += [
            Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in options.items()
        ]

    @wraps(function)
    def command(**given: Any) -> None:
        value = made({name: given.pop(name) for name in options})
        function(**{group: value}, **given)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {it.name: it.annotation for it in parameters}
    return command


class Place(NamedTuple):
    """Where a state is read; without files, snapshot and daemon the cluster of the kubeconfig."""

    files: Sequence[str] = ()
    snapshot: Path | None = None
    daemon: str = ""
    kubeconfig: str | None = None
    context: str | None = None
    shard: Path | None = None
    shard_name: str = ""
    server: str = ""


_STATE: Final[dict[str, tuple[Any, object]]] = {
    "files": (
        Annotated[
            list[str] | None,
            typer.Option(
                "-f", "--filename", help="Read manifests, as `kaisched plan`; - for stdin."
            ),
        ],
        None,
    ),
    "snapshot": (
        Annotated[Path | None, typer.Option(help="Read a file of `kaisched snapshot take`.")],
        None,
    ),
    "daemon": (
        Annotated[
            str,
            typer.Option(help="Read the next cycle of a scheduler, such as http://127.0.0.1:8082."),
        ],
        "",
    ),
    "kubeconfig": (Kubeconfig, None),
    "context": (Context, None),
    "shard": (Shard, None),
    "shard_name": (ShardName, ""),
}


def reads_state(*, has_view: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``place`` of a command with the options that say where it reads.

    ``has_view`` adds ``--server``, for commands that a live view can answer.
    """
    server: dict[str, tuple[Any, object]] = {"server": (ServerUrl, "")} if has_view else {}

    def place(given: dict[str, Any]) -> Place:
        return Place(**{**given, "files": given["files"] or ()})

    return lambda function: _replaced(function, "place", {**server, **_STATE}, place)


class Given(NamedTuple):
    """Settings as a command line gives them."""

    config: Path | None
    flags: Mapping[str, tuple[str, Any]]
    """The key of each given flag, with the flag and its value."""

    def load(self) -> LoadedSettings:
        """Return the settings in force: flags override variables, which override the file."""
        import os  # noqa: PLC0415 - not for the help

        from kaisched.config.loading import load_settings  # noqa: PLC0415 - not for the help

        return load_settings(self.config, os.environ, self.flags)


class _Flag(NamedTuple):
    key: str
    """The setting."""
    type: Any


def _flag(key: str, kind: Any, *names: str, meaning: str) -> _Flag:
    return _Flag(key, Annotated[kind, typer.Option(*names, help=meaning)])


_Word: TypeAlias = str | None
_Port: TypeAlias = int | None
_Switch: TypeAlias = bool | None
_FLAGS: Final = {
    "config": _flag(
        "", Path | None, "-c", "--config", meaning="Settings file; else KAISCHED_CONFIG."
    ),
    "files": _flag(
        "manifests",
        list[Path] | None,
        "-f",
        "--filename",
        meaning="File or folder of manifests to start with.",
    ),
    "shard": _Flag("shards", Shard),
    "schedule_period": _flag(
        "schedulePeriod", _Word, meaning="Longest time between two cycles, such as 1s."
    ),
    "cluster": _flag(
        "cluster", Literal["embedded", "kubernetes"] | None, meaning="Which cluster to schedule."
    ),
    "kubeconfig": _Flag("kubernetes.kubeconfig", Kubeconfig),
    "context": _Flag("kubernetes.context", Context),
    "namespace": _flag(
        "kubernetes.namespace",
        _Word,
        "-n",
        "--namespace",
        meaning="Where the scheduler and its leases are.",
    ),
    "observe": _flag(
        "kubernetes.observe",
        _Switch,
        "--observe/--no-observe",
        meaning="Decide and log, write nothing to the cluster.",
    ),
    "evictions": _flag(
        "evictions",
        _Switch,
        "--evictions/--no-evictions",
        meaning="Whether anything is evicted.",
    ),
    "metrics_bind_address": _flag(
        "metrics.bindAddress", _Word, meaning="Where metrics are served."
    ),
    "metrics_port": _flag("metrics.port", _Port, meaning="Port of the metrics."),
    "health_bind_address": _flag("health.bindAddress", _Word, meaning="Where probes are served."),
    "health_port": _flag("health.port", _Port, meaning="Port of the probes."),
    "view": _flag(
        "view.enabled",
        _Switch,
        "--view/--no-view",
        meaning="Serve the live view, for people and programs.",
    ),
    "view_bind_address": _flag("view.bindAddress", _Word, meaning="Where the view is served."),
    "view_port": _flag("view.port", _Port, meaning="Port of the view."),
    "log_format": _flag(
        "log.format", Literal["auto", "json", "text"] | None, meaning="How events are written."
    ),
    "log_level": _flag(
        "log.level",
        Literal["debug", "info", "warning", "error"] | None,
        meaning="Least severe events that are written.",
    ),
}
OF_DOCTOR: Final = ("config", "shard", "kubeconfig", "context", "namespace")
OF_RUN: Final = tuple(name for name in _FLAGS if name != "namespace")


def sets_settings(
    names: Sequence[str] = OF_RUN,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``given`` of a command with flags that set settings."""
    options = {name: (_FLAGS[name].type, None) for name in names}
    return lambda function: _replaced(function, "given", options, given_of)


def given_of(parameters: Mapping[str, Any]) -> Given:
    """Return the settings that these parameters of a command give."""
    flags = {}
    for name, value in parameters.items():
        if name == "config" or value in (None, []):
            continue
        flag = "--filename" if name == "files" else "--" + name.replace("_", "-")
        is_one = name == "shard"
        several = isinstance(value, list)
        flags[_FLAGS[name].key] = (flag, (value,) if is_one else tuple(value) if several else value)
    return Given(parameters.get("config"), flags)


def client_of(
    settings: SchedulerConfiguration, kubeconfig: str | None = None, context: str | None = None
) -> Client:
    """Return a client of the cluster that flags name, or else the settings; say which it is.

    Raises:
        KaischedError: there is none.

    """
    from kaisched.cluster.kubernetes.access import find_access  # noqa: PLC0415 - not for the help
    from kaisched.cluster.kubernetes.client import Client  # noqa: PLC0415 - not for the help

    how = settings.kubernetes
    where = kubeconfig or how.kubeconfig
    access = find_access(Path(where) if where else None, context or how.context)
    warn(f"this is about {access}")
    return Client(access, timeout_s=how.request_timeout)
