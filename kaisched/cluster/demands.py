"""What a pod demands of its node besides room: its :class:`~kaisched.core.constraints.Constraints`.

In one canonical form, so that pods that demand the same share a shape however they are written.
Wishes (preferred affinities) are not read; what volumes demand is added where claims are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kaisched.cluster.ours import Ours
from kaisched.core.constraints import Constraints, NodeTerm, PodTerm, Requirement, Toleration
from kaisched.core.devices import DeviceDemand
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.gpus import share_of
from kaisched.objects.pod import (
    Affinity,
    LabelSelector,
    NodeSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    SelectorRequirement,
)
from kaisched.objects.queue import NodeLabelRequirement
from kaisched.objects.requests import legacy_mig_slices
from kaisched.objects.wire import MOST_LABELS

_MOST_REQUIREMENTS: Final = 1_000
"""On nodes, or pods to be near to or away from: more of one pod are not judged."""
_MOST_VALUES: Final = 20_000
"""In all requirements on nodes together: there may be a list of the nodes' names."""


def has_pod_terms(pod: Pod) -> bool:
    """Tell whether the pod must be near to, or away from, other pods."""
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    kinds = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(kind is not None and kind.required for kind in kinds)


def unsupported_demand(pod: Pod) -> str:
    """Return why the demands cannot be judged here, or an empty text."""
    if len(pod.metadata.labels) > MOST_LABELS:
        return f"metadata.labels: there are more than {MOST_LABELS:,}; remove some"
    affinity = pod.spec.affinity
    if affinity is not None and (excess := _excess(affinity)):
        return f"spec.affinity: {excess}; ask for less"
    for kind in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
        for term in kind.required if kind else ():
            if term.namespace_selector is not None and not _is_empty(term.namespace_selector):
                return "namespaceSelector: labels of namespaces are not read; list namespaces"
    return ""


def _excess(affinity: Affinity) -> str:
    """Return what is too much to be judged, or an empty text."""
    near, away = affinity.pod_affinity, affinity.pod_anti_affinity
    terms = sum(len(kind.required) for kind in (near, away) if kind is not None)
    if terms > _MOST_REQUIREMENTS:
        return f"{terms:,} terms on pods are more than {_MOST_REQUIREMENTS:,}"
    required = affinity.node_affinity.required if affinity.node_affinity else None
    wanted = [
        one
        for term in (required.node_selector_terms if required else ())
        for one in (*term.match_expressions, *term.match_fields)
    ]
    if len(wanted) > _MOST_REQUIREMENTS:
        return f"{len(wanted):,} requirements on nodes are more than {_MOST_REQUIREMENTS:,}"
    values = sum(len(one.values) for one in wanted)
    if values > _MOST_VALUES:
        return f"{values:,} values in requirements on nodes are more than {_MOST_VALUES:,}"
    return ""


def constraints_of(pod: Pod, ours: Ours) -> Constraints:
    """Return what decides where the pod may go; the number of its label set is the store's.

    Demands that are too many to be judged are left out: such a pod is not scheduled.
    """
    spec = pod.spec
    affinity = spec.affinity
    if affinity is not None and _excess(affinity):
        affinity = None
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required if node_affinity else None
    namespace = pod.metadata.namespace
    return Constraints(
        node_selector=tuple(sorted(spec.node_selector.items())),
        flavor_keys=labels.flavor_keys_of(pod.metadata),
        node_terms=None if required is None else node_terms(required),
        tolerations=_tolerations(spec),
        host_ports=_host_ports(spec),
        pod_affinity=_pod_terms(affinity.pod_affinity if affinity else None, namespace),
        pod_anti_affinity=_pod_terms(affinity.pod_anti_affinity if affinity else None, namespace),
        devices=_devices(pod, ours),
    )


def _devices(pod: Pod, ours: Ours) -> DeviceDemand | None:
    """Return what a pod asks of GPUs by annotation; None for nearly every pod."""
    if slices := legacy_mig_slices(pod):
        return DeviceDemand(legacy_slices=slices)
    if not ours.offers_shares:
        return None
    if labels.is_reservation(pod.metadata):
        return DeviceDemand(is_reservation=True)
    try:
        share = share_of(pod, ours.gpu_resources)
    except ObjectError:
        return None  # its job is refused
    return share and DeviceDemand(share.fraction, share.memory_mib, share.cards)


