"""Shares of GPUs: what pods ask for, and the claims, reservation pods and ConfigMaps behind it.

A pod asks for a fraction (``gpu-fraction: "0.5"``) or for memory in MiB (``gpu-memory: "4096"``),
of one GPU, or of several (``gpu-fraction-num-devices: "2"``), by KAI-Scheduler's rules. A label of
the same name counts if there is no annotation. Names, labels and annotations of what is written are
KAI-Scheduler's, so that either scheduler goes on with what the other has left.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.devices import (
    CapacityRequirements,
    CelSelector,
    ClaimTemplateSpec,
    DeviceClaim,
    DeviceRequest,
    DeviceSelector,
    ExactRequest,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kaisched.objects.labels import GPU_GROUP, LABEL_VALUE, RESERVATION, is_reservation
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.wire import Amount, ObjectMeta
from kaisched.units import MIG_PREFIX, UnitError, count

if TYPE_CHECKING:
    from kaisched.objects.shard import GpuSharing


# -- what a pod asks for ---------------------------------------------------------------------------

SHARE_CLAIM: Final = "gpu-share"
"""What a pod calls the claim that is its share."""
SHARE_IS_NO_CLAIM: Final = (
    "a share of a GPU does not go with resourceClaims where the shard names no devices for shares"
)

_NUMBER: Final = re.compile(
    r"\+?(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(?:[eE][+-]?[0-9]{1,2})?", re.ASCII
)
"""What is both a float and a Kubernetes quantity: no suffix, no hexadecimal digits."""
_WHOLE: Final = re.compile(r"\+?[0-9]{1,9}", re.ASCII)
_MILLIONTHS: Final = 1_000_000
_MPS: Final = "mps"
_MOST_CARDS: Final = 1000
"""No machine has more."""
_KEYS: Final = (labels.GPU_FRACTION, labels.GPU_MEMORY, labels.GPU_FRACTION_DEVICES)


class Share(NamedTuple):
    """A part of each of several cards; either a fraction or an amount of memory."""

    fraction: int
    """Millionths of a card, rounded up; 0 for memory."""
    memory_mib: int
    """MiB of a card; 0 for a fraction."""
    cards: int


def share_of(
    pod: Pod, gpu_resources: Sequence[str] = GPU_RESOURCES, *, is_claim: bool = False
) -> Share | None:
    """Return the part of a GPU that a pod asks for; None for nearly every pod.

    Args:
        pod: the pod.
        gpu_resources: names that count as whole GPUs.
        is_claim: whether the share is one of the pod's claims, which then may have others too.

    Raises:
        ObjectError: the annotations are invalid, or do not go together with others or with
            requests of the pod.

    """
    fraction, memory, cards = (asked_text(pod, key) for key in _KEYS)
    if fraction is None and memory is None:
        if cards is not None:
            raise _fault(
                pod,
                labels.GPU_FRACTION_DEVICES,
                "a number of cards goes with a share of each",
                f"add {labels.GPU_FRACTION} or {labels.GPU_MEMORY}, or leave out one",
            )
        if pod.metadata.annotations.get(_MPS) == "true":
            raise _fault(pod, _MPS, "MPS goes with a share", f"add {labels.GPU_FRACTION}")
        return None
    if fraction is not None and memory is not None:
        what = f"memory and {labels.GPU_FRACTION} are two ways to say the same"
        raise _fault(pod, labels.GPU_MEMORY, what, "keep one of them")
    key = labels.GPU_MEMORY if fraction is None else labels.GPU_FRACTION
    _check_rest(pod, key, gpu_resources, is_claim=is_claim)
    count = 1 if cards is None else _whole(pod, labels.GPU_FRACTION_DEVICES, cards)
    if count > _MOST_CARDS:
        what = f"no node has more than {_MOST_CARDS:,} GPUs"
        raise _fault(pod, labels.GPU_FRACTION_DEVICES, what, "ask for fewer")
    if fraction is not None:
        return Share(_fraction(pod, fraction), 0, count)
    return Share(0, _whole(pod, labels.GPU_MEMORY, memory or ""), count)


def named_container(pod: Pod) -> str | None:
    """Return the name of the container that has the share; None for the first."""
    return asked_text(pod, labels.GPU_FRACTION_CONTAINER)


def asked_text(pod: Pod, key: str) -> str | None:
    """Return what a pod says for a key: its annotation, or else its label."""
    found = pod.metadata.annotations.get(key)
    return pod.metadata.labels.get(key) if found is None else found


def _check_rest(pod: Pod, key: str, gpu_resources: Sequence[str], *, is_claim: bool) -> None:
    """Check that a pod with a share asks for no GPU in another way."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    for container in containers:
        for name in (*container.resources.limits, *container.resources.requests):
            if name in gpu_resources or name.startswith(MIG_PREFIX):
                what = f"a share of a GPU does not go with {name} in container {container.name}"
                raise _fault(pod, key, what, f"leave out {name}, or the share")
    if pod.spec.resource_claims and not is_claim:
        if any(claim.name == SHARE_CLAIM for claim in pod.spec.resource_claims):
            fix = (
                "set resourceClaims: true and gpuSharing.deviceClass in the shard, or leave out one"
            )
            raise _fault(pod, key, SHARE_IS_NO_CLAIM, fix)
        what = "a share of a GPU does not go with resourceClaims"
        raise _fault(pod, key, what, "leave out one of them")
    named = named_container(pod)
    if named is not None and named not in {container.name for container in containers}:
        what = "the pod has no such container"
        raise _fault(pod, labels.GPU_FRACTION_CONTAINER, what, "name one of its containers")


