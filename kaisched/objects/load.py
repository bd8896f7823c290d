"""Loader of manifests from files, directories and texts: good objects, and problems of bad ones.

Manifests are YAML with any number of documents, JSON, or lists (``kind: List``) of either. Nothing
here raises: input that cannot be used becomes an :class:`kaisched.errors.ObjectError` that names
file, document, object and path. Objects of kinds without a struct stay undecoded until the policy
of a shard says which of them are workloads. Queues and pod groups are checked against each other:
names, parents, cycles.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.decode import BadObject, decode_object, faults_of, name_in, type_of
from kaisched.objects.faults import Fault, Source, did_you_mean, to_error
from kaisched.objects.gangs import GANG_API, GANG_API_KIND, batch_job, gang_api_row, gang_of
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import cycles
from kaisched.objects.queue import Queue
from kaisched.objects.text import TextFault, documents, read_json, read_yaml
from kaisched.objects.wire import KubernetesObject
from kaisched.objects.workloads import (
    Deployment,
    Job,
    PartialObject,
    ReplicaSet,
    StatefulSet,
    Table,
    Workload,
)

MAX_BYTES: Final = 256 << 20
"""Largest file that is read."""
SUFFIXES: Final = (".yaml", ".yml", ".json")

_MAX_LISTS: Final = 4
_CHART: Final = "Chart.yaml"
SCENARIO_KEYS: Final = frozenset({"time", "nodes"})
"""What every scenario of a simulation has, and no manifest."""
_EXAMPLE: Final = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
_BOM: Final = b"\xef\xbb\xbf"

_T = TypeVar("_T", bound=KubernetesObject)


Manifest: TypeAlias = KubernetesObject | PartialObject
"""An object that was read: as a whole, or of a workload only the fields for grouping pods."""


def identity_of(obj: Manifest) -> tuple[str, str]:
    """Return (kind, key) of an object; a workload's kind includes its API group to be unique."""
    if isinstance(obj, PartialObject):
        group = obj.api_version.rpartition("/")[0]
        return f"{obj.kind}.{group}", f"{obj.metadata.namespace}/{obj.metadata.name}"
    return obj.KIND, obj.key


class Other(NamedTuple):
    """An object of a kind without a struct: a workload that owns pods, or one to be ignored."""

    api_version: str
    kind: str
    name: str
    raw: dict[str, Any]
    source: Source


@dataclass(slots=True)
class Loaded:
    """Result of loading, in the order of files and documents."""

    objects: list[Manifest] = field(default_factory=list)
    problems: list[ObjectError] = field(default_factory=list)
    faulty: list[tuple[KubernetesObject, Source]] = field(default_factory=list)
    """Objects with problems, which are not used: for checks that find more problems."""
    warnings: list[ObjectError] = field(default_factory=list)
    """Warnings about objects that are used all the same."""
    others: list[Other] = field(default_factory=list)
    """Objects of other kinds, undecoded; see :mod:`kaisched.objects.load`."""
    sources: dict[tuple[str, str], Source] = field(default_factory=dict)
    """Source of each object, by (kind, key)."""
    files: Counter[str] = field(default_factory=Counter)
    """How many objects each file that was read has, with those that are wrong."""

    def of(self, type_: type[_T]) -> list[_T]:
        """Return the objects of one kind."""
        return [obj for obj in self.objects if isinstance(obj, type_)]