def claims_of(pod: Pod) -> tuple[tuple[str, bool], ...]:
    """Return the claims of storage that a pod uses: (name, whether it is made for this pod).

    Several volumes of a pod may be of one claim.
    """
    found = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found.append((volume.persistent_volume_claim.claim_name, False))
        elif volume.ephemeral is not None:
            found.append((f"{pod.name}-{volume.name}", True))
    return tuple(dict.fromkeys(found))


class DeviceClaimRef(NamedTuple):
    """How a pod names a claim on devices."""

    label: str
    """What the pod calls it."""
    name: str
    """Of the claim; empty as long as none is made from the template."""
    is_own: bool
    """It is made from a template, for this pod alone."""
    is_needed: bool = True
    unless_plugin: bool = False
    """Needed only on nodes that do not offer by a device plugin what it is for."""


def device_claims_of(pod: Pod) -> tuple[DeviceClaimRef, ...]:
    """Return the claims on devices that a pod uses, in its own order; each of them once."""
    made = {it.name: it.resource_claim_name for it in pod.status.resource_claim_statuses}
    refs = (
        DeviceClaimRef(it.name, it.resource_claim_name, is_own=False)
        if it.resource_claim_name
        else DeviceClaimRef(
            it.name,
            made.get(it.name, ""),
            is_own=True,
            is_needed=made.get(it.name) != "",
        )
        for it in pod.spec.resource_claims
    )
    found: dict[tuple[str, str], DeviceClaimRef] = {}
    for ref in refs:
        found.setdefault((ref.name, "" if ref.name else ref.label), ref)
    return tuple(found.values())


def node_terms(selector: NodeSelector) -> tuple[NodeTerm, ...]:
    """Return the terms of a selector of which one must hold, in one canonical form."""
    terms = {
        (_requirements(term.match_expressions), _requirements(term.match_fields))
        for term in selector.node_selector_terms
    }
    # A term without requirements matches no node, so it is as good as absent.
    return tuple(sorted((term for term in terms if term[0] or term[1]), key=repr))


def terms_of(terms: Iterable[Iterable[NodeLabelRequirement]]) -> tuple[NodeTerm, ...]:
    """Return terms of a queue of which one must hold, in one canonical form."""
    return tuple(sorted({(_requirements(term), ()) for term in terms}, key=repr))


def _requirements(
    expressions: Iterable[SelectorRequirement | NodeLabelRequirement],
) -> tuple[Requirement, ...]:
    found = {
        Requirement(one.key, one.operator, tuple(sorted(set(one.values)))) for one in expressions
    }
    return tuple(sorted(found, key=repr))


def _tolerations(spec: PodSpec) -> tuple[Toleration, ...]:
    found = {
        Toleration(one.key, one.operator or "Equal", one.value, one.effect)
        for one in spec.tolerations
    }
    return tuple(sorted(found, key=repr))


def _host_ports(spec: PodSpec) -> tuple[tuple[str, str, int], ...]:
    containers = [*spec.containers]
    containers += [one for one in spec.init_containers if one.restart_policy == "Always"]
    found = set()
    for container in containers:
        for port in container.ports:
            number = port.host_port or (port.container_port if spec.host_network else 0)
            if number:
                found.add((port.protocol or "TCP", port.host_ip or "0.0.0.0", number))  # noqa: S104
    return tuple(sorted(found))


def _pod_terms(affinity: PodAffinity | None, namespace: str) -> tuple[PodTerm, ...]:
    if affinity is None:
        return ()
    return tuple(sorted({_pod_term(term, namespace) for term in affinity.required}, key=repr))


def _pod_term(term: PodAffinityTerm, namespace: str) -> PodTerm:
    everywhere = term.namespace_selector is not None and _is_empty(term.namespace_selector)
    selector = term.label_selector
    return PodTerm(
        topology_key=term.topology_key,
        namespaces=tuple(sorted(set(term.namespaces))) or (namespace,),
        all_namespaces=everywhere,
        selector=() if selector is None else _selector(selector),
        match_none=selector is None,
    )


def _selector(selector: LabelSelector) -> tuple[Requirement, ...]:
    labels = {Requirement(key, "In", (value,)) for key, value in selector.match_labels.items()}
    return tuple(sorted(labels | set(_requirements(selector.match_expressions)), key=repr))


def _is_empty(selector: LabelSelector) -> bool:
    return not selector.match_labels and not selector.match_expressions