def _fraction(pod: Pod, text: str) -> int:
    """Return millionths of a card, rounded up."""
    if _NUMBER.fullmatch(text):
        number = Fraction(text)
        if 0 < number < 1:
            return -(-number.numerator * _MILLIONTHS // number.denominator)
    fix = f"write a number such as 0.5; for a whole GPU ask for {GPU_RESOURCES[0]}: 1"
    raise _fault(pod, labels.GPU_FRACTION, "a fraction is above 0 and below 1", fix)


def _whole(pod: Pod, key: str, text: str) -> int:
    if _WHOLE.fullmatch(text) and int(text):
        return int(text)
    is_memory = key == labels.GPU_MEMORY
    fix = "write MiB without a suffix, such as 4096" if is_memory else "write 1 or more"
    raise _fault(pod, key, "the number is whole and above 0", fix)


def _fault(pod: Pod, key: str, what: str, fix: str) -> ObjectError:
    field = "annotations" if key in pod.metadata.annotations else "labels"
    return ObjectError(
        what, path=join_path("metadata", field, key), value=asked_text(pod, key), fix=fix
    )


# -- which groups of cards count -------------------------------------------------------------------


class Groups(NamedTuple):
    """The groups of cards that count for a pod, and what is amiss with those that it names."""

    names: tuple[str, ...] = ()
    fault: str = ""


def groups_of(pod: Pod, gpu_resources: Sequence[str], *, may_share: bool) -> Groups:
    """Return the groups of cards that a pod on a node uses.

    Anybody who may make pods may write any names on them. So they count only on a pod with a valid
    request for a share, and no more than the GPUs it asks for. What else it asks for does not
    matter: another scheduler may have bound it.

    Args:
        pod: the pod.
        gpu_resources: names that count as whole GPUs.
        may_share: whether this scheduler or KAI-Scheduler binds the pod.

    """
    named = labels.gpu_groups_of(pod.metadata)
    if not named or is_reservation(pod.metadata):
        return Groups(named[:1])
    if not may_share:
        what = f"no GPU was given to a pod of scheduler {pod.spec.scheduler_name}"
        return Groups((), _groups_fault(pod, named, what))
    try:
        share = share_of(pod, gpu_resources, is_claim=True)
    except ObjectError:
        share = None
    if share is None:
        what = "no GPU was given to a pod without a valid request for a share"
        return Groups((), _groups_fault(pod, named, what))
    valid = tuple(filter(LABEL_VALUE.fullmatch, named))
    if len(valid) < len(named):
        what = "groups that are no label values do not count"
        return Groups(valid[: share.cards], _groups_fault(pod, named, what))
    if len(named) > share.cards:
        counts = f"{share.cards} GPUs" if share.cards > 1 else "1 GPU"
        what = f"the pod asks for {counts}, more groups do not count"
        return Groups(named[: share.cards], _groups_fault(pod, named, what))
    return Groups(named)


def _groups_fault(pod: Pod, named: tuple[str, ...], what: str) -> str:
    is_noted = labels.GPU_GROUPS in pod.metadata.annotations
    field, key = ("annotations", labels.GPU_GROUPS) if is_noted else ("labels", GPU_GROUP)
    value = named[0] if len(named) == 1 else f"{len(named):,} groups"
    fix = "remove it: the scheduler writes it when it binds a pod"
    return str(ObjectError(what, path=join_path("metadata", field, key), value=value, fix=fix))


# -- shares that are claims ------------------------------------------------------------------------

CLAIM: Final = SHARE_CLAIM
PREFIX: Final = "kaisched-gpu-"
"""Begins the names of the templates of such claims."""
REQUEST: Final = "gpu"
"""The only request of such a claim."""
MEMORY: Final = "memory"
"""The capacity of a device of which a share gets a part."""
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_MAKER: Final = "kaisched"
_CAN_BE_SHARED: Final = "device.allowMultipleAllocations"
_MOST_DEVICES: Final = 32
_DIGITS: Final = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
"""The texts that may end the name of an object; the policy for new pods has the same expression."""
_MIB: Final = 1 << 20


def is_ours(name: str) -> bool:
    """Tell whether a claim or template is named so by a share alone, and by nobody."""
    kind, _, rest = name.removeprefix(PREFIX).partition("-")
    numbers = rest.split("-x")
    return name == CLAIM or (
        name.startswith(PREFIX)
        and kind in ("fraction", "memory")
        and all(_DIGITS.fullmatch(it) for it in numbers)
    )


class ShareClaim(NamedTuple):
    """A pod's share of GPUs, and the template of the claim that it is."""

    share: Share
    template: str
    """Name in the pod's namespace."""
    asked: str
    """As the pod says it, such as ``gpu-fraction: "0.5"``."""


def share_claim_of(pod: Pod, gpu_resources: Sequence[str]) -> ShareClaim | None:
    """Return the share of a pod that is to be a claim; None for a pod without.

    Raises:
        ObjectError: the pod does not make sense.

    """
    share = share_of(pod, gpu_resources, is_claim=True)
    if share is None:
        return None
    key = labels.GPU_FRACTION if share.fraction else labels.GPU_MEMORY
    text = asked_text(pod, key) or ""
    name = f"{PREFIX}{'fraction' if share.fraction else 'memory'}-{text}"
    if cards := asked_text(pod, labels.GPU_FRACTION_DEVICES):
        name += f"-x{cards}"
    return ShareClaim(share, name, f'{key}: "{text}"')


def claim_fault(pod: Pod, wanted: ShareClaim) -> str:
    """Return why a share can be no claim of its pod, or an empty text."""
    for key in (labels.GPU_FRACTION, labels.GPU_MEMORY, labels.GPU_FRACTION_DEVICES):
        text = asked_text(pod, key)
        if text is not None and not _DIGITS.fullmatch(text):
            return f"{key}: {text}: the share is a claim here; write plain digits, such as 0.5 or 2"
    if wanted.share.cards > _MOST_DEVICES:
        what = f"a claim has at most {_MOST_DEVICES} devices"
        return f"{labels.GPU_FRACTION_DEVICES}: {wanted.share.cards}: {what}; ask for fewer"
    named = next((it for it in pod.spec.resource_claims if it.name == CLAIM), None)
    if named is None:
        return (
            f"{wanted.asked}: a share is a claim here, and the pod names none: make it anew with"
            f" resourceClaims: [{{name: {CLAIM}, resourceClaimTemplateName: {wanted.template}}}]"
            f" and resources.claims: [{{name: {CLAIM}}}] in a container; the policy of gpuClaims"
            " writes both into new pods"
        )
    if named.resource_claim_template_name != wanted.template:
        has = named.resource_claim_template_name or named.resource_claim_name
        return (
            f"{wanted.asked}: its claim {CLAIM} comes from {has}; make the pod anew with"
            f" resourceClaimTemplateName: {wanted.template}, or without the share"
        )
    return ""


def claim_spec(share: Share, class_name: str, device_bytes: int) -> ResourceClaimSpec:
    """Return what the claim of a share asks for.

    A part of a MiB is left out, so that equal parts which make up a device have room on it.

    Args:
        share: of each of several devices.
        class_name: of the devices.
        device_bytes: how much memory each has; only a fraction rests on it.

    """
    mib = share.memory_mib or max(1, share.fraction * device_bytes // (_MILLIONTHS * _MIB))
    exactly = ExactRequest(
        device_class_name=class_name,
        selectors=[DeviceSelector(cel=CelSelector(expression=_CAN_BE_SHARED))],
        count=share.cards,
        capacity=CapacityRequirements(requests={MEMORY: f"{mib}Mi"}),
    )
    return ResourceClaimSpec(
        devices=DeviceClaim(requests=[DeviceRequest(name=REQUEST, exactly=exactly)])
    )


def template_for(namespace: str, name: str, spec: ResourceClaimSpec) -> ResourceClaimTemplate:
    """Return a template of claims, as it is made where it is missing."""
    meta = ObjectMeta(name=name, namespace=namespace, labels={MANAGED_BY: _MAKER})
    return ResourceClaimTemplate(metadata=meta, spec=ClaimTemplateSpec(spec=spec))


# -- reservation pods ------------------------------------------------------------------------------

UUID: Final = "run.ai/reserve_for_gpu_index"
"""Annotation in which the agent in a reservation pod tells the UUID of the GPU that it got."""
RENEWED: Final = "kaisched.io/renewed"
"""Annotation of a reservation pod that was made for pods which had lost theirs: it may have got
another GPU than they use."""
_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,62}")
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_NAME_BYTES: Final = 8


class Stage(Enum):
    """What a reservation pod is to its GPU."""

    HOLDS = auto()
    LEAVES = auto()
    """It is being deleted, and may hold the GPU still."""
    ENDED = auto()
    """It holds nothing."""


class Card(NamedTuple):
    """A shared GPU: the group of its pods, on a node."""

    node: str
    group: str


class Reservation(NamedTuple):
    """A reservation pod, as far as it counts."""

    key: str
    """``namespace/name``."""
    uid: str
    version: str
    """Its resource version: it is deleted only as it was when that was decided."""
    card: Card
    gpu: str
    """The UUID of its GPU; empty until the agent has told it."""
    stage: Stage
    is_renewed: bool
    why_ended: str
    """The reason that the kubelet gives for a pod that has ended."""


def reservation_name(card: Card) -> str:
    """Return the name of the reservation pod of a card: there is one, however often it is made."""
    digest = hashlib.sha256(f"{card.node}/{card.group}".encode()).digest()
    return f"gpu-reservation-{digest[:_NAME_BYTES].hex()}"


def reservation_of(pod: Pod) -> Reservation | None:
    """Return a pod as the reservation of a card; None if it is no such pod."""
    meta = pod.metadata
    group = meta.labels.get(GPU_GROUP, "")
    if not (is_reservation(meta) and group and pod.spec.node_name):
        return None
    stage = Stage.LEAVES if meta.deletion_timestamp else Stage.HOLDS
    if pod.status.phase in _ENDED:
        stage = Stage.ENDED
    return Reservation(
        pod.key,
        meta.uid,
        meta.resource_version,
        Card(pod.spec.node_name, group),
        gpu_of(meta.annotations.get(UUID, "")),
        stage,
        RENEWED in meta.annotations,
        (pod.status.reason or pod.status.phase) if stage is Stage.ENDED else "",
    )


def gpu_of(text: str) -> str:
    """Return the UUID that an agent has told; empty if it is none."""
    return text if _UUID.fullmatch(text) else ""


def reservation_pod(
    card: Card, sharing: GpuSharing, resource: str, *, is_renewed: bool = False
) -> dict[str, Any]:
    """Return the reservation pod of a card, to be created; it asks for one of a GPU resource."""
    by_field = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    env = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in by_field.items()
    ]
    notes = {"karpenter.sh/do-not-disrupt": "true"} | ({RENEWED: "true"} if is_renewed else {})
    one = {resource: "1"}
    spec: dict[str, Any] = {
        "nodeName": card.node,
        "serviceAccountName": RESERVATION,
        # The GPU is in use for as long as pods run on it, whatever taints their node gets.
        "tolerations": [{"operator": "Exists"}],
        "containers": [
            {
                "name": "resource-reservation",
                "image": sharing.image,
                "env": env,
                "resources": {"requests": one, "limits": one},
            }
        ],
    }
    if sharing.runtime_class:
        spec["runtimeClassName"] = sharing.runtime_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": reservation_name(card),
            "namespace": RESERVATION,
            "labels": {"app": RESERVATION, GPU_GROUP: card.group},
            "annotations": notes,
        },
        "spec": spec,
    }


