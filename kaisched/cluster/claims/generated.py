"""Claims that the scheduler makes itself: for extended resources, and for shares of GPUs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kaisched.cluster.claims.conversion import claim_of
from kaisched.cluster.claims.gpus import (
    NONE,
    OfferedDevices,
    SharedDevices,
    bridging_of,
    classes_of,
)
from kaisched.cluster.claims.sent import GeneratedClaim, GeneratedSpec, Mapped, PodId, SentClaims
from kaisched.cluster.columns import set_or_drop
from kaisched.cluster.pods import DeviceClaimRef, PodRow
from kaisched.core.claims.model import ClaimError
from kaisched.objects.devices import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kaisched.objects.gpus import CLAIM, MEMORY, PREFIX, ShareClaim, claim_spec, template_for
from kaisched.objects.requests import IMPLICIT, ResourceAsk, is_extended
from kaisched.objects.wire import ObjectMeta, OwnerReference

# -- generated claims ------------------------------------------------------------------------------

NOTE: Final = "resource.kubernetes.io/extended-resource-claim"
"""The annotation of such claims; its value is ``true``."""
LABEL: Final = "extended-resources"
_LONGEST: Final = 200


class Waiting(Exception):  # noqa: N818 - a way out, and no error
    """A claim keeps its pod from every node."""


def generated_for(asks: Iterable[ResourceAsk], classes: Mapping[str, str]) -> GeneratedSpec:
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
    return GeneratedSpec(ResourceClaimSpec(devices=devices), tuple(mappings))


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


def resources_of(generated: GeneratedSpec) -> frozenset[str]:
    """Return the resources that a claim stands for."""
    return frozenset(it.resource for it in generated.mappings)


def resources_in(claim: ResourceClaim, asks: Iterable[ResourceAsk]) -> frozenset[str]:
    """Return the resources that a claim of a server stands for, of those that its pod asks for."""
    names = {it.name for it in claim.spec.devices.requests}
    return frozenset(it.resource for it in asks if _name(it) in names)


def is_generated(claim: ResourceClaim) -> bool:
    """Tell whether a scheduler has made a claim for extended resources."""
    return claim.metadata.annotations.get(NOTE) == "true"


def generated_name(pod: str, uid: str) -> str:
    """Return the name of the claim of a pod: one pod never has two."""
    mark = hashlib.sha256(uid.encode()).hexdigest()[:8]
    return f"{pod[:_LONGEST].rstrip('-.')}-{LABEL}-{mark}"


def made_claim(generated: ResourceClaim) -> ResourceClaim:
    """Return a claim that no server has as it is to be made."""
    meta = generated.metadata
    pod, _, _ = meta.name.partition("/")
    made = ObjectMeta(
        name=generated_name(pod, meta.uid),
        namespace=meta.namespace,
        annotations={NOTE: "true"},
        owner_references=meta.owner_references,
    )
    return ResourceClaim(metadata=made, spec=generated.spec)


def generated_key(pod: str, uid: str) -> str:
    """Return the key of a pod's claim before a server has it, which no object can have."""
    return f"{pod}/{LABEL}/{uid}"


def shown(key: str) -> str:
    """Return what a claim is called in texts, also one that no server has."""
    pod, is_unwritten, _ = key.partition(f"/{LABEL}/")
    return f"the claim of pod {pod} for extended resources" if is_unwritten else f"claim {key}"


def owner_of(pod: str, uid: str) -> OwnerReference:
    """Return the entry that makes a pod the owner of its claim."""
    name = pod.partition("/")[2]
    return OwnerReference(api_version="v1", kind="Pod", name=name, uid=uid, controller=True)


# -- claims for extended resources -----------------------------------------------------------------
# A pod with such resources has one claim for all of them. Until its pod is bound it is known here
# only, under a key that no object can have.


