"""Requests for a part of a GPU, as annotations of a pod: read and judged by KAI-Scheduler's rules.

A pod asks for a fraction (``gpu-fraction: "0.5"``) or for memory in MiB (``gpu-memory: "4096"``),
of one card, or of several (``gpu-fraction-num-devices: "2"``). A label of the same name counts if
there is no annotation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.pod import Pod
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.units import MIG_PREFIX

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