# -- ConfigMaps in which pods look up their GPU ----------------------------------------------------

VISIBLE: Final = "NVIDIA_VISIBLE_DEVICES"
PORTION: Final = "GPU_PORTION"
OLD_PORTION: Final = "RUNAI_NUM_OF_GPUS"
"""What the portion was called before; the webhook still asks for it."""
LIMIT: Final = "CUDA_DEVICE_MEMORY_LIMIT"
"""What HAMi-core enforces, if it is there."""
_AS_ENVIRONMENT: Final = "-evar"
_CDI: Final = "k8s.device-plugin.nvidia.com/gpu="
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST: Final = 253


class Told(NamedTuple):
    """What a container is told of its share."""

    portion: str
    """Of each GPU, as a decimal number; empty if it asked for memory and the size is not known."""
    limit_mib: int | None
    """MiB of each GPU; None if it is not known how much one has."""


def lookup_of(pod: Pod) -> str:
    """Return the name of the ConfigMap of which the container with the share reads keys.

    Empty for a pod that the webhook has not changed.

    Raises:
        ObjectError: the prefix makes no name of a ConfigMap.

    """
    prefix = pod.metadata.annotations.get(labels.GPU_CONFIG_MAP)
    if prefix is None:
        return ""
    name = f"{prefix}-{_place(pod)}"
    if not _NAME.fullmatch(name) or len(name) + len(_AS_ENVIRONMENT) > _MOST:
        raise ObjectError(
            "it makes no name of a ConfigMap",
            path=join_path("metadata", "annotations", labels.GPU_CONFIG_MAP),
            value=prefix,
            fix="make the pod anew, and leave the annotation to KAI-Scheduler's webhook",
        )
    return name


