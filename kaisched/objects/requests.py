"""Requests of pods and capacities of nodes, in base units by resource name.

Names: ``cpu`` (milli-CPU), ``memory`` (64 bytes), ``gpu`` (milli-GPU, the whole-GPU names of all
vendors added up), ``pods``, and every other resource under its own name, in pieces (64 bytes for
``ephemeral-storage`` and huge pages). Requests round up container by container, capacities down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kaisched.errors import ObjectError, join_path
from kaisched.objects.gpus import claim_fault, share_claim_of, share_of
from kaisched.objects.node import Node
from kaisched.objects.pod import Container, ContainerStatus, Pod, PodStatus, Resources
from kaisched.objects.shard import GPU_RESOURCES
from kaisched.objects.wire import Amount, Amounts
from kaisched.units import MAX_AMOUNT, MIG_PREFIX, UnitError, base_units, mig_slices

# -- extended resources, container by container ----------------------------------------------------

IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
"""A resource with this prefix is backed by the class that the rest names."""
_NATIVE: Final = "kubernetes.io"


class ResourceAsk(NamedTuple):
    """What one container asks for of one extended resource."""

    container: str
    at: int
    """Position of the container: init containers come first."""
    is_passing: bool
    """An init container that ends before the next container starts."""
    position: int
    """Position of the resource among the container's requests, sorted by name."""
    resource: str
    counted_as: str
    """Under which name the pod's request has it."""
    number: int


def resource_asks(pod: Pod, gpu_resources: Sequence[str]) -> tuple[ResourceAsk, ...]:
    """Return what containers ask for of extended resources; amounts that are none are left out."""
    spec = pod.spec
    inits = len(spec.init_containers)
    found = [
        ask
        for at, container in enumerate((*spec.init_containers, *spec.containers))
        for ask in _asks_of(
            container, at, gpu_resources, is_passing=at < inits and not _stays(container)
        )
    ]
    return _interned(tuple(found))


def _stays(container: Container) -> bool:
    return container.restart_policy == "Always"


def _asks_of(
    container: Container, at: int, gpus: Sequence[str], *, is_passing: bool
) -> list[ResourceAsk]:
    resources = container.resources
    amounts = {**resources.limits, **resources.requests}
    found = []
    for position, name in enumerate(sorted(amounts)):
        if not is_extended(name):
            continue
        try:
            number = base_units("pods", amounts[name], round_up=True)
        except UnitError:
            continue
        if number > 0:
            counted_as = "gpu" if name in gpus else name
            found.append(
                ResourceAsk(container.name, at, is_passing, position, name, counted_as, number)
            )
    return found


def is_extended(name: str) -> bool:
    """Tell whether a resource is one that nodes may be extended by, and none of Kubernetes' own."""
    domain, slash, _ = name.partition("/")
    if not slash or name.startswith(IMPLICIT):
        return bool(slash)
    return domain != _NATIVE and not domain.endswith(f".{_NATIVE}")


@lru_cache(maxsize=4096)
def _interned(asks: tuple[ResourceAsk, ...]) -> tuple[ResourceAsk, ...]:
    """Return one tuple for all pods that ask for the same."""
    return asks


# -- amounts ---------------------------------------------------------------------------------------

_WHOLE_GPU: Final = 1000
_DIGITS: Final = 3
"""A count of instances with more digits than this is no count."""

_Path = tuple[str | int, ...]
_Units = dict[str, int]