def load_manifests(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], max_bytes: int = MAX_BYTES
) -> Loaded:
    """Read files, and directories with all below them, in sorted order. See :func:`load_text`."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    loaded = Loaded()
    for path in paths:
        for file in _files(Path(path), loaded):
            data = _read(file, max_bytes, loaded)
            if data is not None:
                _load_data(data, str(file), loaded)
    return loaded


def load_text(text: str | bytes, name: str = "") -> Loaded:
    """Load a text of YAML documents or of JSON; problems name ``name`` as the file."""
    loaded = Loaded()
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > MAX_BYTES:
        loaded.problems.append(_too_large(name, MAX_BYTES))
    else:
        _load_data(data, name, loaded)
    return loaded


def _files(path: Path, loaded: Loaded) -> Iterator[Path]:
    try:
        if (path / _CHART).is_file():
            fix = f"read what `helm template {path}` prints"
            loaded.problems.append(ObjectError("is a Helm chart", file=str(path), fix=fix))
        elif path.is_dir():
            found = sorted(it for it in path.rglob("*") if it.suffix in SUFFIXES)
            yield from (it for it in found if not _is_hidden(it.relative_to(path)) and it.is_file())
        elif path.exists():
            yield path
        else:
            problem = ObjectError("no such file or directory", file=str(path), fix="check the path")
            loaded.problems.append(problem)
    except (OSError, ValueError) as error:
        loaded.problems.append(_unreadable(path, error))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _read(path: Path, max_bytes: int, loaded: Loaded) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        loaded.problems.append(_unreadable(path, error))
        return None
    if len(data) > max_bytes:
        loaded.problems.append(_too_large(str(path), max_bytes))
        return None
    return data


def _unreadable(path: Path, error: Exception) -> ObjectError:
    reason = getattr(error, "strerror", None) or str(error)
    return ObjectError(f"cannot be read: {reason}", file=str(path), fix="check path and rights")


def _too_large(file: str, max_bytes: int) -> ObjectError:
    return ObjectError(f"larger than {max_bytes >> 20} MiB", file=file, fix="split it")


def _load_data(data: bytes, file: str, loaded: Loaded) -> None:
    loaded.files[file] += 0
    for value, source in _values(data, file, loaded.problems):
        _take(value, source, (), loaded)


def read_values(path: Path) -> Iterator[tuple[Any, Source]]:
    """Yield the plain values of a file that need not be objects: YAML documents, or JSON.

    Raises:
        ObjectError: the file cannot be read, is too large, or has a text that is neither.

    """
    loaded = Loaded()
    data = _read(path, MAX_BYTES, loaded)
    found = [] if data is None else list(_values(data, str(path), loaded.problems))
    if loaded.problems:
        first, *others = loaded.problems
        first.others = tuple(others)
        raise first
    yield from found


def _values(data: bytes, file: str, problems: list[ObjectError]) -> Iterator[tuple[Any, Source]]:
    data = data.removeprefix(_BOM)
    is_json = file.endswith(".json")
    if is_json or data.lstrip()[:1] in (b"{", b"["):
        try:
            values = list(read_json(data.decode()))
        except (TextFault, UnicodeDecodeError) as error:
            if is_json:  # otherwise it may be YAML in its flow style
                problems.append(_text_problem(error, Source(file)))
                return
        else:
            for number, value in enumerate(values, 1):
                yield value, Source(file, number)
            return
    for number, (chunk, line) in enumerate(documents(data), 1):
        source = Source(file, number)
        try:
            value = read_yaml(chunk.decode(), line)
        except (TextFault, UnicodeDecodeError) as error:
            problems.append(_text_problem(error, source))
        else:
            yield value, source


def _text_problem(error: TextFault | UnicodeDecodeError, source: Source) -> ObjectError:
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        fault = Fault((), f"no UTF-8: byte 0x{byte:02x} at {error.start}", fix="save it as UTF-8")
        return to_error(fault, source)
    where = f"line {error.line}: " if error.line else ""
    kind = error.partial.get("kind") if isinstance(error.partial, dict) else ""
    return to_error(
        Fault(error.path, where + error.message, fix=error.fix),
        source,
        kind if isinstance(kind, str) else "",
        name_in(error.partial),
    )


def _take(raw: Any, source: Source, at: tuple[str | int, ...], loaded: Loaded) -> None:
    if raw is None:
        return
    if not isinstance(raw, dict):
        fix = "write a map with apiVersion, kind, metadata and spec"
        loaded.problems.append(to_error(Fault(at, "no object", raw, fix), source))
        return
    if not (str(raw.get("kind")).endswith("List") and "items" in raw):
        loaded.files[source.file] += 1
    kind, api_version = raw.get("kind"), raw.get("apiVersion")
    name = name_in(raw)
    for key, word in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(word, str) or not word:
            fault = _untyped(raw, key)._replace(path=(*at, key))
            shown = kind if isinstance(kind, str) else ""
            loaded.problems.append(to_error(fault, source, shown, name))
            return
    kind, api_version = str(kind), str(api_version)
    if kind.endswith("List") and isinstance(raw.get("items"), list | None):
        _take_list(raw, source, at, loaded)
        return
    type_ = type_of(api_version, kind)
    if isinstance(type_, Fault):
        fault = type_._replace(path=(*at, *type_.path))
        loaded.problems.append(to_error(fault, source, kind, name))
    elif type_ is None:
        loaded.others.append(Other(api_version, kind[:80], name, raw, source))
    else:
        _take_object(raw, type_, source, at, loaded)


def _untyped(raw: dict[str, Any], key: str) -> Fault:
    """Return what is wrong with an object without apiVersion or kind."""
    if raw.get(key) is not None:
        return Fault((), f"no {key}", raw[key], f"write a text, such as {_EXAMPLE[key]}")
    if raw.keys() >= SCENARIO_KEYS:
        return Fault((), "this is a scenario, and no manifest", fix="`kaisched simulate` runs it")
    return Fault((), "missing", fix=f"add {key}")


def _take_list(
    raw: dict[str, Any], source: Source, at: tuple[str | int, ...], loaded: Loaded
) -> None:
    if len(at) >= 2 * _MAX_LISTS:
        fault = Fault(at, "lists inside lists", fix="write one list")
        loaded.problems.append(to_error(fault, source, "List"))
        return
    kind = raw["kind"].removesuffix("List")
    for number, item in enumerate(raw.get("items") or ()):
        if kind and isinstance(item, dict):  # items of a PodList do not repeat their kind
            item = {"apiVersion": raw["apiVersion"], "kind": kind, **item}  # noqa: PLW2901
        _take(item, source, (*at, "items", number), loaded)


def _take_object(
    raw: dict[str, Any],
    type_: type[KubernetesObject],
    source: Source,
    at: tuple[str | int, ...],
    loaded: Loaded,
) -> None:
    try:
        obj, warnings = decode_object(raw, type_, source)
    except BadObject as bad:
        loaded.problems.extend(within(bad.errors, at))
        if bad.obj is not None:
            loaded.faulty.append((bad.obj, source))
        return
    first = loaded.sources.get((type_.KIND, obj.key))
    if first is not None:
        where = f"first in {first.file} document {first.document}".replace("  ", " ")
        fault = Fault((*at, "metadata", "name"), f"given twice, {where}", obj.key, "drop one")
        loaded.problems.append(to_error(fault, source, type_.KIND, obj.name))
        return
    loaded.sources[type_.KIND, obj.key] = source
    loaded.objects.append(obj)
    loaded.warnings.extend(within(warnings, at))


def within(errors: list[ObjectError], at: tuple[str | int, ...]) -> list[ObjectError]:
    """Put the path of a list's item before the paths of errors inside the item."""
    if at:
        for error in errors:
            error.path = ".".join(filter(None, (join_path(*at), error.path)))
    return errors


