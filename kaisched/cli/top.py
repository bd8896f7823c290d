"""``kaisched top``: queues, jobs, nodes and evictions of a running scheduler, as they change.

A frame is a headline, a table, and the keys.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from kaisched.cli import jobs, options, source
from kaisched.cli.printing import Column, columns, count, counted, draw, say, table_lines, width_of
from kaisched.core.titles import title_in
from kaisched.errors import ClusterUnavailable
from kaisched.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kaisched.cli.live import Server

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_REST_OF_LINE, _REST_OF_SCREEN = "\x1b[K", "\x1b[J"


def command(
    *,
    server: options.ServerUrl = "",
    shard_name: options.ShardName = "",
    every: Annotated[
        float, typer.Option(min=0.2, max=3600.0, help="Seconds between two frames.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
) -> None:
    """Show queues, jobs, nodes and evictions of a running scheduler until q is pressed.

    It reads the live view of --server or of KAISCHED_SERVER; where no kubeconfig names a cluster,
    that of a scheduler on this machine that runs with --view. Without a terminal it prints one
    frame.
    """
    found = source.running_scheduler(server, shard_name)
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        shown = frame(found, Screen(), width_of(sys.stdout), 1000)
        say(*shown[:-1])
    else:
        with _terminal() as key:
            run(found, every, key)


def run(server: Server, every_s: float, key: Callable[[float], str]) -> None:
    """Draw frames until a key ends it.

    Args:
        server: the scheduler.
        every_s: seconds between two frames.
        key: waits so long for a key, and returns it; an empty text for none.

    """
    screen, is_open = Screen(), True
    while is_open:
        size = shutil.get_terminal_size()
        try:
            lines = frame(server, screen, size.columns, size.lines)
        except ClusterUnavailable as wrong:  # it may be back soon
            lines = [str(wrong)[: size.columns], "q quit"]
        last = _REST_OF_LINE + _REST_OF_SCREEN
        draw(lines[: size.lines], _HOME, f"{_REST_OF_LINE}\n", last)
        is_open = screen.press(key(every_s))


@contextmanager
def _terminal() -> Iterator[Callable[[float], str]]:
    """Take the whole screen and single keys, and give both back at the end."""
    import termios  # noqa: PLC0415 - not on every system
    import tty  # noqa: PLC0415 - not on every system

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)

    def key(wait_s: float) -> str:
        ready, _, _ = select.select([stdin], [], [], wait_s)
        return os.read(stdin, 1).decode("latin-1") if ready else ""

    try:
        tty.setcbreak(stdin)
        draw((), _ENTER, "", "")
        yield key
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        draw((), _LEAVE, "", "")


# -- a frame -------------------------------------------------------------------------------------

_LEAST: Final = 4
_KEYS: Final = (
    "u queues  j jobs  n nodes  e evictions  s sort  r reverse  space next  b back  q quit"
)


class Pane(NamedTuple):
    """A table that can be chosen."""

    key: str
    path: str
    columns: tuple[Column, ...]
    row: Callable[[Mapping[str, Any], Mapping[str, Any]], tuple[Any, ...]]
    """The cells of an entry of a document: texts and numbers, by which the table is sorted."""
    is_in_parts: bool = True


def _gpu(entry: Mapping[str, Any], key: str) -> float:
    amount = entry[key].get("gpu", 0)
    return float("inf") if amount is None else float(amount)


def _queue(entry: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[Any, ...]:
    waiting = sum(entry["pending"].values())
    amounts = (_gpu(entry, key) for key in ("fairShare", "allocated", "requested", "deserved"))
    return (entry["name"], *amounts, entry["running"], waiting, counted(entry["pending"]))


def _node(entry: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[Any, ...]:
    held: dict[str, float] = {}
    for it in entry["holders"]:
        name = it["queue"] or "others"
        held[name] = held.get(name, 0.0) + it["gpus"]
    total, free = float(entry["gpus"]["total"]), float(entry["gpus"]["free"])
    state = "ready" if entry["ready"] and entry["schedulable"] else "not usable"
    return (
        entry["name"],
        state,
        total,
        free,
        ", ".join(f"{it} {n:g}" for it, n in held.items() if n),
    )


def _decision(entry: Mapping[str, Any], _: Mapping[str, Any]) -> tuple[Any, ...]:
    queue = entry["beneficiaryQueue"]
    whom = title_in(entry, "beneficiary", "beneficiaryWorkload") or (queue and f"queue {queue}")
    gone = f"{count(entry['pods'], 'pod')} of {count(entry['jobs'], 'job')}"
    told = f"{gone}{f' for {whom}' if whom else ''}, by {entry['rule']}: {entry['reason']}"
    return entry["time"][5:16].replace("T", " "), float(entry["lostGpuHours"]), told


PANES: Final = {
    it.key: it
    for it in (
        Pane(
            "u",
            "/queues",
            columns(
                "QUEUE",
                "#FAIR SHARE",
                "#HELD",
                "#?ASKED",
                "#?QUOTA",
                "#?RUNNING",
                "#WAITING",
                "REASONS",
            ),
            _queue,
            is_in_parts=False,
        ),
        Pane(
            "j",
            "/jobs",
            jobs.COLUMNS,
            jobs.cells,
        ),
        Pane(
            "n",
            "/nodes",
            columns("NODE", "STATE", "#GPUS", "#FREE", "HELD BY"),
            _node,
        ),
        Pane(
            "e",
            "/decisions",
            columns("TIME", "#GPU-HOURS LOST", "WHO WENT, FOR WHOM, AND WHY"),
            _decision,
        ),
    )
}
_NAMES: Final = {"u": "queues", "j": "jobs", "n": "nodes", "e": "evictions"}
_SORTS: Final = ("order", "name", "created", "since", "priority", "gpus")
"""Long lists of jobs are sorted where they are."""


@dataclass(slots=True)
class Screen:
    """What is looked at."""

    pane: Pane = PANES["u"]
    sort: int = -1
    """The column that decides the order; -1 for the order of the document."""
    is_reverse: bool = False
    offset: int = 0

    def press(self, key: str) -> bool:
        """Act on a key; False when it ends the command."""
        if key in PANES:
            self.pane, self.sort, self.is_reverse, self.offset = PANES[key], -1, False, 0
        elif key == "s":
            number = len(_SORTS) - 1 if self.pane.key == "j" else len(self.pane.columns)
            self.sort = -1 if self.sort + 1 >= number else self.sort + 1
            self.offset = 0
        elif key == "r":
            self.is_reverse = not self.is_reverse
        elif key in {" ", "b"}:
            self.offset = max(self.offset + (20 if key == " " else -20), 0)
        return key not in {"q", "\x03", "\x04"}

    @property
    def sorted_by(self) -> str:
        """The name of what decides the order."""
        if self.pane.key == "j":
            word = _SORTS[self.sort + 1]
        else:
            word = "order" if self.sort < 0 else self.pane.columns[self.sort].head.lower()
        return f"{word} reversed" if self.is_reverse else word


def frame(server: Server, screen: Screen, width: int, height: int) -> list[str]:
    """Return the lines of a frame, as read from a scheduler now."""
    overview = server.get("/overview")
    room = max(height - _LEAST - 1, 1)
    query: dict[str, Any] = {}
    if screen.pane.is_in_parts:
        query = {"offset": screen.offset, "limit": min(room, 1000)}
    if screen.pane.key == "j":
        query["sort"] = ("-" if screen.is_reverse else "") + _SORTS[screen.sort + 1]
    document = server.get(screen.pane.path, **query)
    entries = document[screen.pane.path[1:]]
    rows = [screen.pane.row(entry, document) for entry in entries]
    if screen.pane.key != "j":
        rows = _sorted(rows, screen)
    if not screen.pane.is_in_parts:
        rows = rows[screen.offset :]
    lines = list(table_lines(screen.pane.columns, [tuple(map(_cell, row)) for row in rows], width))
    total = document.get("total", len(entries))
    title = f"{_NAMES[screen.pane.key]}: {total}, by {screen.sorted_by}"
    if screen.offset:
        title += f", from {screen.offset + 1}"
    shown = [*_headline(overview, server.url), title, *(lines[: room + 1] or ["none"])]
    return [visible(line)[:width] for line in (*shown, _KEYS)]


def _headline(of: Mapping[str, Any], url: str) -> list[str]:
    took_s = of["durationSeconds"] or 0.0
    gpus, jobs = of["gpus"], of["jobs"]
    first = (
        f"shard {of['shard']}  cycle {of['cycle']}: {took_s * 1000:.1f} ms"
        f"  GPUs {gpus['held']:g}/{gpus['total']:g}"
        f"  jobs {jobs['running']} running, {jobs['pending']} waiting"
    )
    return [first, f"{url}: {of['abandoned'] or counted(of['pending']) or 'nothing waits'}"]


def _sorted(rows: list[tuple[Any, ...]], screen: Screen) -> list[tuple[Any, ...]]:
    if screen.sort >= 0:
        rows = sorted(rows, key=lambda row: row[screen.sort])
    return rows[::-1] if screen.is_reverse else rows


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "unlimited" if value == float("inf") else f"{value:g}"
    return str(value)
