"""Changes of a recording, to see what they would make of its cycle: objects come, change or go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from kaisched.cluster.state import as_json
from kaisched.cluster.store import owner_of
from kaisched.engine.policy import build_policy
from kaisched.engine.recording import plain_shard, recorded_owner
from kaisched.errors import ConfigError, ObjectError
from kaisched.objects.decode import BadObject, decode_object, type_of
from kaisched.objects.faults import Fault, Source, did_you_mean
from kaisched.objects.gangs import kind_of
from kaisched.objects.labels import format_time, pod_group_of
from kaisched.objects.load import identity_of
from kaisched.objects.node import Node
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue, QueueSpec
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.text import plain_scalar
from kaisched.objects.workloads import PartialObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kaisched.engine.recording import Recording
    from kaisched.objects.load import Manifest

KINDS: Final = {it.KIND.lower(): it.KIND for it in (Queue, Node, Pod, PodGroup)}
"""What a change may name, as ``kind/name``, with the kind of the object."""
SHARD: Final = "shard"
_STEP: Final = re.compile(r"""\.?(?:([^.\[\]=]+)|\[["']?([^\]"']+)["']?\])""")
_ROOTS: Final = ("metadata", "spec", "status")
_OF_QUEUE: Final = QueueSpec.__struct_encode_fields__


def with_objects(recording: Recording, objects: Sequence[Manifest]) -> Recording:
    """Return a recording to which objects were applied; new ones are made at its time.

    Raises:
        ObjectError: a pod is not for the scheduler of the recording.

    """
    made = format_time(recording.now_s)
    there = dict(_named(recording))
    owners = list(recording.owners)
    for number, obj in enumerate(objects):
        if isinstance(obj, PartialObject):
            owners.append(recorded_owner(owner_of(obj)))
            continue
        if isinstance(obj, Pod) and obj.spec.scheduler_name not in recording.scheduler_names:
            raise ObjectError(
                "another scheduler places this pod",
                kind=obj.KIND,
                name=obj.key,
                path="spec.schedulerName",
                value=obj.spec.scheduler_name,
                fix=f"write {recording.scheduler_names[0]}",
            )
        old = there.get(identity_of(obj), {}).get("metadata", {})
        meta = replace(
            obj.metadata,
            uid=old.get("uid") or obj.metadata.uid or f"whatif-{number}",
            creation_timestamp=old.get("creationTimestamp") or made,
        )
        there[identity_of(obj)] = msgspec.json.decode(as_json(replace(obj, metadata=meta)))
    return replace(_of(recording, there.values()), owners=owners)


def without_objects(recording: Recording, targets: Sequence[str], file: str = "") -> Recording:
    """Return a recording without objects; the pods of a node that goes wait again.

    Besides the kinds of :data:`KINDS` a workload may be named, such as ``job/train``: it goes with
    what it owns, and their pods.

    Raises:
        ConfigError: a target is none, or there is no such object.

    """
    there, owners = dict(_named(recording)), list(recording.owners)
    for target in targets:
        word = target.partition("/")[0]
        if kind_of(word) and word.lower() not in KINDS:
            gone = _made_by(recording, target, file)
            owners = [it for it in owners if it.metadata.uid not in {one.uid for one in gone}]
            for one in gone:
                there.pop((one.kind, one.key), None)
            continue
        kind, key = find(recording, target, file)
        del there[kind, key]
        name = key.partition("/")[2]
        for identity, raw in list(there.items()):
            if identity[0] != Pod.KIND:
                continue
            if kind == PodGroup.KIND and _is_in(raw, key.partition("/")[0], name):
                del there[identity]
            elif kind == Node.KIND and raw.get("spec", {}).get("nodeName") == key:
                there[identity] = _waiting(raw)
    return replace(_of(recording, there.values()), owners=owners)


class _Made(NamedTuple):
    """An object that may own pods, or be owned."""

    kind: str
    key: str
    uid: str
    by: str
    """The UID of its controller; empty for none."""


def _made(recording: Recording) -> Iterator[_Made]:
    """Yield the objects of a recording, and the workloads of which the metadata were read."""
    for (kind, key), raw in _named(recording):
        references = raw["metadata"].get("ownerReferences") or ()
        by = next((it.get("uid", "") for it in references if it.get("controller")), "")
        yield _Made(kind, key, raw["metadata"].get("uid", ""), by)
    for owner in recording.owners:
        meta = owner.metadata
        by = next((it.uid for it in meta.owner_references if it.controller), "")
        yield _Made(owner.kind, f"{meta.namespace}/{meta.name}", meta.uid, by)


def _made_by(recording: Recording, target: str, file: str) -> list[_Made]:
    """Return a workload and all that it owns, its pods too.

    Raises:
        ConfigError: there is none, or several in different namespaces.

    """
    every, kind = list(_made(recording)), kind_of(target.partition("/")[0])
    there = {it.key: it for it in every if it.kind.lower() == kind}
    found = [there[_one_of(list(there), kind, target, file)]]
    for it in found:
        owned = (other for other in every if it.uid and other.by == it.uid)
        found += [other for other in owned if other not in found]
    return found


def with_shard(recording: Recording, shard: SchedulingShard, file: str = "") -> Recording:
    """Return a recording whose cycle runs by another shard.

    Raises:
        PluginError: a plugin of the shard is not installed, or its arguments are wrong.

    """
    policy, _ = build_policy(shard, file)
    return replace(recording, shard=plain_shard(shard, policy), result="")


def with_values(
    recording: Recording, target: str, assignments: Sequence[str], file: str = ""
) -> Recording:
    """Return a recording with other values in an object, or in its shard.

    Args:
        recording: is left as it is.
        target: ``kind/name``, or ``shard``.
        assignments: ``path=value``.
        file: of the recording, for errors.

    Raises:
        ConfigError: an assignment is none, changes nothing, or there is no such object.
        ObjectError: the object is wrong with it.

    """
    kind, key = (SHARD, "") if target == SHARD else find(recording, target, file)
    there = dict(_named(recording))
    raw = recording.shard if kind == SHARD else there[kind, key]
    type_ = SchedulingShard if kind == SHARD else type_of(raw["apiVersion"], kind)
    if type_ is None or isinstance(type_, Fault):
        raise ConfigError("such objects are not read", file=file, path=target)
    for assignment in assignments:
        path, value = _assignment(kind, assignment)
        before, raw = raw, msgspec.json.decode(msgspec.json.encode(raw))
        _put(raw, path, value, assignment)
        try:
            obj = decode_object(raw, type_, Source(file))[0]
        except BadObject as bad:
            bad.errors[0].others = tuple(bad.errors[1:])
            raise bad.errors[0] from None
        if obj == decode_object(before, type_, Source(file))[0]:
            fix = "the value is that already, or no such field is read"
            raise ConfigError("makes no difference", path=assignment, fix=fix)
    if kind == SHARD:
        return replace(recording, shard=raw, result="")
    there[kind, key] = raw
    return _of(recording, there.values())


def find(recording: Recording, target: str, file: str = "") -> tuple[str, str]:
    """Return (kind, key) of the object that a target such as ``queue/a`` names.

    Raises:
        ConfigError: there is none, or several in different namespaces.

    """
    word, _, name = target.partition("/")
    kind = KINDS.get(word.lower())
    if kind is None or not name:
        known = ", ".join(f"{it}/NAME" for it in KINDS)
        raise ConfigError("names no object", path=target, fix=f"write one of {known}")
    keys = [key for of, key in (identity for identity, _ in _named(recording)) if of == kind]
    return kind, _one_of(keys, kind, target, file)


def _one_of(keys: list[str], kind: str, target: str, file: str) -> str:
    """Return the key that a target names.

    Raises:
        ConfigError: it names none, or several.

    """
    word, _, name = target.partition("/")
    found = [key for key in keys if key == name or key.partition("/")[2] == name]
    if len(found) == 1:
        return found[0]
    if found:
        fix = f"write one of {', '.join(f'{word}/{key}' for key in sorted(found))}"
        raise ConfigError(f"several are called {name}", file=file, path=target, fix=fix)
    names = keys if "/" in name else [key.rpartition("/")[2] for key in keys]
    raise ConfigError(
        f"there is no {kind} {name}", file=file, path=target, fix=did_you_mean(name, names)
    )


def _named(recording: Recording) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Yield the objects of a recording by (kind, key)."""
    for data in recording.objects:
        raw: Any = msgspec.json.decode(data)
        if isinstance(raw, dict) and isinstance(raw.get("metadata"), dict):
            meta = raw["metadata"]
            space, name = meta.get("namespace", ""), meta.get("name", "")
            yield (raw.get("kind", ""), f"{space}/{name}" if space else name), raw


