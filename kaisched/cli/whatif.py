"""``kaisched whatif``: the difference that a job, a quota, a weight or a node would make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kaisched.cli import options, source

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.engine.recording import Recording

command = typer.Typer()
_MANIFESTS = typer.Argument(help="Manifests to apply; - for stdin.", metavar="[FILE]...")
_QUEUE = typer.Option(help="Instead of files: submit a gang of equal pods to this queue.")
_GPUS = typer.Option(min=0, max=1000, help="GPUs of each of its pods.")
_PODS = typer.Option(min=1, max=10_000, help="Its pods, which start together.")
_WHEN = typer.Option("--when", help="Say when it may start too, as `kaisched why --when`.")
_TARGET = typer.Argument(
    help="queue/NAME, node/NAME, podgroup/NAME, pod/NAME or shard.", metavar="OBJECT"
)
_VALUES = typer.Argument(
    help="gpu.quota=8, gpu.weight=2, priority=200 of a queue; gpu=16, unschedulable=true of a"
    " node; kValue=0.5 of the shard; or any path of the object.",
    metavar="PATH=VALUE...",
)
_TARGETS = typer.Argument(
    help="queue/NAME, node/NAME, pod/NAME, or podgroup/NAME with its pods.", metavar="OBJECT..."
)


@command.callback()
def _group() -> None:
    """Say what a change would make start, what it would have evicted, and the shares.

    Cycles run on two copies of the state in this process, with the change and without it, until
    nothing moves any more; no job ends meanwhile. Nothing is changed anywhere.
    """


@command.command("submit")
@options.reads_state(has_view=False)
def submit(
    manifests: Annotated[list[str] | None, _MANIFESTS] = None,
    *,
    queue: Annotated[str, _QUEUE] = "",
    gpus: Annotated[int, _GPUS] = 1,
    pods: Annotated[int, _PODS] = 1,
    when: Annotated[bool, _WHEN] = False,
    place: source.Place,
    output: options.Table = "table",
) -> None:
    """Say what jobs, queues, nodes or other objects would change if they were applied.

    Either manifests are named, or --queue with --gpus and --pods. Without -f, --snapshot and
    --daemon the cluster of the kubeconfig is read.
    """
    from kaisched.cli.whatif_submit import objects_of  # noqa: PLC0415 - not for the help
    from kaisched.engine.edits import with_objects  # noqa: PLC0415 - not for the help

    objects = objects_of(manifests or [], queue, gpus, pods)
    _show(place, lambda recording, _: with_objects(recording, objects), output, has_when=when)


@command.command("set")
@options.reads_state(has_view=False)
def set_values(
    target: Annotated[str, _TARGET],
    values: Annotated[list[str], _VALUES],
    *,
    place: source.Place,
    output: options.Table = "table",
) -> None:
    """Say what other values of a queue, a node or the shard would change.

    The state is read as by `kaisched whatif submit`.
    """
    from kaisched.engine.edits import with_values  # noqa: PLC0415 - not for the help

    _show(place, lambda recording, file: with_values(recording, target, values, file), output)


@command.command("remove")
@options.reads_state(has_view=False)
def remove(
    targets: Annotated[list[str], _TARGETS],
    *,
    place: source.Place,
    output: options.Table = "table",
) -> None:
    """Say what would change without some objects; pods of a removed node wait again.

    The state is read as by `kaisched whatif submit`.
    """
    from kaisched.engine.edits import without_objects  # noqa: PLC0415 - not for the help

    _show(place, lambda recording, file: without_objects(recording, targets, file), output)


def _show(
    place: source.Place,
    change: Callable[[Recording, str], Recording],
    output: str,
    *,
    has_when: bool = False,
) -> None:
    from kaisched.cli import whatif_text  # noqa: PLC0415 - not for the help
    from kaisched.cli.printing import warn  # noqa: PLC0415 - not for the help

    found = source.recorded(place)
    file = str(place.snapshot or "")
    difference = whatif_text.compare(found, change(found.recording, file), file, has_when=has_when)
    for text in difference.warnings:
        warn(text)
    if output == "json":
        import json  # noqa: PLC0415 - only when asked

        print(json.dumps(whatif_text.document(difference), indent=2))  # noqa: T201
    else:
        whatif_text.print_tables(difference)
    if difference.problems:
        raise typer.Exit(1)
