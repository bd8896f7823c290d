"""Works out the claim for what a pod asks for of extended resources that device classes back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kaisched.objects.devices import (
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from kaisched.objects.requests import ResourceAsk
from kaisched.objects.wire import ObjectMeta, OwnerReference

NOTE: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of such claims; its value is ``true``."""
LABEL: Final = "extended-resources"
_LONGEST: Final = 200


class Mapped(NamedTuple):
    """Which request of the claim a container gets for a resource."""

    container: str
    resource: str
    request: str


class Special(NamedTuple):
    """What a claim for extended resources asks for."""

    spec: ResourceClaimSpec
    mappings: tuple[Mapped, ...]


class Draft(NamedTuple):
    """A claim that no server has yet."""

    claim: ResourceClaim
    special: Special


def special_of(asks: Iterable[ResourceAsk], classes: Mapping[str, str]) -> Special:
    """Return the claim for what containers ask for.

    Containers that stay have devices of their own. An init container that ends has those of the
    containers after it, and the most that one of them lacks is asked for once.

    Args:
        asks: of one pod.
        classes: by resource, the class that backs it; others are no part of the claim.

    """
    requests: dict[tuple[int, int], DeviceRequest] = {}
    mappings: list[Mapped] = []
    listed = list(asks)
    for resource in sorted({it.resource for it in listed} & classes.keys()):
        mine = [it for it in listed if it.resource == resource]
        staying = [it for it in mine if not it.is_passing]
        for ask in staying:
            requests[ask.at, ask.position] = _request(ask, classes[resource], ask.number)
            mappings.append(Mapped(ask.container, resource, _name(ask)))
        extra = _most_lacking([it for it in mine if it.is_passing], staying)
        if extra is not None:
            ask, number = extra
            requests[ask.at, ask.position] = _request(ask, classes[resource], number)
        for ask in (it for it in mine if it.is_passing):
            used, lack = _later(ask, staying)
            if lack > 0 and extra is not None:
                used = [*used, extra[0]]
            mappings += [Mapped(ask.container, resource, _name(it)) for it in used]
    devices = DeviceClaim(requests=[it for _, it in sorted(requests.items(), key=lambda it: it[0])])
    return Special(ResourceClaimSpec(devices=devices), tuple(mappings))


def _later(ask: ResourceAsk, staying: list[ResourceAsk]) -> tuple[list[ResourceAsk], int]:
    """Return the later containers whose devices an init container has, and how many it lacks."""
    used, lack = [], ask.number
    for one in staying:
        if one.at > ask.at and lack > 0:
            used.append(one)
            lack -= one.number
    return used, lack


def _most_lacking(
    passing: list[ResourceAsk], staying: list[ResourceAsk]
) -> tuple[ResourceAsk, int] | None:
    lacking = [(it, _later(it, staying)[1]) for it in passing]
    most = max(lacking, key=lambda it: it[1], default=None)
    return most if most is not None and most[1] > 0 else None


def _request(ask: ResourceAsk, class_name: str, number: int) -> DeviceRequest:
    return DeviceRequest(
        name=_name(ask), exactly=ExactRequest(device_class_name=class_name, count=number)
    )


def _name(ask: ResourceAsk) -> str:
    return f"container-{ask.at}-request-{ask.position}"


def resources_of(special: Special) -> frozenset[str]:
    """Return the resources that a claim stands for."""
    return frozenset(it.resource for it in special.mappings)


def resources_in(claim: ResourceClaim, asks: Iterable[ResourceAsk]) -> frozenset[str]:
    """Return the resources that a claim of a server stands for, of those that its pod asks for."""
    names = {it.name for it in claim.spec.devices.requests}
    return frozenset(it.resource for it in asks if _name(it) in names)


def is_special(claim: ResourceClaim) -> bool:
    """Tell whether a scheduler has made a claim for extended resources."""
    return claim.metadata.annotations.get(NOTE) == "true"


def special_name(pod: str, uid: str) -> str:
    """Return the name of the claim of a pod: one pod never has two."""
    mark = hashlib.sha256(uid.encode()).hexdigest()[:8]
    return f"{pod[:_LONGEST].rstrip('-.')}-{LABEL}-{mark}"


def made_claim(draft: ResourceClaim) -> ResourceClaim:
    """Return a claim that no server has as it is to be made."""
    meta = draft.metadata
    pod, _, _ = meta.name.partition("/")
    made = ObjectMeta(
        name=special_name(pod, meta.uid),
        namespace=meta.namespace,
        annotations={NOTE: "true"},
        owner_references=meta.owner_references,
    )
    return ResourceClaim(metadata=made, spec=draft.spec)


def draft_key(pod: str, uid: str) -> str:
    """Return the key of the draft of a pod's claim, which no object can have."""
    return f"{pod}/{LABEL}/{uid}"


def shown(key: str) -> str:
    """Return what a claim is called in texts, also one that no server has."""
    pod, is_draft, _ = key.partition(f"/{LABEL}/")
    return f"the claim of pod {pod} for extended resources" if is_draft else f"claim {key}"


def owner_of(pod: str, uid: str) -> OwnerReference:
    """Return the entry that makes a pod the owner of its claim."""
    name = pod.partition("/")[2]
    return OwnerReference(api_version="v1", kind="Pod", name=name, uid=uid, controller=True)
