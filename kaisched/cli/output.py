"""Output of a document: as text, JSON, YAML, CSV or names, once or at every change."""

from __future__ import annotations

import csv
import json
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.cli.printing import has_colors
from kaisched.clock import SystemClock
from kaisched.errors import ClusterUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kaisched.cli.live import Server

_AGAIN_S: Final = 1.0
"""Pause before a stream is opened again."""
_CLEAR: Final = "\x1b[H\x1b[2J"


class Printer(NamedTuple):
    """How a document is printed."""

    as_text: Callable[[Mapping[str, Any]], None]
    as_rows: Callable[[Mapping[str, Any]], Iterable[Sequence[object]]]
    """The rows of CSV, the heads first."""
    as_names: Callable[[Mapping[str, Any]], Iterable[str]] = lambda _: ()
    """The lines of ``-o name``: ``kind/name``, as kubectl reads them."""

    def print(self, document: Mapping[str, Any], output: str) -> None:
        """Print a document; in any other form than json, yaml, csv and name as text."""
        if output == "json":
            print(json.dumps(document, indent=2))  # noqa: T201
        elif output == "yaml":
            import yaml  # noqa: PLC0415 - only when asked

            yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True)
        elif output == "csv":
            csv.writer(sys.stdout, lineterminator="\n").writerows(self.as_rows(document))
        elif output == "name":
            for name in self.as_names(document):
                print(name)  # noqa: T201
        else:
            self.as_text(document)


def queue_names(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the queues of a document as kubectl reads them."""
    for entry in document["queues"]:
        yield f"queue.scheduling.run.ai/{entry['name']}"


def show(
    server: Server,
    get: Callable[[], Mapping[str, Any]],
    printer: Printer,
    output: str,
    *,
    is_watched: bool,
) -> None:
    """Print a document, and again at every change if it is watched."""
    if not is_watched:
        printer.print(get(), output)
        return
    for number in _changes(server):
        if has_colors(sys.stdout):
            sys.stdout.write(_CLEAR)
        elif number:
            print("---" if output == "yaml" else "")  # noqa: T201
        printer.print(get(), output)
        sys.stdout.flush()


def _changes(server: Server) -> Iterator[int]:
    """Count the revisions; a stream that ends in an orderly way is opened again."""
    number, seen = 0, -1
    while True:
        told = number
        for revision in server.changes():
            if revision != seen:
                seen = revision
                yield number
                number += 1
        if told == number and not number:
            raise ClusterUnavailable(f"{server.url} has no view", fix="see its /readyz")
        SystemClock().sleep(_AGAIN_S)
