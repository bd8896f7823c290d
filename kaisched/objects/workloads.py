"""Workloads: how each kind groups its pods into jobs, and where annotations want them placed.

Each kind has one row of a table; a plugin adds rows by the question ``workloads``.
:mod:`kaisched.objects.gangs` reads the gang off an object. KAI-Scheduler's annotations name a
topology and its levels, Kueue's name levels by node labels alone. Keys that Kueue has beside those
of levels and slices, such as those of spreading, are not read.
"""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import replace

from kaisched.errors import ObjectError, join_path
from kaisched.objects import labels
from kaisched.objects.faults import Fault, Path, Source, to_error
from kaisched.objects.pod import PodSpec
from kaisched.objects.podgroup import SubGroupSpec
from kaisched.objects.text import TextFault, read_json
from kaisched.objects.wire import (
    Condition,
    KubernetesObject,
    ObjectMeta,
    StrictWire,
    TopologyConstraint,
    Wire,
)

# -- segments --------------------------------------------------------------------------------------

MOST_SUBGROUPS: Final = 10_000
"""Most subgroups of a workload; KAI-Scheduler's bound of segments."""
LEADER: Final = "leader"
"""Name of the subgroup of a pod that leads others and is in none of their segments."""


class Segments(StrictWire, frozen=True, kw_only=True):
    """How the pods of a subgroup are divided."""

    size: int
    pods: int
    """How many pods there are, the one that leads them included."""
    minimum: int
    """How many of them must start together."""
    leader: Literal["", "inside", "outside"] = ""
    """Whether the first pod leads the others: in their first segment, or in none."""
    topology: TopologyConstraint | None = None
    """Of each segment."""

    @property
    def first(self) -> int:
        """The index of the first pod by which segments are counted.

        A leader is beside the first segment if without it all segments are equal.
        """
        is_beside = self.leader and (self.pods - 1) % self.size == 0
        return 1 if self.leader == "outside" or is_beside else 0

    @property
    def count(self) -> int:
        """How many segments there are."""
        least = 0 if self.leader == "outside" else 1
        return max(-(-(self.pods - self.first) // self.size), least)


def resized(segments: Segments, pods: int) -> Segments:
    """Return the segments of so many pods, all of which must start together.

    Raises:
        ObjectError: beside the leader they are no whole number of segments, and have to be; or
            they are too many segments.

    """
    found = replace(segments, pods=pods, minimum=pods)
    if segments.leader == "outside" and (pods - 1) % segments.size:
        what = f"{pods - 1} pods without their leader are no segments of {segments.size}"
        raise ObjectError(what, fix="write a size that divides them, or include the leader")
    if found.count > MOST_SUBGROUPS:
        what = f"{pods} pods are {found.count} segments of {segments.size}"
        raise ObjectError(what, fix=f"write a larger size: {MOST_SUBGROUPS} are the most")
    return found


def segment_of(segments: Segments, name: str, index: int) -> str:
    """Return the subgroup of the pod with an index; ``name`` is that of all segments."""
    if segments.leader == "outside" and index == 0:
        return LEADER
    return f"{name}/{max(index - segments.first, 0) // segments.size}"


def parts_of(segments: Segments, name: str) -> list[SubGroupSpec]:
    """Return the subgroups: one with all segments, and maybe one of a leader.

    Segments that the minimum reaches into are needed whole, and no pod of those after them.
    """
    size, first, is_outside = segments.size, segments.first, segments.leader == "outside"
    reached = segments.minimum - first
    if not is_outside:
        reached = max(reached, min(segments.minimum, 1))
    needed = -(-reached // size)
    parts = [SubGroupSpec(name=LEADER, min_member=1)] if is_outside else []
    if segments.count:
        parts.append(SubGroupSpec(name=name))
    for at in range(segments.count):
        pods = min(size, segments.pods - first - at * size)
        if at == 0 and not is_outside:
            pods += first
        least = pods if at < needed else 0
        parts.append(
            SubGroupSpec(
                name=f"{name}/{at}",
                parent=name,
                min_member=least,
                topology_constraint=segments.topology,
            )
        )
    return parts


# -- pod sets of Kueue -----------------------------------------------------------------------------

MOST_LAYERS: Final = 3
_LEVELS: Final = (labels.POD_SET_REQUIRED, labels.POD_SET_PREFERRED, labels.POD_SET_UNCONSTRAINED)
_SLICE: Final = (labels.POD_SET_SLICE_LEVEL, labels.POD_SET_SLICE_SIZE)
_SHAPE: Final = 'write it like [{"topology": "example.com/rack", "size": 4}], outermost first'


class PodSetTopology(StrictWire, frozen=True, kw_only=True):
    """What a pod set asks for; without a level and slices, any place on the nodes of a topology."""

    required: str = ""
    preferred: str = ""
    slices: list[tuple[str, int]] = []
    """(level, pods), outermost first."""
    group: str = ""
    """Pod sets of one group are placed together."""


def pod_set_of(notes: Mapping[str, str], slice_size: int = 0) -> PodSetTopology | None:
    """Return what the annotations of a pod, or of its template, ask for; None for nothing.

    ``slice_size`` is that of slices for which none is written; 0 if it has to be.

    Raises:
        ObjectError: they contradict each other, or a value makes no sense.

    """
    given = [key for key in _LEVELS if notes.get(key)]
    if len(given) > 1:
        raise _error(given[1], notes[given[1]], f"beside {given[0]}", "write one of them")
    free = notes.get(labels.POD_SET_UNCONSTRAINED, "")
    if free not in ("", "true", "false"):
        raise _error(labels.POD_SET_UNCONSTRAINED, free, "neither true nor false", "write true")
    slices = _slices(notes, slice_size)
    if not slices and (not given or free == "false"):
        return None
    return PodSetTopology(
        required=notes.get(labels.POD_SET_REQUIRED, ""),
        preferred=notes.get(labels.POD_SET_PREFERRED, ""),
        slices=slices,
        group=notes.get(labels.POD_SET_GROUP, ""),
    )


def _slices(notes: Mapping[str, str], slice_size: int) -> list[tuple[str, int]]:
    level, size = (notes.get(key, "") for key in _SLICE)
    text = notes.get(labels.POD_SET_SLICES, "")
    if text:
        if level:
            raise _error(_SLICE[0], level, f"beside {labels.POD_SET_SLICES}", "write one of them")
        return layers_of(text)
    if not level:
        return []  # a size without a level has no effect in Kueue either
    if not size and not slice_size:
        fix = f"add {labels.POD_SET_SLICE_SIZE}: so many pods are a slice"
        raise _error(_SLICE[0], level, "slices without a size", fix)
    pods = _whole(size) if size else slice_size
    if pods < 1:
        raise _error(_SLICE[1], size, "no number of pods", "write a whole number from 1")
    return [(level, pods)]


def layers_of(text: str) -> list[tuple[str, int]]:
    """Return the layers of slices written as JSON.

    Raises:
        ObjectError: they are none.

    """
    try:
        (said,) = read_json(text)
        found = [(str(it["topology"]), _whole(str(it["size"]))) for it in said]
    except (TextFault, ValueError, TypeError, KeyError):
        raise _error(labels.POD_SET_SLICES, text, "no layers of slices", _SHAPE) from None
    if not 1 <= len(found) <= MOST_LAYERS:
        what = f"{len(found)} layers of slices"
        raise _error(labels.POD_SET_SLICES, text, what, f"write 1 to {MOST_LAYERS}")
    for at, (level, size) in enumerate(found):
        if not level or size < 1:
            raise _error(labels.POD_SET_SLICES, text, "a layer without level or pods", _SHAPE)
        if at and found[at - 1][1] % size:
            what = f"{size} does not divide {found[at - 1][1]}, the size around it"
            raise _error(labels.POD_SET_SLICES, text, what, "write sizes that do")
    return found


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 8 else 0  # noqa: PLR2004


def _error(key: str, value: str, what: str, fix: str) -> ObjectError:
    path = join_path("metadata", "annotations", key)
    return ObjectError(f"{value[:80]!r}: {what}", path=path, fix=fix)


# -- the table -------------------------------------------------------------------------------------

Grouping = Literal["together", "each", "through"]


class Gang(StrictWire, frozen=True, kw_only=True):
    """How the pods of one workload start, by its spec."""

    minimum: int = 1
    """Pods that must start together, 0 for none; ignored if there are subgroups."""
    sub_groups: list[SubGroupSpec] = []
    """Subgroups as in a PodGroup; the row's ``subgroup_labels`` or ``role_labels`` give the names
    of leaves."""
    later: tuple[str, ...] = ()
    """Roles whose pods are created once others run: nothing waits for the first one of them."""
    min_sub_group: int | None = None
    """Top-level subgroups needed; by default all of them."""
    pod_sets: dict[str, PodSetTopology] = {}
    """By top-level subgroup, where its pods are to be together by Kueue's annotations."""
    topology_constraint: TopologyConstraint | None = None
    """Of all pods; by default what annotations of the owners say."""
    segments: dict[str, Segments] = {}
    """By subgroup, how its pods are divided by the row's ``segment_label``; ``sub_groups`` has the
    parts."""
    node_label: str = ""
    """Label of nodes: the pods are only on nodes with one and the same value of it."""
    is_leader_first: bool = False
    """Whether the first pod starts alone, since the others are created once it runs."""
    leader_first: tuple[str, ...] = ()
    """The same of some subgroups: the first pod of each starts without its others."""
    is_each: bool = False
    """Whether each pod is a job of its own, whatever the row says."""
    priority_class: str = ""
    completions: int = 0
    """Pods that are to succeed, where others follow those that end; 0 where none follow."""
    unsupported: str = ""
    """What the workload requests that is not supported."""


Read: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, str]], Gang]
"""Reads a workload's spec and annotations, which may be anything; never raises."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Grouping of the pods of one kind of workload."""

    api_version: str
    """Listed group and version; an owner reference matches by its group alone."""
    plural: str
    kind: str
    pods: Grouping = "together"
    """``together``: one job; ``each``: one job each; ``through``: as the next owner says. Labels
    of owners count in all three cases."""
    read: Read | None = None
    """Reads the gang from the object; without it only metadata are listed, and 1 pod starts."""
    priority_class: str = ""
    """Default priority class."""
    priority_label: str = ""
    """Label that names the priority class, beside ``priorityClassName``."""
    index_label: str = ""
    """Label of the pods; each of its values is a job of its own."""
    subgroup_labels: tuple[str, ...] = ()
    """Labels of the pods whose values, joined by ``/``, name the pod's subgroup."""
    role_labels: tuple[str, ...] = ()
    """Labels of the pods: the first whose value is the name of a subgroup says the pod's role. Pods
    of no role count for the whole gang while a role lacks pods, and are not needed after that."""
    name_label: str = ""
    """Label of the pods that names the object, in their namespace; then no owner counts."""
    segment_label: str = ""
    """Label of the pods with their index, by which segments are counted."""
    size_annotation: str = ""
    """Annotation of the pods that says the minimum before ``read`` does."""
    other_versions: tuple[str, ...] = ()
    """API versions to try in order if ``api_version`` is not served."""

    @property
    def api_group(self) -> str:
        """The group of the API version."""
        return self.api_version.rpartition("/")[0]


