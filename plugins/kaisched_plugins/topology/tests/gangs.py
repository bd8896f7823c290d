"""Nodes in racks and gangs of unequal pods, for tests."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kaisched.testing import ClusterBuilder


def racks(*sizes: tuple[str, int], **options: Any) -> ClusterBuilder:
    """Build nodes A1, A2, B1 and so on with so many GPUs each, in the racks A and B."""
    builder = ClusterBuilder().topology("t", "rack").queue("a", deserved=8).queue("v")
    for name, gpus in sizes:
        builder.node(name, gpu=gpus, labels={"rack": name[0]}, **options)
    return builder


def asking(builder: ClusterBuilder, *requests: Mapping[str, int]) -> ClusterBuilder:
    """Let the first pods of the last job ask for other amounts, in base units."""
    job = builder._jobs[-1]
    some = [
        replace(task, request={**task.request, **request})
        for task, request in zip(job.tasks, requests, strict=False)
    ]
    builder._jobs[-1] = replace(job, tasks=[*some, *job.tasks[len(some) :]])
    return builder
