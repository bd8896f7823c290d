"""Priority classes, and the fields of workloads that grouping pods into jobs needs."""

# ruff: noqa: RUF012 - msgspec gives every struct its own copy of an empty list or dict

from __future__ import annotations

from typing import ClassVar

from kaisched.objects.pod import PodSpec
from kaisched.objects.wire import Condition, KubernetesObject, ObjectMeta, Wire
from kaisched.objects.workloads import Gang


class PriorityClass(KubernetesObject, frozen=True, kw_only=True):
    """A name for a priority."""

    API_VERSION: ClassVar[str] = "scheduling.k8s.io/v1"
    KIND: ClassVar[str] = "PriorityClass"
    IS_NAMESPACED: ClassVar[bool] = False

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

    API_VERSION: ClassVar[str] = "batch/v1"
    KIND: ClassVar[str] = "Job"

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class ReplicasSpec(Wire, frozen=True, kw_only=True):
    """Number of pods of a set; one if absent."""

    replicas: int = 1
    template: PodTemplate = PodTemplate()


class ReplicaSet(KubernetesObject, frozen=True, kw_only=True):
    """A ReplicaSet."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "ReplicaSet"

    spec: ReplicasSpec = ReplicasSpec()


class Deployment(KubernetesObject, frozen=True, kw_only=True):
    """A Deployment."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "Deployment"

    spec: ReplicasSpec = ReplicasSpec()


class StatefulSet(KubernetesObject, frozen=True, kw_only=True):
    """A StatefulSet."""

    API_VERSION: ClassVar[str] = "apps/v1"
    KIND: ClassVar[str] = "StatefulSet"

    spec: ReplicasSpec = ReplicasSpec()


class PartialObject(Wire, frozen=True, kw_only=True):
    """Metadata of an object of any kind, for walks along owner chains."""

    metadata: ObjectMeta
    api_version: str = ""
    kind: str = ""
    gang: Gang = Gang()
    """Gang by the object's spec."""