Table: TypeAlias = Mapping[tuple[str, str], Workload]
"""Rows by (API group, kind)."""


def table_of(rows: Iterable[Workload]) -> dict[tuple[str, str], Workload]:
    """Return the rows by group and kind; the first row for a kind counts."""
    table: dict[tuple[str, str], Workload] = {}
    for row in rows:
        table.setdefault((row.api_group, row.kind), row)
    return table


# -- kinds that a shard declares -------------------------------------------------------------------

GROUP_VERSION: Final = re.compile(r"[a-z0-9.-]{1,200}/v[a-z0-9]{1,60}", re.ASCII)
PLURAL: Final = re.compile(r"[a-z][a-z0-9-]{0,62}", re.ASCII)
KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,62}", re.ASCII)
SPEC_PATH: Final = re.compile(r"spec((\.[A-Za-z_][\w-]*)|(\[([0-9]{1,4}|\*)\]))+", re.ASCII)
"""A place in a spec: keys, and in lists an index, or ``*`` for the sum over all items."""
NOT_OWNERS: Final = ("", "scheduling.run.ai", "kai.scheduler", "scheduling.k8s.io")
"""API groups of objects that are watched for other reasons than their pods."""
MOST_ROLES: Final = 64


class WorkloadRole(StrictWire, frozen=True, kw_only=True):
    """A part of a workload whose pods are alike, with places in its spec."""

    name: str
    """The value of the kind's ``role_label`` on its pods."""
    replicas: str = ""
    minimum: str = ""


