"""Whether the queues of projects and their lists of node pools go together, for lint and doctor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.cluster.pools.projects import Projects
from kaisched.objects.labels import pool_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kaisched.objects.queue import Queue

_FIX: Final = "give them one list: which counts depends on the queue that a job names"


class Disagreement(NamedTuple):
    """Queues of one project with different lists."""

    project: str
    queues: tuple[str, ...]
    """The first queue by name of each list."""
    text: str
    fix: str = _FIX


def different_lists(queues: Iterable[Queue]) -> list[Disagreement]:
    """Return the projects whose queues have different lists, of their own or from above."""
    projects, leaves = _read(queues)
    lists: dict[str, dict[tuple[str, ...], str]] = {}
    for name in leaves:
        pools = projects.list_of(name)
        if pools is not None:
            lists.setdefault(projects.project_of(name), {}).setdefault(pools, name)
    found = []
    for project, by_list in sorted(lists.items()):
        if len(by_list) > 1:
            said = [f"{name} ({_named(pools)})" for pools, name in by_list.items()]
            text = f"queues of project {project} list different node pools: {', '.join(said)}"
            found.append(Disagreement(project, tuple(by_list.values()), text))
    return found


def lacking_queues(queues: Iterable[Queue], served: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Return (project, pool) where a project has no queue in a pool that its list names.

    Args:
        queues: all of the cluster.
        served: the pools that shards serve, with whether each makes up what is missing.

    """
    projects, leaves = _read(queues)
    found = {
        (projects.project_of(name), pool_name(pool))
        for name in leaves
        for pool in projects.list_of(name) or ()
        if served.get(pool) is False and not projects.queue_in(pool, name)
    }
    return sorted(found)


def _read(queues: Iterable[Queue]) -> tuple[Projects, list[str]]:
    """Return all queues, and the names of those without queues below them."""
    projects, parents, names = Projects(), set(), []
    for queue in queues:
        projects.put(queue)
        parents.add(queue.spec.parent_queue)
        names.append(queue.name)
    return projects, sorted(set(names) - parents)


def _named(pools: Iterable[str]) -> str:
    return ", ".join(map(pool_name, pools))
