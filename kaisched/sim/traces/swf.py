"""Reader of the Standard Workload Format of the Parallel Workloads Archive.

A text (or ``.gz``) with 18 numbers a line, -1 for unknown, and comments that begin with a
semicolon. The fields used are submission (2), run time (4), processors used (5) or else requested
(8), user (12), group (13) and queue (15). Jobs without run time or processors never ran, and are
left out with a warning.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final, TextIO

from kaisched.errors import ConfigError
from kaisched.sim.reading import MOST_GPUS, MOST_SECONDS
from kaisched.sim.traces.rows import JobRow, JobRows

_FIELDS: Final = 18
_SUBMIT, _RUN, _USED, _ASKED = 1, 3, 4, 7
_COLUMN_OF: Final = {"user": 11, "group": 12, "queue": 14}


def read_swf(path: Path, queue_by: str, processors_per_gpu: int) -> JobRows:
    """Read a file; ``processors_per_gpu`` processors count as a GPU, rounded up."""
    column = _COLUMN_OF[queue_by]
    rows: list[JobRow] = []
    left_out = 0
    try:
        with _opened(path) as text:
            for line, words in enumerate(text, 1):
                content = words.partition(";")[0].split()
                if not content:
                    continue
                fields = _numbers(content, path, line)
                processors = fields[_USED] if fields[_USED] > 0 else fields[_ASKED]
                if processors <= 0 or fields[_RUN] <= 0:
                    left_out += 1
                    continue
                gpus = -(-int(processors) // processors_per_gpu)
                _check(fields, gpus, path, line)
                name = fields[column]
                queue = f"{queue_by}-{int(name)}" if name >= 0 else f"{queue_by}-unknown"
                rows.append(JobRow(fields[_SUBMIT], fields[_RUN], queue, gpus))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot be read: {error}", file=str(path), fix="write it as text in UTF-8"
        ) from error
    warning = f"{left_out} jobs of {path.name} have no run time or processors and are left out"
    return JobRows(rows, warnings=(warning,) if left_out else ())


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _numbers(words: list[str], path: Path, line: int) -> list[float]:
    if len(words) != _FIELDS:
        raise ConfigError(
            f"{len(words)} values where the format has {_FIELDS}",
            file=f"{path}:{line}",
            value=" ".join(words),
            fix="write -1 for unknown values",
        )
    numbers = []
    for at, word in enumerate(words, 1):
        try:
            numbers.append(float(word))
        except ValueError:
            raise ConfigError(
                "is not a number",
                file=f"{path}:{line}",
                path=f"field {at}",
                value=word,
                fix="write -1 for unknown values",
            ) from None
    return numbers


def _check(fields: list[float], gpus: int, path: Path, line: int) -> None:
    for at in (_SUBMIT, _RUN):
        if not 0 <= fields[at] <= MOST_SECONDS:
            raise ConfigError(
                "is out of range",
                file=f"{path}:{line}",
                path=f"field {at + 1}",
                value=fields[at],
                fix=f"write seconds from 0 to {MOST_SECONDS:.0f}",
            )
    if gpus > MOST_GPUS:
        raise ConfigError(
            "asks for too much",
            file=f"{path}:{line}",
            value=gpus,
            fix=f"at most {MOST_GPUS} GPUs: raise processorsPerGpu",
        )