class WorkloadKind(StrictWire, frozen=True, kw_only=True):
    """How the pods of a kind are grouped, as a shard declares it."""

    api_version: str
    plural: str
    kind: str
    pods: Grouping | None = None
    replicas: str = ""
    minimum: str = ""
    role_label: str = ""
    """Label of the pods that says their role; without it the roles are counted together."""
    roles: list[WorkloadRole] = []
    index_label: str = ""
    priority_class: str = ""

    @property
    def counts(self) -> tuple[WorkloadRole, ...]:
        """The roles; a kind without roles is one."""
        is_counted = self.replicas or self.minimum
        whole = WorkloadRole(name="", replicas=self.replicas, minimum=self.minimum)
        return tuple(self.roles) or ((whole,) if is_counted else ())


def kind_faults(kinds: Sequence[WorkloadKind], path: Path) -> Iterator[Fault]:
    """Yield the faults of the kinds that a shard declares."""
    seen: set[tuple[str, str]] = set()
    for at, kind in enumerate(kinds):
        here: Path = (*path, at)
        key = (kind.api_version.rpartition("/")[0], kind.kind)
        if key in seen:
            yield Fault((*here, "kind"), "given twice", kind.kind, "keep one of the two")
        seen.add(key)
        if key[0] in NOT_OWNERS and GROUP_VERSION.fullmatch(kind.api_version):
            fix = "name a kind that owns pods"
            yield Fault((*here, "apiVersion"), "of objects for other ends", kind.api_version, fix)
        forms = {
            "apiVersion": (kind.api_version, GROUP_VERSION, "write it like example.com/v1"),
            "plural": (kind.plural, PLURAL, "write it like widgets"),
            "kind": (kind.kind, KIND, "write it like Widget"),
            "replicas": (kind.replicas or _ANY_PATH, SPEC_PATH, _PATH_FIX),
            "minimum": (kind.minimum or _ANY_PATH, SPEC_PATH, _PATH_FIX),
            "roleLabel": (kind.role_label or _ANY_LABEL, labels.LABEL_KEY, _LABEL_FIX),
            "indexLabel": (kind.index_label or _ANY_LABEL, labels.LABEL_KEY, _LABEL_FIX),
        }
        yield from _form_faults(here, forms)
        yield from _role_faults(here, kind)


