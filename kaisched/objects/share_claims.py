"""Shares of GPUs as claims: for drivers of devices that several claims may have parts of.

The claim of a pod stands in the pod from the start, as it can never be added: it is named
``gpu-share``, and made from a template whose name follows from the pod's annotations. So a policy
of the API server, which knows nothing of the cluster, can write it into the pod.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from kaisched.objects import labels
from kaisched.objects.gpu_shares import SHARE_CLAIM, Share, asked_text, share_of
from kaisched.objects.pod import Pod
from kaisched.objects.resource_claims import (
    ClaimTemplateSpec,
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kaisched.objects.resource_slices import CapacityRequirements, CelSelector, DeviceSelector
from kaisched.objects.wire import ObjectMeta

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
_MILLIONTHS: Final = 1_000_000


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