# -- workloads among manifests ---------------------------------------------------------------------


@dataclass(slots=True)
class Workloads:
    """Workloads among the objects without a struct, and counts of the others."""

    objects: list[PartialObject] = field(default_factory=list)
    problems: list[ObjectError] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of ignored objects of each kind."""


class _Workload(KubernetesObject, frozen=True, kw_only=True):
    """A workload of any kind."""

    API_VERSION: ClassVar[str] = ""
    KIND: ClassVar[str] = "workload"

    spec: Any = None


def workloads_among(others: Iterable[Other], table: Table) -> Workloads:
    """Read the workloads among objects of other kinds.

    Args:
        others: undecoded objects.
        table: grouping of the pods of each kind.

    """
    found = Workloads()
    for other in others:
        row = _row_of(other, table)
        if row is None:
            found.left_out[other.kind] += 1
            continue
        try:
            obj, _ = decode_object(other.raw, _Workload, other.source)
        except BadObject as bad:
            for error in bad.errors:
                error.kind = other.kind
            found.problems.extend(bad.errors)
            continue
        gang = gang_of(row.read, obj.spec, obj.metadata.annotations)
        found.objects.append(
            PartialObject(
                metadata=obj.metadata, api_version=other.api_version, kind=other.kind, gang=gang
            )
        )
    return found


def missing_owners(objects: Iterable[Manifest], table: Table) -> list[str]:
    """Describe each workload that owns pods and would be read, but is not among the objects."""
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    there = {obj.metadata.uid for obj in objects}
    missing: Counter[tuple[str, str]] = Counter()
    for pod in pods:
        owner = next((it for it in pod.metadata.owner_references if it.controller), None)
        if owner is None or owner.uid in there or labels.pod_group_of(pod.metadata) is not None:
            continue
        row = table.get((owner.api_version.rpartition("/")[0], owner.kind))
        is_read = row is not None and row.read not in {None, batch_job}
        if row is not None and (is_read or row.pods == "through"):
            missing[owner.kind, f"{pod.metadata.namespace}/{owner.name}"] += 1
    return [
        f"{kind} {key} is not among the manifests under the UID that its pods name: what it"
        f" says of them is not known, so each of the {count} starts by itself"
        for (kind, key), count in sorted(missing.items())
    ]


def jobs_for(objects: Iterable[Manifest], schedulers: Collection[str]) -> set[str]:
    """Return the full names of the Jobs whose pods would be for one of some schedulers."""
    jobs = (obj for obj in objects if isinstance(obj, Job))
    return {it.key for it in jobs if it.spec.template.spec.scheduler_name in schedulers}


def without_pods(objects: Iterable[Manifest], jobs: Collection[str]) -> list[str]:
    """Describe workloads that are written by hand, name a queue, and have no pods.

    ``jobs`` are the full names of Jobs that are ours though they name none. A workload with a UID
    is from a cluster, where its pods may have ended.
    """
    objects = list(objects)
    owning = {
        (it.kind, obj.metadata.namespace, it.name)
        for obj in objects
        for it in obj.metadata.owner_references
    }
    found = [
        f"{kind} {meta.namespace}/{meta.name}"
        for obj in objects
        if isinstance(obj, (Job, ReplicaSet, Deployment, StatefulSet, PartialObject))
        and not (meta := obj.metadata).uid
        and (kind := obj.kind if isinstance(obj, PartialObject) else obj.KIND) != GANG_API_KIND
        and (
            labels.QUEUE in meta.labels
            or (kind == Job.KIND and f"{meta.namespace}/{meta.name}" in jobs)
        )
        and (kind, meta.namespace, meta.name) not in owning
    ]
    more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    named = f"{', '.join(found[:_MOST_SHOWN])}{more}"
    why = "no pods are among the manifests, and none are made: nothing of it is decided"
    return [f"of {named} {why}"] if found else []


def _row_of(other: Other, table: Table) -> Workload | None:
    """Return how an object groups the pods it owns; None for kinds that own no pods."""
    group, _, version = other.api_version.rpartition("/")
    if (group, other.kind) == (GANG_API, GANG_API_KIND):
        return gang_api_row({version})
    return table.get((group, other.kind))


# -- queues against each other ---------------------------------------------------------------------

Sources = Mapping[tuple[str, str], Source]
"""Sources of objects, by (kind, key), as ``Loaded.sources``."""

_PARENT: Final = ("spec", "parentQueue")
_MOST_SHOWN: Final = 8
_BAD_BY_ITSELF: Final = Fault((), "reported already")


def check_queues(
    queues: Iterable[Queue], sources: Sources | None = None
) -> tuple[list[Queue], list[ObjectError]]:
    """Return the queues that form a forest, in their order, and a problem for each rejected one.

    Of two queues with one name the first counts. A queue whose parent is missing or bad is dropped
    with all queues below it, and so are the members of a cycle.
    """
    sources, queues = sources or {}, list(queues)
    valid, problems = _each_by_itself(queues, sources)
    parent = {queue.name: queue.spec.parent_queue for queue in valid}
    verdicts: dict[str, Fault | None] = {}
    for cycle in cycles(parent):
        for at, member in enumerate(cycle):
            verdicts[member] = _cycle_fault(cycle, at)
    for name in {queue.name for queue in queues} - set(parent):
        parent[name], verdicts[name] = "", _BAD_BY_ITSELF
    for queue in valid:
        _judge(queue.name, parent, verdicts)
    for queue in valid:
        fault = verdicts[queue.name]
        if fault is not None:
            problems.append(_error(fault, queue, sources))
    return [queue for queue in valid if verdicts[queue.name] is None], problems


def _each_by_itself(
    objects: Iterable[Queue], sources: Sources
) -> tuple[list[Queue], list[ObjectError]]:
    valid: list[Queue] = []
    problems: list[ObjectError] = []
    names: set[str] = set()
    for obj in objects:
        faults = [fault for fault in faults_of(obj) if not fault.is_warning]
        if obj.key in names:
            fix = "rename or drop one of the two"
            faults = [Fault(("metadata", "name"), "given twice; the first counts", obj.key, fix)]
        names.add(obj.key)
        problems.extend(_error(fault, obj, sources) for fault in faults)
        if not faults:
            valid.append(obj)
    return valid, problems


def _judge(name: str, parent: Mapping[str, str], verdicts: dict[str, Fault | None]) -> None:
    """Walk up to the first queue with a verdict, then pass the verdict down to the start."""
    way: list[str] = []
    while name in parent and name not in verdicts:
        way.append(name)
        name = parent[name]
    for child in reversed(way):
        above = parent[child]
        if above and above not in parent:
            near = did_you_mean(above, sorted(set(parent) - {child}))
            fix = near if near.endswith("?") else f'create queue "{above}" or name another'
            verdicts[child] = Fault(_PARENT, "no such queue", above, fix)
        elif above and verdicts[above] is not None:
            verdicts[child] = Fault(
                _PARENT, "the parent cannot be used", above, f'put queue "{above}" right first'
            )
        else:
            verdicts[child] = None


def _cycle_fault(cycle: list[str], at: int) -> Fault:
    turned = [cycle[(at + step) % len(cycle)] for step in range(min(len(cycle), _MOST_SHOWN))]
    chain = " -> ".join([*turned, turned[0] if len(cycle) <= _MOST_SHOWN else "..."])
    return Fault(
        _PARENT, f"queues inside each other: {chain}", fix="give one of them no parentQueue"
    )


def _error(fault: Fault, obj: KubernetesObject, sources: Sources) -> ObjectError:
    return to_error(fault, sources.get((obj.KIND, obj.key), Source()), obj.KIND, obj.name)