_ANY_PATH: Final = "spec.replicas"
_ANY_LABEL: Final = "example.com/role"
_PATH_FIX: Final = "write it like spec.replicas, spec.groups[0].size or spec.groups[*].size"
_LABEL_FIX: Final = "write the name of a label, like example.com/role"


def _form_faults(
    path: Path, forms: Mapping[str, tuple[str, re.Pattern[str], str]]
) -> Iterator[Fault]:
    for key, (value, form, fix) in forms.items():
        if not form.fullmatch(value):
            yield Fault((*path, key), "not of this form", value, fix)


def _role_faults(path: Path, kind: WorkloadKind) -> Iterator[Fault]:
    if kind.pods in ("each", "through") and (kind.counts or kind.index_label):
        fix = "write together, or drop what says how many start together"
        yield Fault(
            (*path, "pods"), "no gang, so without size, roles or indexLabel", kind.pods, fix
        )
    if kind.role_label and not kind.roles:
        yield Fault((*path, "roleLabel"), "there are no roles", kind.role_label, "list roles")
    for key, value in (("replicas", kind.replicas), ("minimum", kind.minimum)):
        if kind.roles and value:
            yield Fault((*path, key), "does not go with roles", value, "give it for each role")
    names = [role.name for role in kind.roles]
    for at, role in enumerate(kind.roles):
        here: Path = (*path, "roles", at)
        if not role.name or not labels.LABEL_VALUE.fullmatch(role.name):
            fix = "write the value that the label of its pods has"
            yield Fault((*here, "name"), "no value of a label", role.name, fix)
        elif role.name in names[:at]:
            yield Fault((*here, "name"), "given twice", role.name, "give each its own name")
        forms = {
            "replicas": (role.replicas or _ANY_PATH, SPEC_PATH, _PATH_FIX),
            "minimum": (role.minimum or _ANY_PATH, SPEC_PATH, _PATH_FIX),
        }
        yield from _form_faults(here, forms)


