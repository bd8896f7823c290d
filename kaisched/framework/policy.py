"""A shard's policy, ready to run: plugins with their weights, actions, and a few settings.

Built by the engine from a SchedulingShard; immutable, shared by all cycles of the shard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from kaisched.framework.plugins.asking import Questions
from kaisched.framework.plugins.plugin import PluginSetting
from kaisched.objects.gangs import KNOWN
from kaisched.objects.shard import BUDGETS_WITHIN_FAIR_SHARE, MAX_EVICTIONS_PER_CYCLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kaisched.objects.workloads import Table


class Action(Protocol):
    """One kind of step of a cycle, such as allocate."""

    @property
    def name(self) -> str:
        """The action's name in shard files."""
        ...

    def run(self, session: Any) -> None:
        """Act on the session, which has this policy, through statements."""
        ...


@dataclass(frozen=True)
class Policy:
    """The plugins, actions and settings of a shard's cycles; plugins and actions are ordered."""

    plugins: tuple[PluginSetting, ...]
    actions: tuple[Action, ...]
    queue_depth: Mapping[str, int] = field(default_factory=dict)
    """Action name to the most jobs of a leaf queue that it tries; absent for all."""
    over_quota_weights: str = "equal"
    """``equal``: each queue's own weight; ``quota``: weights follow the quotas."""
    fairness: str = "hierarchy"
    """``hierarchy``: shares go down the tree; ``projects``: all leaf queues are siblings."""
    staleness_grace_s: float = 60.0
    """How long a gang may run below its minimum if it sets no grace period; negative for ever."""
    stuck_after_s: float = 120.0
    """No job waits for a pod that has been in deletion for so long; negative for ever."""
    owner_wait_s: float = 120.0
    """How long a pod waits for an owner of a known kind that the watch has not delivered yet."""
    max_consolidation_preemptees: int = 16
    """The most jobs that are moved to make room for one; 0 for none, -1 for no bound."""
    max_evictions_per_cycle: int = MAX_EVICTIONS_PER_CYCLE
    """After so many evictions a cycle begins no further one; the next goes on at once."""
    evictions_per_hour: int = -1
    """The most pods that may be evicted in any hour; 0 for none ever, -1 for no bound."""
    disruption_budgets: str | float = BUDGETS_WITHIN_FAIR_SHARE
    """When disruption budgets hold against jobs that evict: ``always``, ``withinQuota``,
    ``withinFairShare``; or for so many seconds that the job waits."""
    allows_consolidating_reclaim: bool = True
    """Whether victims of reclaim and preempt may find another place in the same plan."""
    has_tenants: bool = False
    """Whether who reads a job may not know the jobs of other queues."""

    workloads: Table = field(default_factory=lambda: KNOWN)
    """How the pods of each kind of workload are grouped."""

    @cached_property
    def questions(self) -> Questions:
        """What the plugins answer."""
        return Questions(self.plugins)
