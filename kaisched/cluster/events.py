"""Any object of a kind the store knows, taken in or dropped: for manifests and for watches."""

from __future__ import annotations

from kaisched.cluster.claims.device_claims import DEVICE_OBJECTS
from kaisched.cluster.grouping import Owner
from kaisched.cluster.store import StateStore
from kaisched.cluster.topologies import put_topology, remove_topology
from kaisched.objects.node import Node, Topology
from kaisched.objects.pod import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    StorageClass,
)
from kaisched.objects.podgroup import PodGroup
from kaisched.objects.queue import Queue
from kaisched.objects.shard import SchedulingShard
from kaisched.objects.wire import KubernetesObject
from kaisched.objects.workloads import PartialObject, PriorityClass


def upsert(store: StateStore, obj: KubernetesObject | PartialObject) -> None:
    """Take in an object that came or changed; shards are not the store's."""
    match obj:
        case Pod():
            store.upsert_pod(obj)
        case PodGroup():
            store.upsert_pod_group(obj)
        case Node():
            store.upsert_node(obj)
        case Queue():
            store.upsert_queue(obj)
        case PriorityClass():
            _touch(store, is_changed=store.members.put_class(obj))
        case PodDisruptionBudget():
            _touch(store, is_changed=store.facts.disruptions.put(obj, store.facts.sent.evictions))
        case PersistentVolumeClaim() | PersistentVolume() | StorageClass():
            store.look_again(store.volumes.put(obj))
        case Topology():
            put_topology(store, obj)
        case SchedulingShard():
            pass
        case _:
            _upsert_rest(store, obj)


def remove(store: StateStore, obj: KubernetesObject | PartialObject) -> None:
    """Drop an object."""
    match obj:
        case Pod():
            store.remove_pod(obj.key, obj.metadata.uid)
        case PodGroup():
            store.remove_pod_group(obj.key)
        case Node():
            store.remove_node(obj.name)
        case Queue():
            store.remove_queue(obj.name)
        case PriorityClass():
            _touch(store, is_changed=store.members.remove_class(obj.name))
        case PodDisruptionBudget():
            _touch(store, is_changed=store.facts.disruptions.remove(obj.key))
        case PersistentVolumeClaim() | PersistentVolume() | StorageClass():
            store.look_again(store.volumes.remove(obj))
        case Topology():
            remove_topology(store, obj.name)
        case SchedulingShard():
            pass
        case _:
            _remove_rest(store, obj)


def _touch(store: StateStore, *, is_changed: bool) -> None:
    if is_changed:
        store.rows.touch()


def _upsert_rest(store: StateStore, obj: KubernetesObject | PartialObject) -> None:
    if isinstance(obj, DEVICE_OBJECTS):
        store.rows.touch()
        store.look_again(store.device_claims.put(obj))
    else:
        store.upsert_owner(owner_of(obj))


def _remove_rest(store: StateStore, obj: KubernetesObject | PartialObject) -> None:
    if isinstance(obj, DEVICE_OBJECTS):
        store.rows.touch()
        store.look_again(store.device_claims.remove(obj))
    else:
        store.remove_owner(obj.metadata.uid)


def owner_of(obj: KubernetesObject | PartialObject) -> Owner:
    """Return what grouping needs of a workload."""
    if isinstance(obj, PartialObject):
        return Owner(_group(obj.api_version), obj.kind, obj.metadata, obj.gang)
    return Owner(_group(obj.API_VERSION), obj.KIND, obj.metadata)


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
