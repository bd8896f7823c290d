"""Standard streams that are closed, or that refuse what is written to them."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any, Final, TextIO

from kaisched.errors import ConfigError

_MODES: Final = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
"""How to open the null device in the place of a closed stream: output must not get lost there."""


class _Output(io.FileIO):
    """Standard output, which says why it cannot be written."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            is_closed = error.errno == errno.EBADF
            reason = "is closed" if is_closed else f"cannot be written: {error.strerror}"
            fix = "send it to a file with room"
            raise ConfigError(f"standard output {reason}", fix=fix) from None


def prepare() -> None:
    """Replace closed streams, and make standard output say why it cannot be written."""
    for name, mode in _MODES.items():
        if getattr(sys, name) is None:
            # Else the next file that is opened would take the stream's number.
            opened = os.open(os.devnull, mode)
            mode_of_file = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(opened, mode_of_file, closefd=False))
    old = sys.stdout
    try:
        number = old.fileno()
    except OSError:  # no file, but an object of a caller in Python
        return
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(_Output(number, "w", closefd=False)),
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=old.isatty(),
    )


def print_error(line: str) -> None:
    """Print a line to standard error, which may be unable to take it."""
    try:
        print(line, file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Discard what a stream has not written, and all that comes, also at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def finish() -> None:
    """Discard what a stream still cannot write, which would be one more error at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ConfigError):
            with suppress(OSError):
                discard(stream)