def _of(recording: Recording, objects: Iterable[dict[str, Any]]) -> Recording:
    data = [msgspec.Raw(msgspec.json.encode(raw)) for raw in objects]
    return replace(recording, objects=data, result="")


def _is_in(raw: dict[str, Any], namespace: str, group: str) -> bool:
    """Tell whether a pod names a pod group."""
    pod, _ = decode_object(raw, Pod)
    return pod.metadata.namespace == namespace and pod_group_of(pod.metadata) == group


def _waiting(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as its controller makes it anew."""
    spec = {key: value for key, value in raw["spec"].items() if key != "nodeName"}
    return {**{key: value for key, value in raw.items() if key != "status"}, "spec": spec}


def _assignment(kind: str, text: str) -> tuple[list[str], Any]:
    """Return the path and the value of ``path=value``; short forms are written out."""
    left, equals, right = text.partition("=")
    path = [plain or quoted for plain, quoted in _STEP.findall(left)]
    if not equals or not path:
        fix = "write path=value, such as gpu.quota=8"
        raise ConfigError("is no assignment", path=text, fix=fix)
    if kind == Queue.KIND and len(path) > 1 and path[0] not in (*_ROOTS, *_OF_QUEUE):
        path = ["spec", "resources", *path]
        path[-1] = "overQuotaWeight" if path[-1] == "weight" else path[-1]
    elif kind == Node.KIND and path == ["gpu"]:
        if not right.isascii() or not right.isdigit():
            raise ConfigError("no number of GPUs", path=text, value=right, fix="write gpu=8")
        path, right = ["status", "allocatable", "nvidia.com/gpu"], f'"{right}"'
    elif path[0] not in _ROOTS:
        path = ["spec", *path]
    return path, plain_scalar(right) if not right.startswith('"') else right.strip('"')


def _put(raw: dict[str, Any], path: Sequence[str], value: object, text: str) -> None:
    """Set a value in nested maps."""
    place: Any = raw
    for step in path[:-1]:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            fix = "name a field of an object; items of lists are changed in a file"
            raise ConfigError(f"{step} has no fields", path=text, fix=fix)
    place[path[-1]] = value