def pod_requests(pod: Pod, gpu_resources: Sequence[str] = GPU_RESOURCES) -> dict[str, int]:
    """Return base units by resource, without zeros, and 1 of ``pods``; saturate at MAX_AMOUNT.

    Kubernetes' rule is the larger of two amounts: the sum of the containers and sidecars, or the
    largest init container with the sidecars started before it. A request of the pod as a whole
    replaces this amount; then the overhead is added. A resource with a limit but no request uses
    its limit; of the pod as a whole only where no container has a request. Of a container whose
    status says what it has, that counts where it is more.

    Raises:
        ObjectError: an amount is invalid; with its path.

    """
    spec, status = pod.spec, pod.status
    granted = {it.name: it for it in (*status.init_container_statuses, *status.container_statuses)}
    is_refused = bool(granted or status.resources) and _is_resize_refused(status)

    def held(container: Container, path: _Path) -> _Units:
        asked = _of_resources(container.resources, (*path, "resources"), gpu_resources)
        if (said := granted.get(container.name)) is None:
            return asked
        return _with_granted(asked, said, gpu_resources, is_refused=is_refused)

    total: _Units = {}
    for at, container in enumerate(spec.containers):
        _add(total, held(container, ("spec", "containers", at)))
    sidecars: _Units = {}
    peak: _Units = {}
    for at, container in enumerate(spec.init_containers):
        asked = held(container, ("spec", "initContainers", at))
        if container.restart_policy == "Always":
            _add(total, asked)
            _add(sidecars, asked)
            asked = dict(sidecars)
        else:
            _add(asked, sidecars)
        _raise_to(peak, asked)
    _raise_to(total, peak)
    if (whole := spec.resources) is not None:
        path = ("spec", "resources")
        limits = _units(whole.limits, (*path, "limits"), gpu_resources)
        asked = {name: total.get(name, limit) for name, limit in limits.items()}
        asked.update(_units(whole.requests, (*path, "requests"), gpu_resources))
        has = _with_granted(dict(asked), status, gpu_resources, is_refused=is_refused)
        # Of every pod a kubelet says all that it has, with its overhead.
        total.update({name: has.get(name, 0) for name in asked})
    _add(total, _units(spec.overhead, ("spec", "overhead"), gpu_resources))
    total = {name: amount for name, amount in total.items() if amount}
    total["pods"] = 1
    return total


def node_allocatable(node: Node, gpu_resources: Sequence[str] = GPU_RESOURCES) -> dict[str, int]:
    """Return a node's allocatable base units by resource; resources not named are absent.

    Capacity is used for a node that does not report allocatable amounts.

    Raises:
        ObjectError: an amount is invalid, or is more than any machine has; with its path.

    """
    field = "allocatable" if node.status.allocatable else "capacity"
    amounts = node.status.allocatable or node.status.capacity
    units = _units(amounts, ("status", field), gpu_resources, round_up=False)
    for name, amount in units.items():
        if amount >= MAX_AMOUNT:
            raise ObjectError(
                f"more {name} than any machine has",
                path=join_path("status", field),
                fix="look at the device plugin or kubelet that reports it",
            )
    return units


def unsupported(
    pod: Pod,
    gpu_resources: Sequence[str] = GPU_RESOURCES,
    *,
    offers_shares: bool = False,
    has_share_claims: bool = False,
) -> str:
    """Return why the pod cannot be scheduled here at all, or an empty text.

    Pods may share GPUs only where what is decided about shares can be carried out: on cards
    (``offers_shares``), or as claims (``has_share_claims``). Whether claims on devices are
    allocated is for the store to say.
    """
    try:
        share = share_of(pod, gpu_resources, is_claim=has_share_claims)
        wanted = share_claim_of(pod, gpu_resources) if share and has_share_claims else None
    except ObjectError as error:
        return str(error)
    if wanted is not None and (fault := claim_fault(pod, wanted)):
        return fault
    if share is not None and wanted is None and not offers_shares:
        return (
            "this shard does not share GPUs: set spec.gpuSharing of the shard, or ask for"
            f" {gpu_resources[0]}"
        )
    return _mixed_fault(pod, gpu_resources) or _mig_fault(pod, gpu_resources)


def _mixed_fault(pod: Pod, gpu_resources: Sequence[str]) -> str:
    """Return why a pod may not ask for GPUs of several names, or an empty text.

    Nodes and pods count them as one amount: such a pod would be placed where one of them is.
    """
    spec = pod.spec
    parts = [it.resources for it in (*spec.init_containers, *spec.containers)]
    if spec.resources is not None:
        parts.append(spec.resources)
    asked = {
        name: None
        for part in parts
        for name, amount in {**part.limits, **part.requests}.items()
        if name in gpu_resources and str(amount) != "0"
    }
    if len(asked) < 2:  # noqa: PLR2004 - nearly every pod
        return ""
    names = " and ".join(sorted(asked, key=gpu_resources.index))
    return (
        f"{names}: a pod may ask for GPUs of one name; ask for the others in pods of their own,"
        " or take their names out of spec.gpuResources of the shard"
    )