class GeneratedClaims:
    """The claims of pods for extended resources, and the classes that back these."""

    def __init__(self, gpu_resources: Sequence[str] = ()) -> None:
        """Know none; ``gpu_resources`` count as whole GPUs."""
        self._gpu_resources = gpu_resources
        self.bridging = NONE
        """The resource that some nodes offer by a device plugin and others by claims."""
        self.pods: dict[str, PodRow] = {}
        """Those that ask for extended resources."""
        self.unwritten: dict[str, GeneratedClaim] = {}
        """By key, claims that no server has."""
        self.clearing: set[str] = set()
        """Pods whose claim is being given back: they wait."""
        self.changed: set[str] = set()
        """Pods whose generated claim a server has got."""
        self._claims: dict[str, ResourceClaim] = {}
        """By UID of the pod, the claim that a server has."""
        self.suspects: dict[str, PodId] = {}
        """By claim that a server has, the pod: it may have no node."""
        self._backing: dict[str, tuple[str, str, str]] = {}
        """By class: the resource it backs, when it was made, and its name."""
        self._classes: dict[str, str] = {}
        self._counted = -1
        self._offered: set[str] = set()
        """Resources that nodes offer without claims."""
        self._kept: set[str] = set()
        """Claims of pods that have a node and none at the server: they may get one elsewhere."""
        self._looked_at: tuple[object, ...] = ()
        """What there was when the bridged resource was looked for."""

    # -- objects ---------------------------------------------------------------------------------

    def update_class(self, one: DeviceClass, *, is_gone: bool) -> None:
        """Take in a class that came or changed, or drop it."""
        self._backing.pop(one.name, None)
        if is_extended(one.spec.extended_resource_name) and not is_gone:
            made = one.metadata.creation_timestamp
            self._backing[one.name] = (one.spec.extended_resource_name, made, one.name)
        # Of several classes the newest backs the resource, then the first by name.
        ranked = sorted(self._backing.values(), key=lambda it: (it[1], _reverse(it[2])))
        self._classes = {resource: name for resource, _, name in ranked}
        self._counted = -1

    def update_claim(self, claim: ResourceClaim, *, is_gone: bool = False) -> list[str]:
        """Record a claim of the server, or drop it; return its pod."""
        found = []
        if is_gone:
            self.suspects.pop(claim.key, None)
        for owner in claim.metadata.owner_references if is_generated(claim) else ():
            known = self._claims.get(owner.uid)
            if not is_gone:
                self._claims[owner.uid] = claim
            elif known is not None and known.name == claim.name:
                del self._claims[owner.uid]
            found.append(f"{claim.metadata.namespace}/{owner.name}")
        return found

    def unwritten_claim(self, key: str) -> ResourceClaim | None:
        """Return a claim that no server has yet."""
        found = self.unwritten.get(key)
        return None if found is None else found.claim

    def keys_of(self, claim: ResourceClaim) -> list[tuple[str, str]]:
        """Return (key, UID) of what a claim of a server was before it was made."""
        if not is_generated(claim):
            return []
        namespace, owners = claim.metadata.namespace, claim.metadata.owner_references
        return [(generated_key(f"{namespace}/{it.name}", it.uid), it.uid) for it in owners]

    def as_made(self, key: str) -> ResourceClaim | None:
        """Return a claim that was to be made, as a server would have it."""
        found = self.unwritten.get(key)
        return None if found is None else made_claim(found.claim)

    def count(self, gpus: OfferedDevices) -> list[str]:
        """Note which resources nodes offer without claims; return the pods that it matters to."""
        if not self._classes or self._counted == gpus.version:
            return []
        self._counted = gpus.version
        names = {"gpu", *self._classes}
        offered: set[str] = set()
        for node in gpus.nodes.values():
            offered |= {it for it in names - offered if node.allocatable.get(it, 0) > 0}
        if offered == self._offered:
            return []
        self._offered = offered
        return sorted(self.pods)

    def look(self, gpus: OfferedDevices, *, is_allocated: bool) -> bool:
        """Look for a resource that is offered in both ways; return whether anything may be new.

        Args:
            gpus: what nodes offer.
            is_allocated: whether claims are allocated at all.

        """
        seen = (gpus.version, gpus.counted, self._classes, is_allocated)
        if seen == self._looked_at:
            return False
        self._looked_at, self.bridging = seen, NONE
        if is_allocated and self._classes and gpus.of_node:
            self.bridging = bridging_of(gpus, self._classes, self._gpu_resources)
        return True

    # -- pods ------------------------------------------------------------------------------------

    def noted(self, pod: PodRow, *, is_sent: bool) -> PodRow:
        """Return a pod with its claim in place of what it asks for of extended resources.

        Args:
            pod: as it says itself, or as it was returned before.
            is_sent: whether an allocation is on its way into its claim.

        """
        refs = tuple(it for it in pod.device_claims if it.label != LABEL)
        asked = pod.request if pod.asked is None else pod.asked
        if refs != pod.device_claims or pod.asked is not None:
            pod = replace(pod, device_claims=refs, request=asked, asked=None)
        self.pods[pod.key] = pod
        key = generated_key(pod.key, pod.uid)
        bridged = classes_of(pod.extended, self.bridging, self._classes)
        classes = bridged or self._classes_of(pod)
        made = self._claims.get(pod.uid)
        if made is not None and not pod.node:
            self.suspects[made.key] = pod.key, pod.uid
        is_kept = bool(bridged and pod.node and pod.is_ours and not is_sent and made is None)
        (self._kept.add if is_kept else self._kept.discard)(key)
        # As it was sent, whatever the class is.
        claim = self.unwritten.get(key) if is_sent else None
        if claim is None and classes and (not pod.node or is_sent or is_kept):
            claim = self._generate(key, pod, classes)
        if claim is not None:
            name, given = key.partition("/")[2], resources_of(claim.content)
        elif made is not None and pod.node:
            name, given = made.name, resources_in(made, pod.extended)
        else:
            return pod
        if bridged:
            # What it holds counts as pieces of the resource, by whatever way its node gives them.
            ref = DeviceClaimRef(LABEL, name, is_own=True, unless_plugin=True)
            return replace(pod, device_claims=(*refs, ref), asked=asked)
        # GPUs of several vendors are counted as one amount: it stays if any of them has no class.
        covered = {it.counted_as for it in pod.extended}
        covered -= {it.counted_as for it in pod.extended if it.resource not in given}
        request = {it: amount for it, amount in asked.items() if it not in covered}
        ref = DeviceClaimRef(LABEL, name, is_own=True)
        return replace(pod, device_claims=(*refs, ref), request=request, asked=asked)

    def is_cleared(self, pod: PodRow, sent: SentClaims) -> bool:
        """Tell whether a waiting pod has no claim of an earlier try, or could use it anywhere."""
        if pod.key in self.clearing:
            return False
        is_open = bool(pod.node) or generated_key(pod.key, pod.uid) in sent
        is_bridged = any(it.unless_plugin for it in pod.device_claims)
        return is_open or not is_bridged or pod.uid not in self._claims

    def _classes_of(self, pod: PodRow) -> dict[str, str]:
        """Return the classes that back what a pod asks for."""
        found = {}
        for ask in pod.extended:
            if ask.resource.startswith(IMPLICIT):
                found[ask.resource] = ask.resource.removeprefix(IMPLICIT)
            elif ask.resource in self._classes and (
                pod.node or ask.counted_as not in self._offered
            ):
                found[ask.resource] = self._classes[ask.resource]
        return found

    def _generate(self, key: str, pod: PodRow, classes: Mapping[str, str]) -> GeneratedClaim:
        generated = generated_for(pod.extended, classes)
        known = self.unwritten.get(key)
        if known is not None and known.content == generated:
            return known
        namespace, _, name = key.partition("/")
        meta = ObjectMeta(
            name=name,
            namespace=namespace,
            uid=pod.uid,
            owner_references=[owner_of(pod.key, pod.uid)],
        )
        made = self.unwritten[key] = GeneratedClaim(
            ResourceClaim(metadata=meta, spec=generated.spec), generated
        )
        return made

    def forget(self, pod: str, sent: SentClaims) -> None:
        """Drop a pod; what is on its way to a server is kept until that is over."""
        found = self.pods.pop(pod, None)
        if found is None:
            return
        key = generated_key(pod, found.uid)
        self._kept.discard(key)
        if key not in sent:
            self.unwritten.pop(key, None)

    def settle(self, sent: SentClaims, doubtful: list[str]) -> list[str]:
        """Forget allocations of claims that were to be made, where their binds came to nothing.

        Return the unwritten ones that nothing is on its way for; none of them stays doubtful.
        """
        for key in [it for it in doubtful if it in self.unwritten]:
            doubtful.remove(key)
            pod = self._pod_of(key)
            if pod is None or not pod.node:
                sent.drop(key)  # else it is kept until its claim is seen
                self.changed |= set() if pod is None else {pod.key}
        return [key for key in self.unwritten if key not in sent and self._is_done(key)]

    def _is_done(self, key: str) -> bool:
        pod = self._pod_of(key)
        return pod is None or (bool(pod.node) and key not in self._kept)

    def _pod_of(self, key: str) -> PodRow | None:
        namespace, name, _, uid = key.split("/", 3)
        pod = self.pods.get(f"{namespace}/{name}")
        return pod if pod is not None and pod.uid == uid else None

    def drop(self, unwritten: list[str]) -> None:
        """Drop unwritten claims; their pods are to be looked at again."""
        for key in unwritten:
            if self._pod_of(key) is not None:
                self.changed.add("/".join(key.split("/", 2)[:2]))
            del self.unwritten[key]

    def left_over(self, is_waiting: Callable[[PodRow], bool]) -> list[tuple[str, PodRow]]:
        """Return claims with their pods, which wait: failed binds left them so."""
        found = []
        for key, (name, uid) in list(self.suspects.items()):
            pod = self.pods.get(name)
            # One of another pod of the name goes with that pod, and is not this one's to wait for.
            if pod is None or pod.node or pod.uid != uid:
                del self.suspects[key]
            elif pod.key not in self.clearing and is_waiting(pod):
                found.append((key, pod))
        return found


