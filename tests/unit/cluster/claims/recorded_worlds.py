"""Replays small clusters in which the scheduler of Kubernetes 1.36 has placed pods in turns.

Each case has nodes, slices, classes and templates, and steps: a pod with the node that it got,
empty where it stayed pending and was deleted, and the claims that were made for it; or the deletion
of a pod. The node may be another here, as scores differ; so it is given, and compared is whether
there is room, whether a claim is needed there, and all that stands in it. UUIDs of shares are
written as ``*``.
"""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kaisched.cluster.claims.conversion import claim_of
from kaisched.objects.devices import ResourceClaim, ResourceClaimSpec
from tests.unit.cluster.claims.worlds import World

HOST = "kubernetes.io/hostname"


class Given(NamedTuple):
    """What became of a pod: its node, its claims, and which request each container has."""

    node: str
    claims: list[tuple[Any, dict[str, Any]]]
    mappings: list[dict[str, str]]


def recorded(file: str) -> list[dict[str, Any]]:
    """Return the cases of a file beside this one."""
    cases: list[dict[str, Any]] = json.loads(
        gzip.decompress(Path(__file__).with_name(file).read_bytes())
    )
    return cases


def pods_of(cases: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps of cases in which a pod comes."""
    return [it for case in cases for it in case["steps"] if "pod" in it]


def is_same(case: Mapping[str, Any], share_class: str = "") -> bool:
    """Tell whether all pods of a case get here what they got there."""
    world = _world(case, share_class)
    return all(ours == theirs for ours, theirs in _replayed(world, case["steps"]))


def is_same_at_once(case: Mapping[str, Any], share_class: str = "") -> bool:
    """Tell whether pods that come together, and of which none goes, get the same."""
    world = _world(case, share_class)
    for step in case["steps"]:
        _put_pod(world, step)
    world.cycle()
    ours = {(it.name, user.name): it for it in world.claims() for user in it.status.reserved_for}
    theirs: dict[str, dict[str, Any]] = {it["pod"]["metadata"]["name"]: it for it in case["steps"]}
    return world.nodes == {name: it["node"] for name, it in theirs.items()} and all(
        [_given(claim) for (_, user), claim in ours.items() if user == name]
        == [claim["allocation"] for claim in it["claims"]]
        for name, it in theirs.items()
    )


def without_deletions(cases: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the cases in which pods come only."""
    return [it for it in cases if not any("delete" in step for step in it["steps"])]


def _world(case: Mapping[str, Any], share_class: str) -> World:
    world = World(share_class, team=99)
    ready = [{"type": "Ready", "status": "True"}]
    for it in case["nodes"]:
        status = {"allocatable": it["amounts"], "conditions": ready}
        world.put("Node", it["name"], metadata={"labels": it["labels"]}, status=status)
    for kind, plural in (("DeviceClass", "classes"), ("ResourceSlice", "slices")):
        for it in case[plural]:
            world.put(kind, it["metadata"]["name"], metadata=it["metadata"], spec=it["spec"])
    if not share_class:  # else we make them ourselves
        for it in case["templates"]:
            world.put("ResourceClaimTemplate", it["metadata"]["name"], "team", spec=it["spec"])
    return world


def _replayed(world: World, steps: list[dict[str, Any]]) -> Iterator[tuple[Given, Given]]:
    """Yield what each pod got here and there."""
    for step in steps:
        if "delete" in step:
            if step["delete"] in world.nodes:
                world.delete(step["delete"])
            continue
        name, node = step["pod"]["metadata"]["name"], step["node"]
        _put_pod(world, step)
        world.cluster.snapshot()
        mappings = _mappings_of(world, name)
        world.cycle()
        claims = [it for it in world.claims() if name in {u.name for u in it.status.reserved_for}]
        listed = [(claim_of(it.spec), _given(it)) for it in claims]
        is_generated = any(it.metadata.annotations for it in claims)
        yield Given(world.nodes[name], listed, mappings if is_generated else []), _expected(step)
        if not node:
            world.delete(name)


def _put_pod(world: World, step: Mapping[str, Any]) -> None:
    """Add a pod; of those that got a node, for this node."""
    spec = {"schedulerName": "kaisched", **step["pod"]["spec"]}
    if step["node"]:
        spec["nodeSelector"] = {**spec["nodeSelector"], HOST: step["node"]}
    notes = step["pod"]["metadata"].get("annotations", {})
    meta = {"labels": {"kai.scheduler/queue": "team"}, "annotations": notes}
    world.put("Pod", step["pod"]["metadata"]["name"], "team", metadata=meta, spec=spec)


def _expected(step: Mapping[str, Any]) -> Given:
    claims = [
        (claim_of(msgspec.convert(it["spec"], ResourceClaimSpec)), it["allocation"])
        for it in step["claims"]
    ]
    return Given(step["node"], claims, [m for it in step["claims"] for m in it.get("mappings", ())])


def _mappings_of(world: World, pod: str) -> list[dict[str, str]]:
    """Return which request of the claim that is to be made each container is told."""
    unwritten = world.cluster.store.device_claims.generated.unwritten.items()
    return [
        {"containerName": it.container, "resourceName": it.resource, "requestName": it.request}
        for key, generated in unwritten
        if key.startswith(f"team/{pod}/")
        for it in generated.content.mappings
    ]


def _given(claim: ResourceClaim) -> dict[str, Any]:
    """Return the allocation of a claim as it is recorded."""
    plain: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(claim.status.allocation)))
    for it in plain["devices"]["results"]:
        if "shareID" in it:
            it["shareID"] = "*"
    return plain