def _place(pod: Pod) -> str:
    """Return which container has the share: init containers are looked through first."""
    wanted = named_container(pod)
    if wanted is not None:
        for prefix, containers in (("i", pod.spec.init_containers), ("", pod.spec.containers)):
            for at, container in enumerate(containers):
                if container.name == wanted:
                    return f"{prefix}{at}"
    return "0"


def lookups(
    name: str, gpus: Sequence[str], told: Told, *, has_cdi_names: bool
) -> dict[str, dict[str, str]]:
    """Return the data of both ConfigMaps of a pod, by name.

    Both say which GPUs it has: a container without a variable for it has it from its environment.
    """
    visible = ",".join(f"{_CDI}{gpu}" if has_cdi_names else gpu for gpu in gpus)
    keys = {VISIBLE: visible, PORTION: told.portion, OLD_PORTION: told.portion}
    if told.limit_mib:  # 0 would mean no limit
        keys[LIMIT] = f"{told.limit_mib}m"
    return {name: keys, f"{name}{_AS_ENVIRONMENT}": {VISIBLE: visible}}


def config_map(
    key: str, data: Mapping[str, str], notes: Mapping[str, str], pod: str, uid: str
) -> dict[str, Any]:
    """Return a ConfigMap that belongs to a pod and goes with it, to be created."""
    namespace, _, name = key.partition("/")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.partition("/")[2], "uid": uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {**notes},
            "ownerReferences": [owner],
        },
        "data": {**data},
    }


