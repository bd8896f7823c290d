"""Objects of the gallery's situations, as plain values; tests of them are ``mark.proportion``."""

AGES = "2026-01-05T08:00:00Z"


STAYS = {"kai.scheduler/preemptibility": "non-preemptible"}
"""Labels of a pod that must not be evicted."""


def node(name="node-1", gpus=8, pods=110, labels=None, spec=None, conditions=None, **more):
    amounts = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus), "pods": str(pods)}
    status = {"allocatable": {**amounts, **more}}
    if conditions:
        status["conditions"] = conditions
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        **({"spec": spec} if spec else {}),
        "status": status,
    }


def queue(name="vision", parent="", quota=None, limit=None, weight=None, **spec):
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    gpu = {key: it for key, it in gpu.items() if it is not None}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {
            **({"parentQueue": parent} if parent else {}),
            **({"resources": {"gpu": gpu}} if gpu else {}),
            **spec,
        },
    }


def pod(name="mine", gpus=1, queue="vision", at="", created=AGES, labels=None, meta=None, **spec):
    """A pod that waits, or that runs since it was made."""
    main = {"name": "main", **spec.pop("main", {})}
    if gpus:
        main["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    found = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "creationTimestamp": created,
            "labels": {"kai.scheduler/queue": queue, **(labels or {})},
            **(meta or {}),
        },
        "spec": {
            "schedulerName": "kaisched",
            **({"nodeName": at} if at else {}),
            **spec,
            "containers": [main],
        },
    }
    if at:
        found["status"] = {"phase": "Running", "startTime": created}
    return found


def in_group(name, **of):
    """A pod of the group ``team``."""
    return pod(name, meta={"annotations": {"pod-group-name": "team"}}, **of)


def group(annotations=None, **spec):
    noted = {"annotations": annotations} if annotations else {}
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "team", "namespace": "team", "creationTimestamp": AGES, **noted},
        "spec": {"queue": "vision", **spec},
    }


def shard(**spec):
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def uses(claim):
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def claim(name, bound=False, **spec):
    done = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if bound else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "team", **done},
        "spec": {"accessModes": ["ReadWriteOnce"], **spec},
        "status": {"phase": "Bound" if bound else "Pending"},
    }


def volume(zone=""):
    at = {"key": "zone", "operator": "In", "values": [zone]}
    terms = [{"matchExpressions": [at]}]
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if zone else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {"storageClassName": "disk", **affinity},
    }


def storage_class(mode):
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "disk"},
        "provisioner": "example.com/disk",
        "volumeBindingMode": mode,
    }


DRIVER = "gpu.nvidia.com"


def devices(count, node="node-1", backs=""):
    """A class of devices, which may back a resource, and so many of them on a node."""
    selector = f'device.driver == "{DRIVER}"'
    offered = [{"name": f"gpu-{at}"} for at in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    slice_ = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": offered}
    meta = {"metadata": {"name": DRIVER}}
    v1 = "resource.k8s.io/v1"
    spec = {"selectors": [{"cel": {"expression": selector}}]}
    spec |= {"extendedResourceName": backs} if backs else {}
    yield {"apiVersion": v1, "kind": "DeviceClass", **meta, "spec": spec}
    meta = {"metadata": {"name": f"{node}-gpus"}}
    yield {"apiVersion": v1, "kind": "ResourceSlice", **meta, "spec": slice_}


def resource_claim(count, of=DRIVER):
    exactly = {"deviceClassName": of, "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "cards", "namespace": "team"},
        "spec": {"devices": {"requests": [{"name": "cards", "exactly": exactly}]}},
    }


def with_claim():
    return pod(gpus=0, resourceClaims=[{"name": "cards", "resourceClaimName": "cards"}])


RACKS = {
    "apiVersion": "kai.scheduler/v1alpha1",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}]},
}


def within(level):
    return {"topology": "racks", "requiredTopologyLevel": level}


def prefers(level):
    return {"topology": "racks", "preferredTopologyLevel": level}


LENDING = shard(plugins={"proportion": {"enabled": False}, "fair-sharing": {"enabled": True}})


def priority_class(name, value, **more):
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": {"name": name}, "value": value, **more}


def apart_from(app, key="kubernetes.io/hostname"):
    """Affinity of a pod that must not be where pods of an app are."""
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
