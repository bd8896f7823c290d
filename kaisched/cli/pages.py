"""Pages about a state: those of a running scheduler, or made from a cycle of this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kaisched.cli import source
from kaisched.view.paths import MOST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.cli.live import Server


class Pages(NamedTuple):
    """Documents of one state, in the form of the live view."""

    server: Server | None
    cycle: source.Cycle | None

    def queues(self, name: str | None = None) -> list[dict[str, Any]]:
        """Return the entries of all queues, or of one with those above and below it.

        Raises:
            ConfigError: there is no such queue.

        """
        if self.server is not None:
            found: list[dict[str, Any]] = self.server.queues_around(name)["queues"]
            return found
        from kaisched.view.queues import queue_entries, rows_around  # noqa: PLC0415 - as needed

        reading = self._reading()
        return queue_entries(reading, rows_around(reading, name))

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield the entry of each node, by name."""
        if self.server is not None:
            yield from self.server.entries("/nodes", "nodes", limit=MOST)
            return
        from kaisched.view.nodes import Wanted, nodes_document  # noqa: PLC0415 - as needed
        from kaisched.view.paths import Part  # noqa: PLC0415 - as needed
        from kaisched.view.reading import ALL  # noqa: PLC0415 - as needed

        reading = self._reading()
        part = Part(0, max(len(reading.snapshot.nodes), 1))
        yield from nodes_document(reading, Wanted(part=part), ALL)["nodes"]

    def usage(self) -> dict[str, Any] | None:
        """Return how reliable the usage history is; None without one."""
        if self.server is not None:
            found: dict[str, Any] | None = self.server.get("/overview")["usage"]
            return found
        from kaisched.view.queues import overview_document  # noqa: PLC0415 - as needed

        made: dict[str, Any] | None = overview_document(self._reading())["usage"]
        return made

    def end(self) -> None:
        """End with exit code 1 if objects or plugins had problems."""
        if self.cycle is not None:
            self.cycle.end()

    def _reading(self) -> Any:
        from kaisched.view.live import view_of  # noqa: PLC0415 - as needed
        from kaisched.view.reading import Reading  # noqa: PLC0415 - as needed

        assert self.cycle is not None
        result = self.cycle.result
        return Reading(view_of(result, usage=result.records.session.usage))


def pages_of(place: source.Place) -> Pages:
    """Return the pages of a state: of a scheduler that serves its view, or of a cycle run here.

    Raises:
        KaischedError: the state cannot be read, or its shard is wrong.

    """
    if (live := source.server_of(place)) is not None:
        return Pages(live, None)
    cycle = source.cycle_of(place)
    cycle.warn()
    return Pages(None, cycle)
