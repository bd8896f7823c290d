"""The shape of what comes in, as far as it is looked at here: a text is no list, a list no text.

A real server decodes into its types and refuses what does not fit; here only those fields have
types that the server itself reads. All others are kept as they come.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kaisched_apiserver.resources import Resource
from kaisched_apiserver.statuses import bad_request

_Object = dict[str, Any]
_Texts = dict[str, str]


class _Shape(msgspec.Struct, rename="camel", kw_only=True):
    pass


class _Owner(_Shape):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(_Shape):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: _Texts | None = None
    annotations: _Texts | None = None
    finalizers: list[str] | None = None
    owner_references: list[_Owner] | None = None


class _Any(_Shape):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Metadata | None = None


class _Resources(_Shape):
    limits: _Object | None = None
    requests: _Object | None = None


class _Container(_Shape):
    name: str | None = None
    image: str | None = None
    resources: _Resources = msgspec.field(default_factory=_Resources)


class _PodSpec(_Shape):
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    tolerations: list[_Object] | None = None
    scheduling_gates: list[_Object] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    priority: int | None = None
    termination_grace_period_seconds: int | None = None


class _Status(_Shape):
    phase: str | None = None
    conditions: list[_Object] | None = None
    capacity: _Object | None = None
    allocatable: _Object | None = None
    node_info: _Object | None = None
    disrupted_pods: _Object | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0


class _Pod(_Any):
    spec: _PodSpec | None = None
    status: _Status | None = None


class _Taint(_Shape):
    key: str


class _NodeSpec(_Shape):
    taints: list[_Taint] | None = None


class _Node(_Any):
    spec: _NodeSpec | None = None
    status: _Status | None = None


class _Requirement(_Shape):
    key: str
    operator: str
    values: list[str] | None = None


class _Selector(_Shape):
    match_labels: _Texts | None = None
    match_expressions: list[_Requirement] | None = None


class _BudgetSpec(_Shape):
    selector: _Selector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class _Budget(_Any, kw_only=True):
    spec: _BudgetSpec
    status: _Status | None = None


class _Class(_Any):
    value: int = 0
    global_default: bool = False


class _Template(_Any):
    spec: _PodSpec | None = None


class _WorkloadSpec(_Shape):
    replicas: int = 1
    parallelism: int = 1
    completions: int = 1
    template: _Template | None = None


class _Workload(_Any):
    spec: _WorkloadSpec | None = None
    status: _Object | None = None


class _Namespace(_Any):
    spec: _Object | None = None
    status: _Status | None = None


class _Target(_Shape):
    name: str | None = None


class Binding(_Any):
    """A Binding."""

    target: _Target | None = None


class _Preconditions(_Shape):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(_Shape):
    """What a deletion may say."""

    grace_period_seconds: int | None = None
    preconditions: _Preconditions | None = None
    dry_run: list[str] | None = None


class Eviction(_Any):
    """An Eviction."""

    delete_options: DeleteOptions | None = None


class _Attributes(_Shape):
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


class _ReviewSpec(_Shape):
    resource_attributes: _Attributes | None = None
    user: str | None = None


class Review(_Shape):
    """A question about access."""

    spec: _ReviewSpec | None = None


class _Names(_Shape):
    plural: str
    kind: str
    singular: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Column(_Shape):
    name: str
    type: str
    json_path: str
    priority: int = 0


class _Selectable(_Shape):
    json_path: str


class _Schema(_Shape):
    open_apiv3_schema: _Object | None = msgspec.field(default=None, name="openAPIV3Schema")


class _Version(_Shape):
    name: str
    served: bool
    storage: bool
    schema: _Schema | None = None
    subresources: _Object | None = None
    additional_printer_columns: list[_Column] | None = None
    selectable_fields: list[_Selectable] | None = None


class _DefinitionSpec(_Shape):
    group: str
    scope: str
    names: _Names
    versions: list[_Version]


class _Definition(_Any, kw_only=True):
    spec: _DefinitionSpec


_SHAPES: Final[dict[tuple[str, str], type[_Any]]] = {
    ("", "pods"): _Pod,
    ("", "nodes"): _Node,
    ("", "namespaces"): _Namespace,
    ("policy", "poddisruptionbudgets"): _Budget,
    ("scheduling.k8s.io", "priorityclasses"): _Class,
    ("apps", "replicasets"): _Workload,
    ("apps", "deployments"): _Workload,
    ("batch", "jobs"): _Workload,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _Definition,
}


def check_object(resource: Resource, obj: dict[str, Any]) -> None:
    """Refuse an object whose fields are not of their types.

    Raises:
        ApiError: 400.

    """
    shape = _Any if resource.is_custom else _SHAPES.get(resource.key, _Any)
    check(shape, obj, resource.kind)


def check(shape: type[msgspec.Struct], obj: dict[str, Any], kind: str) -> None:
    """Refuse what does not have a shape.

    Raises:
        ApiError: 400.

    """
    try:
        msgspec.convert(obj, shape)
    except (msgspec.ValidationError, RecursionError) as wrong:
        raise bad_request(f"{kind} cannot be handled: {wrong}") from wrong
