"""Claims on devices in the embedded cluster: made from templates, allocated, and given back.

It does what the scheduler's binder and the controllers of Kubernetes do with claims.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from itertools import chain, count
from typing import Final

from msgspec.structs import replace

from kaisched.cluster.claims.conversion import written
from kaisched.cluster.claims.generated import special_name
from kaisched.cluster.events import remove, upsert
from kaisched.cluster.store import StateStore
from kaisched.framework.intents import Bind
from kaisched.objects.devices import (
    ClaimAllocation,
    Consumer,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceClaimTemplate,
)
from kaisched.objects.load import Manifest, identity_of
from kaisched.objects.pod import Pod, PodClaimStatus
from kaisched.objects.wire import ObjectMeta, OwnerReference

_SHARES: Final = uuid.UUID("6f2c8a4e-0d1b-4c39-9a57-3be1f0c4d282")
"""From this and the claim's name come the UUIDs of shares: the same in every run."""


class EmbeddedClaims:
    """Writes claims of pods into the objects of a cluster, and tells the store."""

    def __init__(
        self, objects: MutableMapping[tuple[str, str], Manifest], stores: Sequence[StateStore]
    ) -> None:
        """Take the objects of a cluster, and the stores that hear of them."""
        self._objects, self._stores = objects, stores

    def with_claims(self, pod: Pod) -> Pod:
        """Return a pod with the claims that are made for it from templates."""
        made = {it.name: it for it in pod.status.resource_claim_statuses}
        for ref in pod.spec.resource_claims:
            template = self._find(ResourceClaimTemplate, pod, ref.resource_claim_template_name)
            if ref.name in made or not isinstance(template, ResourceClaimTemplate):
                continue
            meta = pod.metadata
            owner = OwnerReference(
                api_version="v1", kind="Pod", name=pod.name, uid=meta.uid, controller=True
            )
            name = self._name_for(pod, ref.name)
            claim = ResourceClaim(
                metadata=ObjectMeta(name=name, namespace=meta.namespace, owner_references=[owner]),
                spec=template.spec.spec,
            )
            self._put(claim)
            made[ref.name] = PodClaimStatus(name=ref.name, resource_claim_name=name)
        if len(made) == len(pod.status.resource_claim_statuses):
            return pod
        return replace(pod, status=replace(pod.status, resource_claim_statuses=list(made.values())))

    def _name_for(self, pod: Pod, claim: str) -> str:
        """Return a name that no claim of another has: two pods may come to the same one."""
        name = f"{pod.name}-{claim}"
        names = chain([name], (f"{name}-{number}" for number in count(2)))
        return next(it for it in names if self._is_free(it, pod))

    def _is_free(self, name: str, pod: Pod) -> bool:
        known = self._objects.get((ResourceClaim.KIND, f"{pod.metadata.namespace}/{name}"))
        owners = [] if known is None else known.metadata.owner_references
        return known is None or any(it.uid == pod.metadata.uid for it in owners)

    def allocate(self, bind: Bind, pod: Pod) -> None:
        """Write what the claims of a pod get, and that it uses them."""
        for key, allocation in bind.claims:
            known = self._stores[0].device_claims
            claim = known.special.as_made(key) or known.claim(key)
            if claim is not None:
                given = written(allocation, _shares(key))
                self._put(replace(claim, status=replace(claim.status, allocation=given)))
        user = Consumer(resource="pods", name=pod.name, uid=pod.metadata.uid)
        for claim in self._of(pod):
            users = [*claim.status.reserved_for, user]
            self._put(replace(claim, status=replace(claim.status, reserved_for=users)))

    def release(self, pod: Pod) -> None:
        """Let claims go that a pod has used: its own are deleted with it."""
        for claim in list(self._of(pod)):
            if any(it.uid == pod.metadata.uid for it in claim.metadata.owner_references):
                self._objects.pop(identity_of(claim), None)
                for store in self._stores:
                    remove(store, claim)
                continue
            users = [it for it in claim.status.reserved_for if it.uid != pod.metadata.uid]
            allocation: ClaimAllocation | None = claim.status.allocation if users else None
            status = ResourceClaimStatus(allocation=allocation, reserved_for=users)
            if status != claim.status:
                self._put(replace(claim, status=status))

    def _of(self, pod: Pod) -> Iterator[ResourceClaim]:
        special = f"{pod.metadata.namespace}/{special_name(pod.name, pod.metadata.uid or pod.key)}"
        if (claim := self._stores[0].device_claims.claim(special)) is not None:
            yield claim
        made = {it.name: it.resource_claim_name for it in pod.status.resource_claim_statuses}
        for ref in pod.spec.resource_claims:
            name = ref.resource_claim_name or made.get(ref.name, "")
            claim = self._stores[0].device_claims.claim(f"{pod.metadata.namespace}/{name}")
            if claim is not None:
                yield claim

    def _find(self, type_: type[ResourceClaimTemplate], pod: Pod, name: str) -> Manifest | None:
        return self._objects.get((type_.KIND, f"{pod.metadata.namespace}/{name}"))

    def _put(self, claim: ResourceClaim) -> None:
        self._objects[identity_of(claim)] = claim
        for store in self._stores:
            upsert(store, claim)


def _shares(key: str) -> Callable[[], str]:
    """Return what gives UUIDs for the shares of one claim."""
    numbers = count(1)
    return lambda: str(uuid.uuid5(_SHARES, f"{key}/{next(numbers)}"))
