"""Intents: what the daemon must do after a cycle (bind, evict, nominate)."""

from __future__ import annotations

from dataclasses import dataclass, field

from kaisched.core.claims.model import Allocation
from kaisched.core.titles import TopOwner, title_of


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind pod ``namespace/name`` (precondition: uid) to a node."""

    pod: str
    uid: str
    node: str
    pod_group: str
    task: int = field(compare=False)
    node_row: int = field(compare=False)
    cards: tuple[str, ...] = ()
    """The groups of the cards that a pod with a share gets: opaque names, unique in the cluster."""
    claims: tuple[tuple[str, Allocation], ...] = field(compare=False, default=())
    """Claims that get their devices with this pod, by key."""


@dataclass(frozen=True, slots=True)
class Nominate:
    """Promise a node whose room is being released to a pod; nothing is bound yet."""

    pod: str
    uid: str
    node: str
    pod_group: str
    task: int = field(compare=False)
    node_row: int = field(compare=False)
    cards: tuple[str, ...] = ()
    """The groups of the open cards that a pod with a share is promised; others will be whole."""
    step: int = field(compare=False, default=-1)
    """The place in the result's steps of the claim that made it; -1 for none."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Evict a pod for a beneficiary; ``reason`` names the rule and the shares."""

    pod: str
    uid: str
    node: str
    pod_group: str
    action: str
    beneficiary: str
    reason: str
    task: int = field(compare=False)
    node_row: int = field(compare=False)
    queue: str = field(compare=False, default="")
    """The queue of the pod."""
    beneficiary_queue: str = field(compare=False, default="")
    """The queue of the beneficiary; empty without one."""
    top_owner: TopOwner | None = field(compare=False, default=None)
    """What the job of the pod comes from."""
    beneficiary_owner: TopOwner | None = field(compare=False, default=None)
    """What the beneficiary comes from."""
    kind: str = field(compare=False, default="")
    """What entitles the beneficiary, a word of the policy; else the action."""
    step: int = field(compare=False, default=-1)
    """The place in the result's steps of the claim that it is for; -1 for none."""
    ignores_budget: bool = False
    """The pod goes though a disruption budget may refuse its eviction: it does not hold for it."""

    @property
    def title(self) -> str:
        """What the job of the pod is called where people read."""
        return title_of(self.pod_group, self.top_owner)

    @property
    def decision(self) -> tuple[int, str, str, str]:
        """The decision of its cycle that it is part of: what goes for one job by one action.

        Where nobody benefits, what goes of one job.
        """
        return self.step, self.action, self.beneficiary, "" if self.beneficiary else self.pod_group

    @property
    def beneficiary_title(self) -> str:
        """What the beneficiary is called where people read; empty without one."""
        return title_of(self.beneficiary, self.beneficiary_owner)