# -- annotations on templates ----------------------------------------------------------------------

MOST: Final = 100_000
"""A workload that needs more pods than this counts as a mistake."""


_SEGMENT_KEYS: Final = (labels.SEGMENT_SIZE, labels.SEGMENT_REQUIRED, labels.SEGMENT_PREFERRED)
_MOST_DIGITS: Final = 9


def annotations_in(template: object) -> dict[str, str]:
    """Return the annotations of a template, none for anything else."""
    at = template
    for key in ("metadata", "annotations"):
        at = at.get(key) if isinstance(at, Mapping) else None
    return {str(key): str(value) for key, value in at.items()} if isinstance(at, Mapping) else {}


def constraint_on(notes: Mapping[str, str], owner: Mapping[str, str]) -> TopologyConstraint | None:
    """Return what the annotations of a template ask for; the owner's may name the topology.

    Raises:
        ObjectError: a level is required, and no topology is named.

    """
    return _constraint(notes, owner, labels.TOPOLOGY_REQUIRED, labels.TOPOLOGY_PREFERRED)


def segments_on(
    notes: Mapping[str, str],
    owner: Mapping[str, str],
    pods: int,
    minimum: int,
    size: object = None,
    **more: Any,
) -> Segments | None:
    """Return the segments of the pods of a template; None if its annotations ask for no level.

    Args:
        notes: annotations of the template.
        owner: annotations of the workload, which count where the template says nothing.
        pods: how many there are.
        minimum: how many of them must start together.
        size: of a segment, where the spec says it; then the annotation has no effect.
        more: other fields of the segments.

    Raises:
        ObjectError: a level is required, and no topology is named, or no size; or the size makes
            no sense.

    """
    told = {key: notes.get(key) or owner.get(key, "") for key in (*_SEGMENT_KEYS, labels.TOPOLOGY)}
    wish = _constraint(told, {}, labels.SEGMENT_REQUIRED, labels.SEGMENT_PREFERRED)
    text = str(size) if size is not None else told[labels.SEGMENT_SIZE]
    if wish is None or (not text and not wish.required_topology_level):
        return None
    if not text:
        fix = f"add {labels.SEGMENT_SIZE}: so many pods are a segment"
        raise _error(labels.SEGMENT_REQUIRED, wish.required_topology_level, "without a size", fix)
    is_whole = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    if not is_whole or not int(text):
        fix = "write how many pods are a segment, at least 1"
        raise _error(labels.SEGMENT_SIZE, text, "no size of a segment", fix)
    found = Segments(size=int(text), pods=pods, minimum=minimum, topology=wish, **more)
    if found.count > MOST_SUBGROUPS:
        what, fix = f"{found.count} segments", f"write a larger size: {MOST_SUBGROUPS} are the most"
        raise _error(labels.SEGMENT_SIZE, text, what, fix)
    return found


def _constraint(
    notes: Mapping[str, str], owner: Mapping[str, str], required: str, preferred: str
) -> TopologyConstraint | None:
    levels = notes.get(required, ""), notes.get(preferred, "")
    topology = notes.get(labels.TOPOLOGY) or owner.get(labels.TOPOLOGY, "")
    if not topology and levels[0]:
        raise _error(required, levels[0], "a level of no topology", f"add {labels.TOPOLOGY}")
    if not topology or not any(levels):
        return None
    return TopologyConstraint(
        topology=topology,
        required_topology_level=levels[0],
        preferred_topology_level=levels[1],
    )