# -- what labels of nodes say ----------------------------------------------------------------------

_MEMORY: Final = "nvidia.com/gpu.memory"
_COUNT: Final = "nvidia.com/gpu.count"
_REPLICAS: Final = "nvidia.com/gpu.replicas"
_MIG_STRATEGY: Final = "nvidia.com/mig.strategy"
_MIG_PRODUCT: Final = "-MIG-"
_PRODUCT: Final = "nvidia.com/gpu.product"
_IN_BYTES: Final = 1 << 20
"""No GPU has so many MiB: such a number is in bytes."""
_MOST_DIGITS: Final = 18


def card_mib_of(node: Node) -> int:
    """Return the MiB of each GPU of a node, 0 where no label says."""
    number = _number(node, _MEMORY)
    return number >> 20 if number >= _IN_BYTES else number


def can_share(node: Node, gpu_resources: Sequence[str]) -> bool:
    """Tell whether what a node offers as GPUs are whole cards, of which pods may have parts.

    With time slicing a GPU is offered several times, and with MIG in the strategy ``single``
    instances are offered as GPUs. No machine has a thousand cards.
    """
    labels = node.metadata.labels
    if _number(node, _REPLICAS) > 1:
        return False
    if labels.get(_MIG_STRATEGY) == "single" and _MIG_PRODUCT in labels.get(_PRODUCT, ""):
        return False
    amounts = node.status.allocatable or node.status.capacity
    offered = sum(_offered(it) for name, it in amounts.items() if name in gpu_resources)
    return offered <= min(_number(node, _COUNT) or _MOST_CARDS, _MOST_CARDS)


def _offered(amount: Amount) -> int:
    try:
        return count(amount, round_up=False)
    except UnitError:
        return 0  # then the node is left out, and says why


def _number(node: Node, key: str) -> int:
    text = node.metadata.labels.get(key, "")
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else 0
