"""Batch Jobs that Kueue admits whole: how many pods run at once, and the pods that do not exist."""

from __future__ import annotations

from collections.abc import Container
from hashlib import sha256
from typing import Final

from msgspec.structs import replace

from kaisched.objects.owners import Job
from kaisched.objects.pod import Pod
from kaisched.objects.wire import ObjectMeta, OwnerReference
from kaisched.objects.workloads import MOST

_ENDED: Final = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")


def with_uid(job: Job) -> Job:
    """Return a Job with a UID: one that was written by hand has none, and pods name it by that."""
    if job.metadata.uid:
        return job
    uid = sha256(job.key.encode()).hexdigest()[:8]
    return replace(job, metadata=replace(job.metadata, uid=uid))


def pods_at_once(job: Job) -> int:
    """Return how many pods of a Job run together: what is left to do, up to its parallelism.

    0 for a Job that is over, and for numbers that make no sense.
    """
    spec, status = job.spec, job.status
    if any(it.type in _ENDED and it.status == "True" for it in status.conditions):
        return 0
    pods = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is not None:
        pods = min(pods, spec.completions - max(status.succeeded, 0))
    return pods if 0 <= pods <= MOST else 0


def missing_pods(job: Job, taken: Container[str]) -> list[Pod]:
    """Return the pods of a Job that has none; Kueue makes none before it admits the Job.

    Args:
        job: with a UID.
        taken: keys of other pods.

    """
    meta, template = job.metadata, job.spec.template
    owner = OwnerReference(
        api_version=job.API_VERSION, kind=job.KIND, name=job.name, uid=meta.uid, controller=True
    )
    pods: list[Pod] = []
    number = 0
    while len(pods) < pods_at_once(job):
        name = f"{job.name}-{number}"
        number += 1
        if f"{meta.namespace}/{name}" not in taken:
            pod = ObjectMeta(
                name=name,
                namespace=meta.namespace,
                labels=template.metadata.labels,
                annotations=template.metadata.annotations,
                creation_timestamp=meta.creation_timestamp,
                owner_references=[owner],
            )
            pods.append(Pod(metadata=pod, spec=template.spec))
    return pods
