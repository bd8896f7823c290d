"""Devices with an identity in a simulated cluster, and what pods have of them.

Each pod has a claim of its own under its name, which gets devices when the pod is bound and gives
them back when it is gone: in Kubernetes drivers, templates and the claim controller see to that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kaisched.core.claims.model import Claim, Identity, Slice
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.selectors import CelSelector, DeviceClass
from kaisched.core.claims.table import ClaimTable, Held, held_by
from kaisched.core.constraints import ClaimUse
from kaisched.framework.intents import Bind

NOBODY = -1


def class_of(name: str) -> DeviceClass:
    """Return a class of devices: all those of the driver with its name."""
    return DeviceClass(name, (CelSelector(f'device.driver == "{name}"'),))


class Devices:
    """The devices of the nodes of a cluster, and who has them."""

    def __init__(self, slices: Sequence[Slice], classes: Sequence[str]) -> None:
        """Start with nothing taken."""
        self._offer = Offer(slices, {name: class_of(name) for name in classes})
        self._claims: list[Claim] = []
        self._number: dict[Claim, int] = {}
        self._selectors: dict[str, CelSelector] = {}
        self._held: dict[str, Held] = {}
        self._pods: dict[str, int] = {}
        """The job of each pod with a claim."""
        self.listed: list[Identity] = [it.identity for one in slices for it in one.devices]
        """All devices, in the order of nodes; the pool of a device is its node."""
        self._changes: list[tuple[Identity, int]] = []

    def use_of(self, claim: Claim) -> ClaimUse:
        """Return the use of a claim in the constraints of a pod."""
        number = self._number.get(claim)
        if number is None:
            number = self._number[claim] = len(self._claims)
            self._claims.append(claim)
            for ask in (it for request in claim.requests for it in request.options):
                self._selectors.update((text, CelSelector(text)) for text in ask.selectors)
        return ClaimUse(number)

    def add(self, pods: Iterable[str], job: int) -> None:
        """Take note of pods with a claim."""
        self._pods.update(dict.fromkeys(pods, job))

    def give(self, binds: Iterable[Bind]) -> None:
        """Let pods have the devices that they get with a bind."""
        for bind in binds:
            for key, allocation in bind.claims:
                held = self._held[key] = held_by(allocation)
                job = self._pods[key]
                self._changes += [(identity, job) for identity, _ in held.portions]

    def take_back(self, pods: Iterable[str]) -> None:
        """Free the devices of pods that are gone, and forget the pods."""
        for pod in pods:
            if self._pods.pop(pod, None) is not None and (held := self._held.pop(pod, None)):
                self._changes += [(identity, NOBODY) for identity, _ in held.portions]

    def changes(self) -> list[tuple[Identity, int]]:
        """Return which device went to which job since the last call, in order; to NOBODY if free.

        What was given back and given again is there twice.
        """
        changes, self._changes = self._changes, []
        return changes

    def table(self, row_of_task: Callable[[str], int]) -> ClaimTable | None:
        """Return the claims of a snapshot; None while no pod has one."""
        if not self._pods:
            return None
        rows = {pod: row_of_task(pod) for pod in self._pods}
        return ClaimTable(
            offer=self._offer,
            specs=tuple(self._claims),
            selectors=MappingProxyType(self._selectors),
            held=MappingProxyType(dict(self._held)),
            consumers=MappingProxyType({}),
            claims_of_task=MappingProxyType({row: (pod,) for pod, row in rows.items()}),
            users=MappingProxyType({pod: (rows[pod],) for pod in self._held}),
        )


@dataclass(slots=True)
class DeviceUse:
    """How one device was used in a run."""

    identity: Identity
    ticks: int = 0
    """In which a job had it."""
    runs: int = 0
    """How often a job got it."""
    job: int = NOBODY
    """The job that has it now."""
    since: int = 0


class DeviceLog:
    """How all devices are used, over time."""

    def __init__(self, clusters: Iterable[Devices | None]) -> None:
        """Start with nothing used; clusters without devices may be among them."""
        self._clusters = [it for it in clusters if it is not None]
        listed = [identity for it in self._clusters for identity in it.listed]
        self._uses = {identity: DeviceUse(identity) for identity in listed}

    def look(self, tick: int) -> None:
        """Take note of what has changed hands by a tick."""
        for identity, job in (it for cluster in self._clusters for it in cluster.changes()):
            use = self._uses[identity]
            self._count(use, tick)
            use.job = job
            use.runs += job != NOBODY

    def until(self, tick: int) -> list[DeviceUse]:
        """Return the use of all devices up to a tick, in the order of nodes."""
        for use in self._uses.values():
            self._count(use, tick)
        return list(self._uses.values())

    @staticmethod
    def _count(use: DeviceUse, tick: int) -> None:
        if use.job != NOBODY:
            use.ticks += tick - use.since
        use.since = tick
