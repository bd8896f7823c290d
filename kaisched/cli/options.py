"""Options that several commands share: where the state is read, and how the answer is printed."""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_type_hints

import typer

from kaisched.cli import source

if TYPE_CHECKING:
    from collections.abc import Callable

_OUTPUT: Final = typer.Option("-o", "--output", help="How to print.")
Table: TypeAlias = Annotated[Literal["table", "json"], _OUTPUT]
Listing: TypeAlias = Annotated[Literal["table", "json", "yaml", "csv", "name"], _OUTPUT]
Text: TypeAlias = Annotated[Literal["text", "json", "yaml", "csv", "name"], _OUTPUT]

_PLACE: Final = "place"
_SERVER: Final = {"server": (source.ServerUrl, "")}
_STATE: Final = {
    "files": (source.Files, None),
    "snapshot": (source.Snapshot, None),
    "daemon": (source.Daemon, ""),
    "kubeconfig": (source.Kubeconfig, None),
    "context": (source.Context, None),
    "shard": (source.ShardFile, None),
    "shard_name": (source.ShardName, ""),
}


def reads_state(*, has_view: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter ``place`` of a command with the options that say where it reads.

    ``has_view`` adds ``--server``, for commands that a live view can answer.
    """
    options = {**_SERVER, **_STATE} if has_view else _STATE

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        parameters: list[Parameter] = []
        for it in signature(function).parameters.values():
            if it.name != _PLACE:
                parameters.append(it.replace(annotation=hints[it.name]))
                continue
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for name, (annotation, default) in options.items()
            ]

        @wraps(function)
        def command(**given: Any) -> None:
            place = {name: given.pop(name) for name in options}
            place["files"] = place["files"] or ()
            function(place=source.Place(**place), **given)

        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {it.name: it.annotation for it in parameters}
        return command

    return decorate
