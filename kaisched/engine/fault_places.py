"""Where the fault of a job was written, if the job has no PodGroup: on a pod, or on its owner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kaisched.objects.faults import Source
from kaisched.objects.load import identity_of
from kaisched.objects.pod import Pod
from kaisched.objects.podgroup import PodGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kaisched.cluster.declared import Problem
    from kaisched.cluster.embedded import EmbeddedCluster
    from kaisched.objects.load import Loaded, Manifest


def place_of(problem: Problem, cluster: EmbeddedCluster, loaded: Loaded) -> tuple[str, str, Source]:
    """Return kind, name and source of the object that a problem is about.

    A job without a PodGroup has what its pods and their owners say. Of these the first that has the
    label or annotation which the problem names is meant, or else the first pod.
    """
    at = (problem.kind, problem.name)
    if at in loaded.sources or problem.kind != PodGroup.KIND:
        return *at, loaded.sources.get(at, Source())
    sayers = list(_sayers(problem.name, cluster, loaded))
    told = [obj for obj in sayers if _is_named(obj, problem.text)]
    for obj in told or sayers:
        source = _source_of(obj, loaded)
        if source is not None:
            kind, name = identity_of(obj)
            return kind.partition(".")[0], name, source
    return *at, Source()


def _sayers(job: str, cluster: EmbeddedCluster, loaded: Loaded) -> Iterator[Manifest]:
    """Yield the pods of a job among the manifests, and then what owns them, from inside out."""
    keys = {pod.key for store in cluster.stores for pod in store.members.pods_of(job)}
    pods = [pod for pod in loaded.of(Pod) if pod.key in keys]
    found: list[Manifest] = [*sorted(pods, key=lambda pod: pod.key)]
    of_uid = {obj.metadata.uid: obj for obj in loaded.objects if obj.metadata.uid}
    for obj in found:  # grows
        yield obj
        for owner in obj.metadata.owner_references:
            if owner.uid in of_uid and of_uid[owner.uid] not in found:
                found.append(of_uid[owner.uid])


def _is_named(obj: Manifest, text: str) -> bool:
    meta = obj.metadata
    return any(f"{key}'" in text or f".{key}:" in text for key in (*meta.annotations, *meta.labels))


def _source_of(obj: Manifest, loaded: Loaded) -> Source | None:
    kind, name = identity_of(obj)
    among = (
        it.source
        for it in loaded.others
        if (it.kind, it.name) == (kind.partition(".")[0], obj.metadata.name)
    )
    return loaded.sources.get((kind, name)) or next(among, None)
