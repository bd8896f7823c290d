"""``kaisched top``: queues, jobs, nodes and evictions of a running scheduler, as they change."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from kaisched.cli import source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kaisched.cli.live import Server

_ENTER = "\x1b[?1049h\x1b[?25l"
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME = "\x1b[H"
_REST_OF_LINE, _REST_OF_SCREEN = "\x1b[K", "\x1b[J"


def command(
    *,
    server: source.ServerUrl = "",
    shard_name: source.ShardName = "",
    every: Annotated[
        float, typer.Option(min=0.2, max=3600.0, help="Seconds between two frames.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one frame and end.")] = False,
) -> None:
    """Show queues, jobs, nodes and evictions of a running scheduler until q is pressed.

    It reads the live view of --server, of KAISCHED_SERVER, or of a scheduler on this machine that
    runs with --view. Where there is no terminal, one frame is printed.
    """
    found = source.running_scheduler(server, shard_name)
    if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
        _print_frame(found)
    else:
        with _terminal() as key:
            run(found, every, key)


def _print_frame(server: Server) -> None:
    from kaisched.cli.printing import width_of  # noqa: PLC0415 - not for the help
    from kaisched.cli.top_frame import Screen, frame  # noqa: PLC0415 - not for the help

    print("\n".join(frame(server, Screen(), width_of(sys.stdout), 1000)[:-1]))  # noqa: T201


def run(server: Server, every_s: float, key: Callable[[float], str]) -> None:
    """Draw frames until a key ends it.

    Args:
        server: the scheduler.
        every_s: seconds between two frames.
        key: waits so long for a key, and returns it; an empty text for none.

    """
    import shutil  # noqa: PLC0415 - not for the help

    from kaisched.cli.top_frame import Screen, frame  # noqa: PLC0415 - not for the help
    from kaisched.errors import ClusterUnavailable  # noqa: PLC0415 - not for the help

    screen, is_open = Screen(), True
    while is_open:
        size = shutil.get_terminal_size()
        try:
            lines = frame(server, screen, size.columns, size.lines)
        except ClusterUnavailable as wrong:  # it may be back soon
            lines = [str(wrong)[: size.columns], "q quit"]
        drawn = f"{_REST_OF_LINE}\n".join(lines[: size.lines])
        sys.stdout.write(_HOME + drawn + _REST_OF_LINE + _REST_OF_SCREEN)
        sys.stdout.flush()
        is_open = screen.press(key(every_s))


@contextmanager
def _terminal() -> Iterator[Callable[[float], str]]:
    """Take the whole screen and single keys, and give both back at the end."""
    import os  # noqa: PLC0415 - not for the help
    import select  # noqa: PLC0415 - not for the help
    import termios  # noqa: PLC0415 - not for the help
    import tty  # noqa: PLC0415 - not for the help

    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)

    def key(wait_s: float) -> str:
        ready, _, _ = select.select([stdin], [], [], wait_s)
        return os.read(stdin, 1).decode("latin-1") if ready else ""

    try:
        tty.setcbreak(stdin)
        sys.stdout.write(_ENTER)
        yield key
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        sys.stdout.write(_LEAVE)
        sys.stdout.flush()
