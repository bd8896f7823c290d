"""A cluster as text and back: one cell is one GPU.

::

    queue a   deserved=2
    queue b   deserved=2
    node  n0  | b1 b1 b2>a1 .
    job   a1  tasks=2 gpu=1 min=2

Cells of a node: ``.`` idle, ``a1`` held by a running pod of job a1, ``+a1`` placed in this cycle,
``b2>`` leaving, ``b2>a1`` leaving and promised to a1, ``>a1`` idle and promised. Pods that hold no
GPU stand behind a second bar, one word each. docs/reference/drawings.md is the long version.

This module only knows text and the plain structures below; kaisched.testing makes clusters of them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    _Drawn = TypeVar("_Drawn", bound="DrawnQueue | DrawnNode | DrawnJob")

UNLIMITED_WORD: Final = "unlimited"

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_CELL: Final = re.compile(rf"(?P<new>\+)?(?P<holder>{_NAME})?(?P<leaving>>(?P<promised>{_NAME})?)?")


class DrawingError(ValueError):
    """A drawing is invalid or ambiguous; the message names the line."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One GPU of a node, or one pod without GPUs."""

    holder: str = ""
    """The job whose pod is here; empty for idle."""
    is_new: bool = False
    is_leaving: bool = False
    promised: str = ""
    """The job whose pod gets it, once it is free."""

    def __str__(self) -> str:
        """Write the cell."""
        if not self.holder:
            return f">{self.promised}" if self.promised else "."
        sign = "+" if self.is_new else ""
        return f"{sign}{self.holder}" + (f">{self.promised}" if self.is_leaving else "")