def _reverse(name: str) -> tuple[int, ...]:
    return (*(-ord(it) for it in name), 1)


# -- claims for shares of GPUs ---------------------------------------------------------------------
# A template is made once for all pods of a namespace that ask for the same. Its content follows
# from its name and from the devices of the class; one with other content is somebody else's, and
# stays.

_MIB: Final = 1 << 20


class ShareClaims:
    """Pods whose shares are claims, and the templates of these."""

    def __init__(self, device_class: str, devices: SharedDevices) -> None:
        """Know no pod; an empty class means that shares are no claims here."""
        self.device_class = device_class
        self._devices = devices
        self._templates: dict[str, ResourceClaimTemplate] = {}
        self._users: dict[str, dict[str, PodRow]] = {}
        """By template, there or not, the pods."""
        self._template_of: dict[str, str] = {}

    # -- objects and pods ------------------------------------------------------------------------

    def update(self, template: ResourceClaimTemplate, *, is_gone: bool = False) -> list[str]:
        """Take in a template that came or changed, or drop it; return the pods concerned."""
        if template.name.startswith(PREFIX):
            set_or_drop(self._templates, template.key, None if is_gone else template)
        return sorted(self._users.get(template.key, ()))

    def note(self, pod: PodRow) -> None:
        """Take in a pod that has not ended."""
        if pod.share is None:
            self.forget(pod.key)
            return
        key = f"{pod.namespace}/{pod.share.template}"
        if self._template_of.get(pod.key, key) != key:
            self.forget(pod.key)
        self._template_of[pod.key] = key
        self._users.setdefault(key, {})[pod.key] = pod

    def forget(self, pod: str) -> None:
        """Drop a pod."""
        key = self._template_of.pop(pod, None)
        if key is not None:
            users = self._users[key]
            del users[pod]
            if not users:
                del self._users[key]

    # -- what is told ----------------------------------------------------------------------------

    def why_unmade(self, pod: PodRow, label: str) -> str:
        """Return why a claim of a pod is not made from its template yet."""
        share = pod.share
        if share is None or label != CLAIM:
            return f"claim {label} is not made from its template yet"
        if why := self._why_unknown(share):
            return why
        template = self._templates.get(f"{pod.namespace}/{share.template}")
        if template is None:
            return f"template {share.template} of its claim {CLAIM} does not exist yet"
        if _is_other(template.spec.spec, self._spec(share)):
            return f"{_foreign(share)}: delete it, and it is made anew"
        return f"claim {CLAIM} is not made from its template yet"

    def check(self, pod: PodRow, label: str, claim: ResourceClaim) -> None:
        """Refuse a claim that asks for something else than the share of its pod.

        It was made from somebody else's template, which may be gone since.

        Raises:
            Waiting: it says why.

        """
        share = pod.share
        if share is None or label != CLAIM or pod.node or claim.status.allocation is not None:
            return
        sizes = self._devices.sizes(self.device_class, MEMORY)
        if not sizes:
            raise Waiting(self._why_unknown(share))
        # Where sizes differ, it may have been made while all devices had any one of them.
        specs = (claim_spec(share.share, self.device_class, it) for it in sizes)
        if not all(_is_other(claim.spec, it) for it in specs):
            return
        template = self._templates.get(f"{pod.namespace}/{share.template}")
        if template is None or _is_other(claim.spec, template.spec.spec):
            wrong = f"claim {claim.name} does not ask for what {share.asked} says"
            raise Waiting(f"{wrong}: make the pod anew")
        raise Waiting(f"{_foreign(share)}: delete it, and make the pod anew")

    def wanted(self, is_ours: Callable[[str], bool]) -> Iterable[ResourceClaimTemplate]:
        """Yield the missing templates that pods wait for, by name.

        Args:
            is_ours: tells whether a pod is one that is placed here.

        """
        for key in sorted(self._users.keys() - self._templates.keys()):
            for pod in self._users[key].values():
                if pod.share is None or pod.node or pod.fault or not is_ours(pod.key):
                    continue
                if any(it.label == CLAIM and not it.name for it in pod.device_claims):
                    if not self._why_unknown(pod.share):
                        spec = self._spec(pod.share)
                        yield template_for(pod.namespace, pod.share.template, spec)
                    break

    # -- what a share asks for -------------------------------------------------------------------

    def _why_unknown(self, share: ShareClaim) -> str:
        """Return why the request of a share is unknown, or an empty text."""
        sizes = sorted({it // _MIB for it in self._devices.sizes(self.device_class, MEMORY)})
        if not sizes:
            return (
                f"no device of class {self.device_class} can be shared by its {MEMORY}: no node has"
                f" one with allowMultipleAllocations and a capacity {MEMORY}"
            )
        if share.share.fraction and len(sizes) > 1:
            return (
                f"{share.asked}: devices of class {self.device_class} have from"
                f" {sizes[0]} to {sizes[-1]} MiB, so a fraction is no one amount;"
                " ask for gpu-memory"
            )
        return ""

    def _spec(self, share: ShareClaim) -> ResourceClaimSpec:
        least = min(self._devices.sizes(self.device_class, MEMORY))
        return claim_spec(share.share, self.device_class, least)


def _is_other(has: ResourceClaimSpec, wanted: ResourceClaimSpec) -> bool:
    """Tell whether a claim asks for something else: amounts may be written in other units."""
    try:
        return claim_of(has) != claim_of(wanted)
    except ClaimError:
        return True


def _foreign(share: ShareClaim) -> str:
    template = f"template {share.template} of its claim {CLAIM}"
    return f"{template} does not ask for what {share.asked} says"