# -- segments that are not offered -----------------------------------------------------------------

NOT_OFFERED: Final = "segments are formed only of workers of PyTorchJobs and of LeaderWorkerSets"
_FIX_REQUIRED: Final = "leave it out, or list subgroups in a PodGroup"
_FIX_PREFERRED: Final = "it has no effect; drop it to be rid of this line"


def required_of_workload(meta: ObjectMeta) -> str:
    """Return the refusal of a required level for segments, by the annotations of a workload."""
    level = meta.annotations.get(labels.SEGMENT_REQUIRED)
    if not level:
        return ""
    path: Path = ("metadata", "annotations", labels.SEGMENT_REQUIRED)
    return str(to_error(Fault(path, NOT_OFFERED, level, _FIX_REQUIRED), Source()))


def preferred_of_workload(workload: KubernetesObject) -> Iterator[Fault]:
    """Yield a warning for a preferred level for segments, by a workload's annotations.

    Not for one that another object has made, or a pod that names its group: these say more.
    """
    meta = workload.metadata
    level = meta.annotations.get(labels.SEGMENT_PREFERRED)
    if level and not meta.owner_references and labels.pod_group_of(meta) is None:
        path: Path = ("metadata", "annotations", labels.SEGMENT_PREFERRED)
        yield Fault(path, NOT_OFFERED, level, _FIX_PREFERRED, is_warning=True)


# -- the kinds that own pods -----------------------------------------------------------------------


class PriorityClass(KubernetesObject, frozen=True, kw_only=True):
    """A name for a priority."""

    API_VERSION = "scheduling.k8s.io/v1"
    KIND = "PriorityClass"
    IS_NAMESPACED = False

    value: int
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"


class TemplateMeta(Wire, frozen=True, kw_only=True):
    """Labels and annotations of the pods a workload makes."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateSpec(Wire, frozen=True, kw_only=True):
    """The few fields of a pod template that grouping needs."""

    scheduler_name: str = "default-scheduler"
    priority_class_name: str = ""


class PodTemplate(Wire, frozen=True, kw_only=True):
    """A pod template."""

    metadata: TemplateMeta = TemplateMeta()
    spec: TemplateSpec = TemplateSpec()


class JobTemplate(Wire, frozen=True, kw_only=True):
    """The pods of a batch Job, whole: where Kueue holds the Job back there are none to read."""

    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec = PodSpec()


class JobSpec(Wire, frozen=True, kw_only=True):
    """Numbers of pods of a batch Job."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    suspend: bool = False
    template: JobTemplate = JobTemplate()


class JobStatus(Wire, frozen=True, kw_only=True):
    """How far a batch Job has come."""

    active: int = 0
    succeeded: int = 0
    conditions: list[Condition] = []


class Job(KubernetesObject, frozen=True, kw_only=True):
    """A batch Job."""

    API_VERSION = "batch/v1"
    KIND = "Job"

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class ReplicasSpec(Wire, frozen=True, kw_only=True):
    """Number of pods of a set; one if absent."""

    replicas: int = 1
    template: PodTemplate = PodTemplate()


class ReplicaSet(KubernetesObject, frozen=True, kw_only=True):
    """A ReplicaSet."""

    API_VERSION = "apps/v1"
    KIND = "ReplicaSet"

    spec: ReplicasSpec = ReplicasSpec()


class Deployment(KubernetesObject, frozen=True, kw_only=True):
    """A Deployment."""

    API_VERSION = "apps/v1"
    KIND = "Deployment"

    spec: ReplicasSpec = ReplicasSpec()


class StatefulSet(KubernetesObject, frozen=True, kw_only=True):
    """A StatefulSet."""

    API_VERSION = "apps/v1"
    KIND = "StatefulSet"

    spec: ReplicasSpec = ReplicasSpec()


class PartialObject(Wire, frozen=True, kw_only=True):
    """Metadata of an object of any kind, for walks along owner chains."""

    metadata: ObjectMeta
    api_version: str = ""
    kind: str = ""
    gang: Gang = Gang()
    """Gang by the object's spec."""