@dataclass(frozen=True, slots=True)
class DrawnQueue:
    """A queue line. GPUs unless the key names cpu (cores) or memory (GiB); None for unlimited."""

    name: str
    parent: str = ""
    deserved: int | None = 0
    limit: int | None = None
    weight: int = 1
    priority: int = 100
    borrowing: int | None = None
    lending: int | None = None
    deserved_cpu: int | None = None
    limit_cpu: int | None = None
    deserved_memory: int | None = None
    limit_memory: int | None = None


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node line."""

    name: str
    cells: tuple[Cell, ...] = ()
    others: tuple[Cell, ...] = ()
    """Pods that hold no GPU."""
    cpu: int = 1000
    """Cores; so many that they only count if a drawing sets them."""
    memory: int = 4000
    """GiB."""
    pods: int = 110


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job line; amounts are those of each task."""

    name: str
    queue: str = ""
    tasks: int = 1
    """All of them: drawn on nodes or pending."""
    gpu: int = 1
    cpu: int = 1
    memory: int = 1
    min: int = 1
    """Tasks that run together or not at all; the rest is elastic."""
    priority: int = 50
    is_preemptible: bool = True
    on: tuple[str, ...] = ()
    """The nodes it may use; empty for all."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of a cluster. Queues and jobs are sorted oldest first."""

    queues: tuple[DrawnQueue, ...] = ()
    nodes: tuple[DrawnNode, ...] = ()
    jobs: tuple[DrawnJob, ...] = ()

    def drawn_tasks(self) -> dict[str, Counter[tuple[str, str]]]:
        """Count each node's pods by (job, role); roles are running, new, leaving, promised.

        No decision is about which GPU of a node a pod holds, so two pictures are compared by
        these counts.
        """
        gpus = {job.name: job.gpu for job in self.jobs}
        return {
            node.name: Counter(
                {key: cells // (gpus[key[0]] or 1) for key, cells in _count(node).items()}
            )
            for node in self.nodes
        }


def _count(node: DrawnNode) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for cell in (*node.cells, *node.others):
        if cell.holder:
            role = "leaving" if cell.is_leaving else "new" if cell.is_new else "running"
            found[cell.holder, role] += 1
        if cell.promised:
            found[cell.promised, "promised"] += 1
    return found


# -- reading -------------------------------------------------------------------------------------


def queue_of(job: str) -> str:
    """Return the default queue of a job: its name without the number at the end."""
    return job.rstrip("0123456789").rstrip("-_") or job


def parse(text: str) -> Drawing:
    """Read a drawing.

    Raises:
        DrawingError: with the line, what is wrong with it and what would be right.

    """
    queues: list[DrawnQueue] = []
    nodes: list[DrawnNode] = []
    lines: dict[str, tuple[int, dict[str, str]]] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        kind, _, rest = raw.partition("#")[0].strip().partition(" ")
        if not kind:
            continue
        head, *parts = rest.split("|")
        words = head.split()
        if not words or not re.fullmatch(_NAME, words[0]):
            raise DrawingError(f"line {number}: {kind!r} needs a name")
        values = _options(number, words[1:])
        if kind == "queue" and not parts:
            queues.append(_read(DrawnQueue, number, values, name=words[0]))
        elif kind == "node" and len(parts) <= _MOST_PARTS:
            cells = [tuple(_cell(number, word) for word in part.split()) for part in parts]
            given = dict(zip(("cells", "others"), cells, strict=False))
            nodes.append(_read(DrawnNode, number, values, name=words[0], **given))
        elif kind == "job" and not parts:
            if words[0] in lines:
                raise DrawingError(f"line {number}: job {words[0]} has a line already")
            lines[words[0]] = (number, values)
        else:
            raise DrawingError(f"line {number}: expected queue, node or job, found {raw.strip()!r}")
    drawing = Drawing(tuple(queues), tuple(nodes), tuple(_jobs(nodes, lines)))
    _check(drawing)
    return drawing


_MOST_PARTS: Final = 2


def _options(number: int, words: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise DrawingError(f"line {number}: expected key=value, found {word!r}")
        if key in values:
            raise DrawingError(f"line {number}: {key} is given twice")
        values[key] = value
    return values


def _cell(number: int, word: str) -> Cell:
    if word == ".":
        return Cell()
    cell = Cell()
    if match := _CELL.fullmatch(word):
        holder, promised = match["holder"] or "", match["promised"] or ""
        cell = Cell(holder, bool(match["new"]), bool(match["leaving"] and holder), promised)
    if str(cell) != word or (cell.is_new and cell.is_leaving):
        raise DrawingError(f"line {number}: {word!r} is no cell; cells are . a1 +a1 b2> b2>a1 >a1")
    return cell


_TEXTS: Final[dict[str, Callable[[str], object]]] = {
    "parent": str,
    "queue": str,
    "on": lambda text: tuple(text.split(",")),
    "is_preemptible": lambda text: {"yes": True, "no": False}[text],
}
_MAY_BE_UNLIMITED: Final = ("deserved", "limit", "borrowing", "lending")
_NOT_KEYS: Final = {"name", "cells", "others"}


def _read(kind: type[_Drawn], number: int, values: Mapping[str, str], **given: Any) -> _Drawn:
    known = {_key(each.name): each.name for each in fields(kind) if each.name not in _NOT_KEYS}
    for key, text in values.items():
        if key not in known:
            keys = ", ".join(sorted(known))
            raise DrawingError(f"line {number}: unknown key {key!r}; known are {keys}")
        try:
            given[known[key]] = _value(known[key], text)
        except (KeyError, ValueError):
            raise DrawingError(f"line {number}: {key} cannot be {text!r}") from None
    return kind(**given)


def _value(name: str, text: str) -> object:
    if text == UNLIMITED_WORD and name.startswith(_MAY_BE_UNLIMITED):
        return None
    if name in _TEXTS:
        return _TEXTS[name](text)
    amount = int(text)
    if amount < 0 and name != "priority":
        raise ValueError(text)
    return amount


def _jobs(
    nodes: Iterable[DrawnNode], lines: Mapping[str, tuple[int, dict[str, str]]]
) -> Iterable[DrawnJob]:
    """Return jobs without a line first, in order of appearance, then those with a line."""
    found = _found(nodes)
    yield from (_implied(name, *found[name]) for name in found if name not in lines)
    for name, (number, values) in lines.items():
        held = sum(found.get(name, ()))
        job = _read(DrawnJob, number, values, name=name)
        unsaid: dict[str, Any] = {
            "queue": queue_of(name),
            "tasks": max(1, held // (job.gpu or 1)),
            "is_preemptible": job.priority < _NON_PREEMPTIBLE_FROM,
        }
        unsaid = {field: unsaid[field] for field in unsaid if _key(field) not in values}
        job = replace(job, **unsaid)
        yield job if "min" in values else replace(job, min=job.tasks)


_NON_PREEMPTIBLE_FROM: Final = 100


def _found(nodes: Iterable[DrawnNode]) -> dict[str, tuple[int, int]]:
    """Return each drawn job's (cells, pods without a GPU), in order of appearance."""
    found: dict[str, tuple[int, int]] = {}
    for node in nodes:
        for place, cells in enumerate((node.cells, node.others)):
            for cell in cells:
                for job in (cell.holder, cell.promised):
                    if job:
                        gpus, others = found.get(job, (0, 0))
                        found[job] = (gpus + (place == 0), others + (place == 1))
    return found


def _implied(name: str, gpus: int, others: int) -> DrawnJob:
    """Return a drawn job without a line: one GPU per pod, all pods one gang."""
    tasks = max(1, gpus or others)
    return DrawnJob(name, queue_of(name), tasks=tasks, gpu=1 if gpus else 0, min=tasks)


def _check(drawing: Drawing) -> None:
    for kind in (drawing.queues, drawing.nodes):
        twice = [name for name, times in Counter(each.name for each in kind).items() if times > 1]
        if twice:
            raise DrawingError(f"{twice[0]} is drawn twice")
    jobs = {job.name: job for job in drawing.jobs}
    total: Counter[str] = Counter()
    for node in drawing.nodes:
        for (name, role), cells in _count(node).items():
            if cells % (jobs[name].gpu or 1):
                raise DrawingError(
                    f"node {node.name}: {cells} cells of {name} ({role}) are no multiple of the "
                    f"{jobs[name].gpu} GPUs that each of its pods holds"
                )
            total[name] += cells // (jobs[name].gpu or 1)
        _check_others(node, jobs)
    for name, drawn in total.items():
        if drawn > jobs[name].tasks:
            raise DrawingError(f"job {name} has {jobs[name].tasks} tasks, but {drawn} are drawn")


def _check_others(node: DrawnNode, jobs: Mapping[str, DrawnJob]) -> None:
    for cell in node.others:
        if bool(cell.holder) == bool(cell.promised):
            raise DrawingError(f"node {node.name}: behind the second bar each word is one pod")
    for cells, is_held in ((node.cells, True), (node.others, False)):
        for cell in cells:
            for name in filter(None, (cell.holder, cell.promised)):
                if (jobs[name].gpu > 0) != is_held:
                    raise DrawingError(
                        f"node {node.name}: pods of {name} hold {jobs[name].gpu} GPUs; only pods "
                        "without GPUs are behind the second bar"
                    )


# -- writing -------------------------------------------------------------------------------------


def render(drawing: Drawing) -> str:
    """Write a drawing, in columns; `parse` reads it back to the same."""
    jobs = _with_line(drawing)
    named: list[DrawnQueue | DrawnNode | DrawnJob] = [*drawing.queues, *drawing.nodes, *jobs]
    width = max((len(each.name) for each in named), default=0)
    said = [_said(node, DrawnNode(node.name)) for node in drawing.nodes]
    pad = max((len(text) + 2 for text in said if text), default=0)
    cell_pad = max((len(str(cell)) for node in drawing.nodes for cell in node.cells), default=1)
    lines = [
        f"queue {queue.name:<{width}}  {_said(queue, DrawnQueue(queue.name))}"
        for queue in drawing.queues
    ]
    for node, text in zip(drawing.nodes, said, strict=True):
        cells = " ".join(f"{cell!s:<{cell_pad}}" for cell in node.cells).rstrip()
        others = " ".join(str(cell) for cell in node.others)
        line = f"node  {node.name:<{width}}  {text:<{pad}}| {cells}"
        lines.append(f"{line} | {others}" if others else line)
    lines += [f"job   {job.name:<{width}}  {_said(job, _unsaid(job))}" for job in jobs]
    return "".join(line.rstrip() + "\n" for line in lines)


def _with_line(drawing: Drawing) -> Sequence[DrawnJob]:
    """Return the jobs that need a line: all but the oldest ones that the cells show fully."""
    found = _found(drawing.nodes)
    count = 0
    while count < len(drawing.jobs):
        older = {job.name for job in drawing.jobs[: count + 1]}
        if drawing.jobs[: count + 1] != tuple(
            _implied(name, *cells) for name, cells in found.items() if name in older
        ):
            break
        count += 1
    return drawing.jobs[count:]


def _unsaid(job: DrawnJob) -> DrawnJob:
    """Return the defaults that a job's line leaves out; number and size are always written."""
    return DrawnJob(
        job.name,
        queue_of(job.name),
        tasks=-1,
        gpu=-1,
        min=-1,
        is_preemptible=job.priority < _NON_PREEMPTIBLE_FROM,
    )


def _said(drawn: _Drawn, unsaid: _Drawn) -> str:
    words = []
    for each in fields(drawn):
        value = getattr(drawn, each.name)
        if each.name not in _NOT_KEYS and value != getattr(unsaid, each.name):
            words.append(f"{_key(each.name)}={_word(value)}")
    return " ".join(words)


def _key(name: str) -> str:
    """Return the key in the text of a field."""
    return "preemptible" if name == "is_preemptible" else re.sub(r"_(cpu|memory)$", r".\1", name)


def _word(value: object) -> str:
    if value is None:
        return UNLIMITED_WORD
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(value) if isinstance(value, tuple) else str(value)
