"""``kaisched why``: why a job or a pod waits, how far it is from its turn, and what would help.

The text is made of ``kaisched.io/why/v1``, whoever made that. Nothing of the scheduler is imported
here, so that a running one is asked at once.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from kaisched.cli import completion, options, source
from kaisched.cli.printing import Printer, amount_cell, counted, say_wrapped
from kaisched.cli.when import WITHIN, when_lines
from kaisched.core.refusals import Refusal, RefusalText, text_of
from kaisched.core.titles import title_in
from kaisched.errors import ConfigError
from kaisched.framework.advice.advice import DOES_NOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_WHEN = typer.Option(
    "--when", help="Say when the job may start too: the cycle is run ahead in virtual time."
)
_NAMESPACE = typer.Option("-n", "--namespace", help="Namespace of the job or pod.")
_NAME = typer.Argument(
    help="Job or pod: NAME or NAMESPACE/NAME, also with a kind: job/NAME, Job NAMESPACE/NAME.",
    metavar="JOB|POD",
    show_default=False,
    autocompletion=completion.jobs,
)


@options.reads_state(has_view=True)
def command(
    names: Annotated[list[str], _NAME],
    *,
    place: options.Place,
    namespace: Annotated[str, _NAMESPACE] = "",
    when: Annotated[bool, _WHEN] = False,
    within: Annotated[int, WITHIN] = 60,
    watch: options.Watch = False,
    output: options.Output = "table",
) -> None:
    """Say why a job or a pod waits, which job is ahead of it, and what would let it start.

    With --server a running scheduler answers. Otherwise the daemon's own cycle runs on a copy of
    the state, in this process; nothing is changed anywhere. Where no source is named, that is the
    cluster of a named kubeconfig, context or KUBECONFIG, the scheduler of KAISCHED_SERVER, the
    cluster of ~/.kube/config, or a scheduler on this machine that runs with --view. Standard error
    says which.

    The next step was tried on the copy, and so was a little less; where none helps, that is said.

    With --when, the cycle runs on in virtual time, ten times with other run times and new jobs by
    chance: the job starts between the times printed, if the printed assumptions come true. Then a
    running scheduler is asked only by --daemon.
    """
    name = named_in(" ".join(names), namespace)
    view = source.view_of(place, is_watched=watch, is_foreseen=when, job=name)
    printer = Printer(_print, _rows, _names)
    more = {"foreseen_in_s": float(within)} if when else {}
    source.print_of(view, lambda: view.why(name, **more), printer, output, is_watched=watch)


def named_in(text: str, namespace: str) -> str:
    """Return a job or pod with its namespace, if one is given beside it.

    Raises:
        ConfigError: it names another one.

    """
    from kaisched.objects.gangs import kind_of  # noqa: PLC0415 - not for the help

    if not namespace:
        return text
    kind, space, name = text.rpartition(" ")
    own, slash, rest = name.rpartition("/")
    if slash and not space and kind_of(own):
        kind, own = own, ""
    if own not in ("", namespace):
        message = f"{text} and -n {namespace} name two namespaces"
        raise ConfigError(message, fix="give one of them")
    return f"{kind} {namespace}/{rest}".lstrip()


_WHOM: Final = ("beneficiary", "beneficiaryWorkload")
GATED: Final = "gated"
"""The state of a pod that has a scheduling gate."""
_MOST_PODS: Final = 5


def _print(document: Mapping[str, Any]) -> None:
    """Print everything about a job, the answer first, and then when it may start."""
    say_wrapped(*_lines(document), *when_lines(document["when"]))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    name, pending = title_in(document), document["pending"]
    gate = _gate(document)
    if gate is not None:
        yield f"{name} is pending: {gate.name}"
        yield f"  {gate.sentence}"
    elif pending is None:
        yield f"{name} does not wait"
    else:
        # What would help is the next step, below.
        yield f"{name} is pending: {pending['reason']}"
        if document["because"]:
            yield f"  {document['because']}"
        elif not document.get("complete", True):
            yield "  the numbers and the place are told between two cycles; none ended in time"
    yield from _pod_lines(document["pods"])
    for it in document["evictions"]:
        whom = f" for {title_in(it, *_WHOM)}" if it["beneficiary"] else ""
        yield f"  evicted by {it['action']}{whom}: {it['reason']}"
    if pending is not None:
        yield from _turn_lines(pending)
    yield from (f"  {_queue_line(entry)}" for entry in document["queues"])
    if pending is not None:
        yield from _next_lines(pending, document["cure"])
    elif gate is not None:
        yield f"  next: {gate.cure}"


def _gate(document: Mapping[str, Any]) -> RefusalText | None:
    """Return why a job waits of which all pods are gated: no action knows of it, as of no pod."""
    states = {it["state"] for it in document["pods"]}
    is_gated = document["pending"] is None and states == {GATED}
    return text_of(Refusal.SCHEDULING_GATED) if is_gated else None


def _next_lines(pending: Mapping[str, Any], cure: str) -> Iterator[str]:
    """Yield the next step: a change that was tried and helps, or that others are ahead.

    What helps in general is only told where nothing was tried.
    """
    advice = pending["advice"]
    helpful = [each["text"] for each in advice if each["helps"]]
    if helpful:
        yield f"  next: {'; or '.join(helpful)}"
        yield "    tried on a copy: the job starts, or is promised room"
    elif any(each.get("othersFirst") for each in advice):
        yield "  next: wait for the jobs ahead: what was tried on a copy starts others first"
    elif advice:
        useless = "; ".join(each["text"] for each in advice)
        yield f"  next: nothing that was tried on a copy; {DOES_NOT}: {useless}"
    else:
        yield f"  in general: {cure}"
        yield "    nothing was tried for this job"


def _turn_lines(pending: Mapping[str, Any]) -> Iterator[str]:
    turn = pending["turn"]
    if turn is None:
        return
    ahead, gpus = turn["ahead"], turn.get("gpusAhead")
    asked = f", behind jobs that ask for {gpus:g} GPUs" if gpus and turn["position"] > 1 else ""
    yield f"  position {turn['position']} of {turn['of']} in queue {pending['queue']}{asked}"
    if ahead is None:
        yield "  no job is ahead of it"
        return
    whose = title_in(ahead) or f"a job of queue {ahead['queue']}"
    yield f"  directly ahead: {whose}, because {ahead['because']}"


def _pod_lines(pods: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(pods) <= _MOST_PODS:
        for it in pods:
            yield f"  pod {it['pod']}: {it['state']}{f' on {at}' if (at := it['node']) else ''}"
        return
    counts = Counter(it["state"] for it in pods)
    yield f"  {len(pods)} pods: {counted(counts)}"


def _queue_line(queue: Mapping[str, Any]) -> str:
    def shown(amounts: Mapping[str, Any]) -> str:
        return amount_cell("gpu", amounts.get("gpu", 0))

    left_out = (queue["unschedulable"] or {}).get("amounts", {})
    more = f", and {shown(left_out)} that could never start" if left_out.get("gpu") else ""
    return (
        f"queue {queue['name']}: {shown(queue['allocated'])} GPUs allocated, fair share"
        f" {shown(queue['fairShare'])}, quota {shown(queue['deserved'])}, requested"
        f" {shown(queue['requested'])}{more}"
    )


def _rows(document: Mapping[str, Any]) -> Iterator[Sequence[object]]:
    """Yield the rows of CSV: the pods of a job, each with why the job waits."""
    yield ("podGroup", "job", "queue", "reason", "because", "position", "pod", "state", "node")
    pending = document["pending"] or {}
    turn = pending.get("turn") or {}
    queue = document["queues"][0]["name"] if document["queues"] else pending.get("queue")
    for it in document["pods"]:
        yield (
            document["podGroup"],
            title_in(document),
            queue,
            pending.get("reason"),
            document["because"],
            turn.get("position"),
            it["pod"],
            it["state"],
            it["node"],
        )


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pods of a job as kubectl reads them."""
    for it in document["pods"]:
        yield f"pod/{it['pod'].partition('/')[2]}"
