"""Extended resources that containers ask for one by one, as far as device classes may back them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kaisched.objects.pod import Container, Pod
from kaisched.units import UnitError, base_units

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
        for ask in _of_container(
            container, at, gpu_resources, is_passing=at < inits and not _stays(container)
        )
    ]
    return _interned(tuple(found))


def _stays(container: Container) -> bool:
    return container.restart_policy == "Always"


def _of_container(
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
