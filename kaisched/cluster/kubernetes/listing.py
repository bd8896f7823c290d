"""One list of everything that the scheduler watches, for tools that run once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kaisched.cluster.kubernetes.resources import ALL
from kaisched.errors import ClusterUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kaisched.cluster.kubernetes.client import Client
    from kaisched.cluster.kubernetes.resources import Seen, Watched

_PAGE: Final = 500
_FORBIDDEN, _ABSENT, _GONE = 403, 404, 410


@dataclass(slots=True)
class Listed:
    """The objects of a cluster, and what could not be read."""

    objects: list[Seen] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    kinds: set[str] = field(default_factory=set)
    """The kinds that could be read, in the form of access rules."""


def list_cluster(client: Client, kinds: Iterable[Watched] = ALL) -> Listed:
    """List all objects of all kinds that are served.

    Raises:
        ClusterUnavailable: the server does not answer, or a required kind may not be read.
        ObjectError: an answer is no list.

    """
    found = Listed()
    for watched in kinds:
        _list(client, watched, found)
    return found


def _list(client: Client, watched: Watched, found: Listed) -> None:
    """List a kind in the first of its versions that is served."""
    for version in (watched, *watched.others):
        if _list_version(client, version, found):
            return


def _list_version(client: Client, watched: Watched, found: Listed) -> bool:
    """List a kind in one version; return False if another version has to be tried."""
    query = {"limit": str(_PAGE)}
    objects: list[Seen] = []
    while True:
        answer = client.call("GET", watched.path, query=query, accept=watched.list_accept)
        if answer.code == _GONE and "limit" in query:
            query, objects = {}, []  # the pages have expired: read all at once
            continue
        if answer.code in {_ABSENT, _FORBIDDEN} and not watched.is_required:
            if answer.code == _FORBIDDEN:
                found.warnings.append(f"{watched.qualified} may not be listed: left out")
            return answer.code == _FORBIDDEN
        if not answer.is_done:
            raise ClusterUnavailable(
                f"{watched.qualified} cannot be listed: {answer.text()}",
                fix="apply deploy/crds" if answer.code == _ABSENT else "see kaisched doctor",
            )
        page = watched.read_list(answer.data)
        found.warnings.extend(f"left out: {problem}" for problem in page.problems)
        objects.extend(page.objects)
        if not page.next_page:
            found.objects.extend(objects)
            found.kinds.add(watched.qualified)
            return True
        query = {**query, "continue": page.next_page}
