"""``kaisched whatif``: the difference that a job, a quota, a weight or a node would make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from kaisched.cli import completion, options
from kaisched.cli.printing import columns, print_document, print_table, say, warn
from kaisched.cli.when import when_document, when_lines
from kaisched.core.titles import title_of
from kaisched.units import format_amount

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.cli.whatif_objects import Difference
    from kaisched.engine.recording import Recording
    from kaisched.framework.report.records import QueueShare
    from kaisched.sim.forecast.course import JobState

command = typer.Typer()
_AMOUNTS: Final = ("fair_share", "allocated", "requested", "deserved")
_MANIFESTS = typer.Argument(help="Manifests to apply; - for stdin.", metavar="[FILE]...")
_QUEUE = typer.Option(
    help="Instead of files: submit a gang of equal pods to this queue.",
    autocompletion=completion.queues,
)
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
    help="queue/NAME, node/NAME, pod/NAME, podgroup/NAME or a workload such as job/NAME, with its"
    " pods.",
    metavar="OBJECT...",
)


@command.callback()
def _group() -> None:
    """Say what a change would make start, what it would have evicted, and the shares.

    Cycles run on two copies of the state, with the change and without it, until nothing moves; no
    job ends meanwhile. Nothing is changed anywhere.
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
    place: options.Place,
    output: options.Output = "table",
) -> None:
    """Say what jobs, queues, nodes or other objects would change if they were applied.

    Either manifests are named, or --queue with --gpus and --pods. Without -f, --snapshot and
    --daemon the cluster of the kubeconfig is read.
    """
    from kaisched.cli.whatif_objects import objects_of  # noqa: PLC0415 - not for the help
    from kaisched.engine.edits import find, with_objects  # noqa: PLC0415 - not for the help

    objects = objects_of(manifests or [], queue, gpus, pods)

    def change(recording: Recording, file: str) -> Recording:
        if queue:
            find(recording, f"queue/{queue}", file)
        return with_objects(recording, objects)

    _show(place, change, output, has_when=when)


@command.command("set")
@options.reads_state(has_view=False)
def set_values(
    target: Annotated[str, _TARGET],
    values: Annotated[list[str], _VALUES],
    *,
    place: options.Place,
    output: options.Output = "table",
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
    place: options.Place,
    output: options.Output = "table",
) -> None:
    """Say what would change without some objects; pods of a removed node wait again.

    The state is read as by `kaisched whatif submit`.
    """
    from kaisched.engine.edits import without_objects  # noqa: PLC0415 - not for the help

    _show(place, lambda recording, file: without_objects(recording, targets, file), output)


def _show(
    place: options.Place,
    change: Callable[[Recording, str], Recording],
    output: str,
    *,
    has_when: bool = False,
) -> None:
    from kaisched.cli.cycles import recorded  # noqa: PLC0415 - not for the help
    from kaisched.cli.whatif_objects import compare, difference_document  # noqa: PLC0415

    found = recorded(place)
    file = str(place.snapshot or "")
    difference = compare(found, change(found.recording, file), file, has_when=has_when)
    for text in difference.warnings:
        warn(text)
    if output != "table":
        print_document(difference_document(difference), output)
    else:
        _print_tables(difference)
    if difference.problems:
        raise typer.Exit(1)


def _print_tables(difference: Difference) -> None:
    """Print what differs; a line where nothing does."""
    from kaisched.cli.whatif_objects import owner_of  # noqa: PLC0415 - not for the help

    title = {
        name: title_of(name, owner_of(before, after))
        for name, _, before, after in difference.jobs()
    }
    jobs = [
        (title[name], queue, _shown(before), _shown(after))
        for name, queue, before, after in difference.jobs()
    ]
    print_table("Jobs", columns("JOB", "?QUEUE", "WITHOUT", "WITH"), jobs)
    reasons = [
        (title[name], after.record.message)
        for name, _, _, after in difference.jobs()
        if after is not None and after.record is not None
    ]
    print_table("With it, these wait", columns("JOB", "BECAUSE"), reasons)
    evictions = [
        (it.pod, it.action, it.beneficiary_title, it.reason) for it in difference.evictions()
    ]
    heads = columns("POD", "?BY", "FOR", "BECAUSE")
    print_table("Evicted by the change", heads, evictions)
    queues = [
        (
            name,
            *(_change(before, after, of) for of in _AMOUNTS),
        )
        for name, before, after in difference.queues()
    ]
    heads = columns("QUEUE", "#FAIR SHARE", "#ALLOCATED", "#?REQUESTED", "#?DESERVED")
    print_table("Queues: GPUs, without and with", heads, queues)
    for name, foreseen in difference.foreseen.items():
        say(f"{title.get(name, name)} may start:", *when_lines(when_document(foreseen)))
    if not (jobs or evictions or queues):
        say("the change makes no difference to any job or queue")


def _shown(job: JobState | None) -> str:
    """Say what becomes of a job."""
    if job is None:
        return "is not there"
    said = []
    if job.running:
        verb = "starts" if not job.before else "goes on" if job.running == job.before else "runs"
        said.append(f"{verb} with {job.running} pod{'s' if job.running > 1 else ''}")
    elif job.before:
        said.append("is evicted")
    if job.waiting:
        reason = f": {job.record.reason}" if job.record is not None else ""
        said.append(f"{job.waiting} wait{'s' if job.waiting == 1 else ''}{reason}")
    return ", ".join(said)


def _change(before: QueueShare | None, after: QueueShare | None, of: str) -> str:
    shown = [
        "none" if share is None else _amount(getattr(share, of).get("gpu", 0))
        for share in (before, after)
    ]
    return shown[0] if shown[0] == shown[1] else " -> ".join(shown)


def _amount(base: int) -> str:
    return "unlimited" if base < 0 else format_amount("gpu", base)
