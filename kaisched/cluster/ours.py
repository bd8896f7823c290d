"""Scope of a store: the schedulers and the node pool whose objects it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kaisched.objects import labels

if TYPE_CHECKING:
    from kaisched.objects.pod import Pod
    from kaisched.objects.shard import SchedulingShard
    from kaisched.objects.wire import ObjectMeta

OUR_SCHEDULERS: Final = frozenset({"kaisched"})


class Sharing(NamedTuple):
    """How shares of GPUs reach the hardware."""

    has_reservations: bool = False
    """Whether reservation pods hold shared GPUs, so that a card without one takes no shares."""
    writes_lookups: bool = False
    """Whether ConfigMaps are written in which pods look up their GPU."""
    share_class: str = ""
    """The class of devices of which shares of GPUs are claims; empty where they are none."""


NO_SHARING: Final = Sharing()


def sharing_of(shard: SchedulingShard) -> Sharing:
    """Return how shares of GPUs reach the hardware in a shard."""
    return Sharing(shard.has_reservations, shard.writes_lookups, shard.share_class)


@dataclass(frozen=True, slots=True)
class Ours:
    """Scope of a store; immutable, so any thread may ask."""

    schedulers: frozenset[str]
    """Names of schedulers whose pods the store places."""
    node_pool: str
    """Node pool label of nodes, queues, pod groups and pods; empty for objects without it."""
    gpu_resources: tuple[str, ...]
    """Resource names that count as whole GPUs."""
    offers_shares: bool = False
    """Whether pods may share GPUs as parts of cards: whether that can be carried out."""
    sharing: Sharing = NO_SHARING

    def has(self, meta: ObjectMeta) -> bool:
        """Tell whether an object is in the node pool."""
        return labels.node_pool_of(meta) == self.node_pool

    def may_place(self, pod: Pod) -> bool:
        """Tell whether the store places a pod, or has placed it."""
        return pod.spec.scheduler_name in self.schedulers and self.has(pod.metadata)
