"""Makes the templates of claims that are shares of GPUs, where pods wait for them.

A template is named by what it asks for, so to find one there already is as good as to make it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kaisched.clock import monotonic_s
from kaisched.cluster.kubernetes.client import Answer
from kaisched.cluster.kubernetes.pauses import Pauses
from kaisched.cluster.kubernetes.pods import CONFLICT, GONE, is_passing, lacks_right
from kaisched.errors import ClusterUnavailable
from kaisched.objects.devices import RESOURCE_API, RESOURCE_API_BEFORE
from kaisched.telemetry.metrics import DONE, DROPPED, FAILED, RETRIED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kaisched.cluster.kubernetes.outbox import Work
    from kaisched.cluster.kubernetes.pods import Writers
    from kaisched.cluster.store import StateStore
    from kaisched.framework.intents import Bind, Nominate
    from kaisched.objects.devices import ResourceClaimTemplate

AGAIN_S: Final = 30.0
"""A template that is still missing after so long is made again."""
_NEEDS: Final = "create on resourceclaimtemplates of resource.k8s.io"


class ShareTemplates:
    """Makes missing templates after cycles; no bind needs a step for them."""

    def __init__(self) -> None:
        """Nothing was made yet."""
        self._tried_s: dict[str, float] = {}
        """By template that is missing, when it was made last."""

    def step(self, bind: Bind, writers: Writers, store: StateStore) -> None:
        """Return None: a bound pod has its claim."""
        del bind, writers, store

    def upkeep(
        self, nominations: Sequence[Nominate], writers: Writers, store: StateStore
    ) -> Iterable[Work]:
        """Make the templates that pods wait for."""
        del nominations
        now_s = monotonic_s()
        wanted = {it.key: it for it in store.device_claims.shares.wanted(store.pods.is_ours)}
        self._tried_s = {key: s for key, s in self._tried_s.items() if key in wanted}
        due = [key for key in wanted if self._tried_s.get(key, -AGAIN_S) + AGAIN_S <= now_s]
        self._tried_s.update(dict.fromkeys(due, now_s))
        return [_Make(writers, wanted[key]) for key in due]


@dataclass(slots=True)
class _Make:
    """The making of one template."""

    writers: Writers
    template: ResourceClaimTemplate
    pauses: Pauses = field(default_factory=Pauses)

    def send(self) -> float | None:
        """Make the template; return when to try again, None when done."""
        writers, key = self.writers, self.template.key
        try:
            answer = self._post()
        except ClusterUnavailable:
            writers.counts.add("claim", RETRIED)
            return self.pauses.next_s()
        if answer.is_done or answer.code == CONFLICT:
            writers.counts.add("claim", DONE)
            if answer.is_done:
                writers.log.info("template_made", template=key)
            return None
        if is_passing(answer):
            writers.counts.add("claim", RETRIED)
            return self.pauses.next_s(answer.retry_after_s)
        more = {"needs": _NEEDS} if lacks_right(answer) else {}
        writers.log.error("template_not_made", template=key, answer=answer.text(), **more)
        writers.counts.add("claim", FAILED)
        return None

    def _post(self) -> Answer:
        """Send the request in the version that is served, the newest first."""
        body: dict[str, Any] = msgspec.to_builtins(self.template)
        answer = Answer(GONE, b"")
        for version in (RESOURCE_API, RESOURCE_API_BEFORE):
            space = self.template.metadata.namespace
            answer = self.writers.client.call(
                "POST",
                f"/apis/{version}/namespaces/{space}/resourceclaimtemplates",
                body={"apiVersion": version, "kind": "ResourceClaimTemplate", **body},
            )
            if answer.code != GONE:
                break
        return answer

    def drop(self, why: str) -> None:
        """Leave it: the next leader, or a later cycle, finds it missing."""
        del why
        self.writers.counts.add("claim", DROPPED)
