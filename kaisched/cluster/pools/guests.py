"""Guests: jobs in our pool that name a queue of another one, and which queue counts for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.objects.labels import NODE_POOL, QUEUE_PROJECT, pool_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.cluster.pools.owners import Owners
    from kaisched.cluster.pools.projects import Projects
    from kaisched.cluster.queues import QueueRow


class Guests:
    """Which queue of our pool counts for the queue that a job names: that of its project here.

    A job that names a queue of ours is no guest, and costs three look-ups.
    """

    def __init__(self, projects: Projects, owners: Owners, pool: str) -> None:
        """Have none yet."""
        self._projects, self._owners, self._pool = projects, owners, pool
        self._queue_of: dict[str, tuple[str, str]] = {}
        """By job without a list, the queue that it names and the one that counts."""
        self._lacking: dict[str, str] = {}
        """By job with a list, the queue that it names where no queue counts."""
        self._revision = -1
        self._is_news = False

    def queue_for(self, job: str, name: str) -> str:
        """Return the queue that counts for a job without a list; the name as it is if none does."""
        self._drop(self._lacking, job)  # it had a list before
        if self._projects.pool_of(name) == self._pool:
            self._drop(self._queue_of, job)
            return name
        queue = self._resolved(name)
        if self._queue_of.get(job) != (name, queue):
            self._queue_of[job] = name, queue
            self._is_news = True
        return queue

    def queue_for_listed(self, job: str, name: str) -> str:
        """Return the queue that counts for a job with a list, made up if need be."""
        self._drop(self._queue_of, job)  # it had no list before
        queue = self._projects.queue_in(self._pool, name)
        if not queue and self._owners.served.get(self._pool):
            queue = self._projects.made_up(self._pool, name)[-1].name
        if queue:
            self._drop(self._lacking, job)
        elif self._lacking.get(job) != name:
            self._lacking[job] = name
            self._is_news = True
        return queue or name

    def _resolved(self, name: str) -> str:
        is_known = self._projects.pool_of(name) is not None
        if not (is_known or self._owners.is_on or self._pool):
            return name  # there are no pools: the queue does not exist
        queue = self._projects.queue_in(self._pool, name)
        if not queue and is_known and self._owners.served.get(self._pool):
            queue = self._projects.made_up(self._pool, name)[-1].name
        return queue or name

    def forget(self, job: str) -> None:
        """Forget a job that is gone."""
        for known in (self._queue_of, self._lacking):
            self._drop(known, job)

    def _drop(self, known: dict[str, tuple[str, str]] | dict[str, str], job: str) -> None:
        self._is_news |= known.pop(job, None) is not None

    def review(self) -> list[str]:
        """Return the jobs for which another queue counts now."""
        if not self._is_news and self._revision == self._projects.revision:
            return []
        self._is_news |= self._revision != self._projects.revision
        self._revision = self._projects.revision
        now = {name: self._resolved(name) for name, _ in self._queue_of.values()}
        return [job for job, (name, queue) in self._queue_of.items() if now[name] != queue]

    def why_not(self) -> Mapping[str, str] | None:
        """Return what is lacking, by the queue that jobs name; None if it is as it was."""
        if not self._is_news:
            return None
        self._is_news = False
        named = {name for name, queue in self._queue_of.values() if name == queue}
        return {
            name: text
            for name in sorted(named.union(self._lacking.values()))
            if (text := self._text(name))
        }

    def _text(self, name: str) -> str:
        pool = self._projects.pool_of(name)
        if pool is None or pool == self._pool:
            return ""
        project, here = self._projects.project_of(name), pool_name(self._pool)
        labels = f"labels {NODE_POOL}: {here} and" if self._pool else "label"
        return (
            f"queue {name} is in node pool {pool_name(pool)}; project {project} has no queue in"
            f" node pool {here}, which would have the {labels} {QUEUE_PROJECT}: {project}"
        )

    def made_up(self) -> list[QueueRow]:
        """Return the queues to make up for jobs without a list."""
        if not self._queue_of or not self._owners.served.get(self._pool):
            return []
        names = {name for name, _ in self._queue_of.values()}
        known = sorted(name for name in names if self._projects.pool_of(name) is not None)
        lacking = [name for name in known if not self._projects.queue_in(self._pool, name)]
        return [row for name in lacking for row in self._projects.made_up(self._pool, name)]
