"""Checks of what shares of GPUs need that are claims: a class, devices to share, and a policy."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from kaisched.cluster.claims.device_claims import Offered
from kaisched.cluster.kubernetes.resources import DEVICES, list_cluster
from kaisched.daemon.doctor.finding import Finding
from kaisched.objects.devices import DeviceClass, ResourceSlice
from kaisched.objects.gpus import MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.daemon.doctor.finding import Visit

_CHECK: Final = "share claims"
_MIB: Final = 1 << 20
_BINDING: Final = (
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/kaisched-share-claims"
)
_NO_DEVICES: Final = (
    "let the driver offer devices that several claims may have (with NVIDIA's, the feature gate"
    " ConsumableShares), and switch DRAConsumableCapacity on where Kubernetes is older than 1.36"
)
_NO_POLICY: Final = (
    "helm upgrade --reuse-values --set gpuClaims.create=true, or with kustomize add"
    " components/gpu-claims; or write the claim into every such pod"
)


def share_claims(visit: Visit) -> Iterator[Finding]:
    """Say what keeps shares that are claims from starting; nothing where no shard has such."""
    wanted = {one.shard.share_class: one.shard.name for one in visit.shards}
    wanted.pop("", None)
    is_served = visit.served is not None and all(map(visit.served.has, DEVICES))
    if not wanted or not is_served:
        return  # the check of claims says that nothing is served
    offered = Offered()
    for obj in list_cluster(visit.client, DEVICES[:2]).objects:
        if isinstance(obj, DeviceClass | ResourceSlice):
            offered.put(obj)
    offered.count(set)
    for name, shard in sorted(wanted.items()):
        yield _class(offered, name, shard)
    yield from _policy(visit)


def _class(offered: Offered, name: str, shard: str) -> Finding:
    """Say whether pods may share devices of a class."""
    if name not in offered.gpus.classes:
        text = f"device class {name} of shard {shard} does not exist: pods with a share wait"
        return Finding(_CHECK, "warn", text, "install the driver, or name its class in the shard")
    sizes = sorted({size // _MIB for size in offered.gpus.shared.sizes(name, MEMORY)})
    if not sizes:
        text = f"no device of class {name} can be shared by its {MEMORY}: pods with a share wait"
        return Finding(_CHECK, "warn", text, _NO_DEVICES)
    if len(sizes) > 1:
        text = f"devices of class {name} have from {sizes[0]} to {sizes[-1]} MiB: pods with"
        text += " gpu-fraction wait"
        return Finding(_CHECK, "warn", text, "ask for gpu-memory, or make a class for each size")
    return Finding(_CHECK, "ok", f"pods may share devices of class {name}, of {sizes[0]} MiB each")


def _policy(visit: Visit) -> Iterator[Finding]:
    """Look for the policy that writes the claim into pods."""
    answer = visit.client.call("GET", _BINDING)
    if answer.is_done:
        yield Finding(_CHECK, "ok", "a policy writes the claim into pods with a share")
    elif answer.code == HTTPStatus.NOT_FOUND:
        text = "no policy writes the claim into pods with a share: those that do not name it wait"
        yield Finding(_CHECK, "warn", text, _NO_POLICY)
    else:
        text = f"whether a policy writes the claim into pods is not known: {answer.text()}"
        fix = "run the doctor as a user who may get mutatingadmissionpolicybindings"
        yield Finding(_CHECK, "warn", text, fix)