def _mig_fault(pod: Pod, gpu_resources: Sequence[str]) -> str:
    """Return what is wrong with a request for MIG instances, or an empty text."""
    for key in pod.metadata.annotations:
        if mig_slices(key):
            return f"annotation {key}: MIG instances are resources; write it under a limit instead"
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for name in (*container.resources.requests, *container.resources.limits):
            if name.startswith(MIG_PREFIX) and name not in gpu_resources and not mig_slices(name):
                return f"resource {name}: no MIG profile; write one such as {MIG_PREFIX}1g.10gb"
    return ""


def legacy_mig_slices(pod: Pod) -> int:
    """Return the MIG slices that a pod takes by annotation, as old versions of Run:ai did."""
    slices = 0
    for key, text in pod.metadata.annotations.items():
        if each := mig_slices(key):
            slices += each * int(text if text.isdecimal() and len(text) <= _DIGITS else 1)
    return slices


_RESIZABLE: Final = ("cpu", "memory")
INFEASIBLE: Final = "Infeasible"
"""What a pod says of a resize that its node refuses."""


def _is_resize_refused(status: PodStatus) -> bool:
    """Tell whether the kubelet has refused a resize, so that what the spec asks for never comes."""
    return status.resize == INFEASIBLE or any(
        it.type == "PodResizePending" and it.reason == INFEASIBLE for it in status.conditions
    )


def _with_granted(
    asked: _Units, status: ContainerStatus | PodStatus, gpus: Sequence[str], *, is_refused: bool
) -> _Units:
    """Return the larger of what is asked, allocated and actual; not asked where that is refused."""
    granted: _Units = {}
    actual = {} if status.resources is None else status.resources.requests
    for name, amounts in (
        ("allocatedResources", status.allocated_resources),
        ("resources", actual),
    ):
        _raise_to(granted, _units(amounts, ("status", name), gpus))
    if is_refused and (granted or status.resources is not None):
        asked = {name: amount for name, amount in asked.items() if name not in _RESIZABLE}
    _raise_to(asked, granted)
    return asked


def _of_resources(resources: Resources, path: _Path, gpus: Sequence[str]) -> _Units:
    requests, limits = resources.requests, resources.limits
    units = _units(requests, (*path, "requests"), gpus)
    if limits:
        rest = {name: amount for name, amount in limits.items() if name not in requests}
        _add(units, _units(rest, (*path, "limits"), gpus))
    return units


def _units(amounts: Amounts, path: _Path, gpus: Sequence[str], *, round_up: bool = True) -> _Units:
    units: _Units = {}
    for name, amount in amounts.items():
        try:
            if name in gpus:
                units["gpu"] = min(units.get("gpu", 0) + _whole_gpus(amount, round_up), MAX_AMOUNT)
            else:
                # A resource that happens to be called "gpu" is not our GPU count.
                units[name] = base_units(name if name != "gpu" else "", amount, round_up)
        except UnitError as error:
            raise ObjectError(
                str(error), path=join_path(*path, name), value=amount, fix=error.fix
            ) from None
    return units


def _whole_gpus(amount: Amount, round_up: bool) -> int:
    milli = base_units("gpu", amount, round_up)
    if milli % _WHOLE_GPU and milli < MAX_AMOUNT:
        fix = "write 1 or more; a part is asked for by the annotation gpu-fraction"
        raise UnitError("GPUs are asked for whole", fix)
    return milli


def _add(total: _Units, more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = min(total.get(name, 0) + amount, MAX_AMOUNT)


def _raise_to(total: _Units, floor: Mapping[str, int]) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, 0):
            total[name] = amount
