"""The requests whose answers were recorded, in their order, and what a server answers to them.

The pods have the names they had then, since messages show them; the namespace must be new.
"""

import json

from tests.contract.apiserver.client import APPLY, JSON_PATCH, STRATEGIC, binding, eviction, pod

OTHER_UID = "11111111-1111-1111-1111-111111111111"
NODE = {"apiVersion": "v1", "kind": "Node"}


def answered(answer):
    body = answer.body
    found = {"code": answer.code, **{key: body.get(key) for key in ("kind", "reason", "message")}}
    return {**found, "details": body.get("details")}


def creations(client, pods):
    first = client.post(pods, pod("a"))
    yield "create pod", answered(first)
    yield "create pod: defaults", {"spec": first.body["spec"]}
    generation = first.body["metadata"].get("generation")
    yield "create pod: status", {"status": first.body["status"], "generation": generation}
    yield "create pod: names in metadata", {"metadata": sorted(first.body["metadata"])}
    yield "create again", answered(client.post(pods, pod("a")))
    bare = {**pod("z"), "spec": {"containers": []}}
    yield "create without containers", answered(client.post(pods, bare))
    limited = client.post(pods, pod("g1", gpus=2), dryRun="All")
    yield "limits gpu only is defaulted", answered(limited)
    resources = limited.body["spec"]["containers"][0]["resources"]
    yield "limits gpu only is defaulted: resources", {"resources": resources}
    uneven = pod("g2", gpus=2)
    uneven["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": "1"}
    yield "gpu request != limit", answered(client.post(pods, uneven))
    yield "fractional gpu", answered(client.post(pods, pod("g3", gpus="500m")))
    unknown = pod("pp", priorityClassName="nope")
    yield "priorityClass unknown", answered(client.post(pods, unknown))


def bindings(client, ns, pods):
    for name in ("b", "c", "d"):
        client.post(pods, pod(name))
    client.post(pods, pod("f"))
    client.post(pods, pod("gate", schedulingGates=[{"name": "example.com/wait"}]))

    def bind(name, **metadata):
        return client.post(f"{pods}/{name}/binding", binding(name, "n1", **metadata))

    yield "bind (node absent)", answered(bind("a"))
    bound = client.get(f"{pods}/a").body
    shown = {"node": bound["spec"]["nodeName"], "status": bound["status"]}
    yield "bind (node absent): pod", {**shown, "generation": bound["metadata"].get("generation")}
    yield "bind again same node", answered(bind("a"))
    yield "bind absent pod", answered(bind("nope"))
    yield "bind wrong uid", answered(bind("b", uid=OTHER_UID))
    marked = bind("b", annotations={"kai/x": "y"}, labels={"l": "m"})
    yield "bind with annotations+labels", answered(marked)
    meta = client.get(f"{pods}/b").body["metadata"]
    shown = {"annotations": meta["annotations"], "labels": meta["labels"]}
    yield "bind with annotations+labels: pod", shown
    yield "bind gated", answered(bind("gate"))
    yield "bind gated: status", {"status": client.get(f"{pods}/gate").body["status"]}
    collection = client.post(f"/api/v1/namespaces/{ns}/bindings", binding("c", "n1"))
    yield "bindings collection", answered(collection)
    moved = client.patch(f"{pods}/d", {"spec": {"nodeName": "n1"}})
    yield "patch nodeName directly", answered(moved)
    placed = pod("e", scheduler="default-scheduler", nodeName="n9")
    yield "create with nodeName", answered(client.post(pods, placed))


def departures(client, pods):
    yield "delete unbound pod, grace default", answered(client.delete(f"{pods}/d"))
    yield "delete unbound pod, grace default: get", answered(client.get(f"{pods}/d"))
    yield "delete bound pod, grace default", answered(client.delete(f"{pods}/a"))
    meta = client.get(f"{pods}/a").body["metadata"]
    shown = {"is_leaving": "deletionTimestamp" in meta}
    yield (
        "delete bound pod, grace default: pod",
        {**shown, "grace": meta["deletionGracePeriodSeconds"]},
    )
    again = client.post(f"{pods}/a/binding", binding("a", "n1"))
    yield "bind a deleting unbound pod?", answered(again)
    yield "delete grace 0", answered(client.delete(f"{pods}/a", {"gracePeriodSeconds": 0}))
    yield "delete grace 0: get", answered(client.get(f"{pods}/a"))

    def evict(name, **options):
        return answered(client.post(f"{pods}/{name}/eviction", eviction(name, **options)))

    yield "evict bound, pending", evict("b")
    evicted = client.get(f"{pods}/b").body
    shown = {"conditions": evicted["status"]["conditions"]}
    grace = evicted["metadata"]["deletionGracePeriodSeconds"]
    yield "evict bound, pending: pod", {**shown, "grace": grace}
    yield "evict again", evict("b")
    yield "evict absent", evict("nope")
    yield "evict unbound", evict("f")
    yield "evict unbound: get", answered(client.get(f"{pods}/f"))
    yield "evict dry-run", evict("e", dryRun=["All"])


def changes(client, pods):
    status = f"{pods}/e/status"
    yield "status patch merge", answered(client.patch(status, {"status": {"phase": "Running"}}))
    mixed = {"metadata": {"labels": {"q": "1"}}, "spec": {"nodeName": "n1"}}
    ignored = client.patch(status, mixed)
    yield "spec in status patch is ignored", answered(ignored)
    yield (
        "spec in status patch is ignored: labels",
        {"labels": ignored.body["metadata"]["labels"]},
    )
    ignored = client.patch(f"{pods}/e", {"status": {"phase": "Failed"}})
    yield "status in plain patch is ignored", answered(ignored)
    yield "status in plain patch is ignored: phase", {"phase": ignored.body["status"]["phase"]}
    now = client.get(f"{pods}/e").body
    stale = {"resourceVersion": "1", "labels": {"q": "2"}}
    yield (
        "patch with stale resourceVersion",
        answered(client.patch(f"{pods}/e", {"metadata": stale})),
    )
    old = {**now, "metadata": {**now["metadata"], **stale}}
    yield "put with stale resourceVersion", answered(client.put(f"{pods}/e", old))
    other = {"metadata": {"uid": OTHER_UID}}
    yield "patch with other uid", answered(client.patch(f"{pods}/e", other))
    yield "status patch with other uid", answered(client.patch(status, other))
    same = client.patch(f"{pods}/e", {"metadata": {"labels": {"q": "1"}}})
    yield (
        "no-op patch keeps resourceVersion",
        {"is_same": same.version == now["metadata"]["resourceVersion"]},
    )
    applied = {**NODE, "kind": "Pod", "metadata": {"name": "e", "labels": {"s": "1"}}}
    applied = client.patch(f"{pods}/e", applied, type_=APPLY, fieldManager="t", force="true")
    yield "server-side apply pod label", answered(applied)
    steps = [{"op": "test", "path": "/metadata/name", "value": "x"}]
    yield "json patch test fails", answered(client.patch(f"{pods}/e", steps, type_=JSON_PATCH))
    wrong = client.delete(f"{pods}/e", {"preconditions": {"uid": OTHER_UID}})
    yield "delete with uid precondition", answered(wrong)


def lists(client, ns, pods, start):
    for selector in (
        "spec.nodeName=n9",
        "spec.schedulerName=kaisched",
        "status.phase=Pending",
        "spec.nodeName!=",
        "metadata.name=e",
        "spec.priority=0",
        "status.podIP=1.2.3.4",
    ):
        found = client.get(pods, fieldSelector=selector)
        shown = {**answered(found), "items": len(found.body.get("items", []))}
        yield f"fieldSelector {selector}", shown
    page = client.get(pods, limit=2)
    meta = page.body["metadata"]
    shown = {"code": page.code, "items": len(page.body["items"]), "has_more": "continue" in meta}
    yield "limit=2", {**shown, "left": meta.get("remainingItemCount")}
    yield "bad continue", answered(client.get(pods, limit=2, **{"continue": "abc"}))
    future = "99999999"
    yield "list rv in the future", answered(client.get(pods, resourceVersion=future))
    exact = client.get(pods, resourceVersion=start, resourceVersionMatch="Exact")
    yield "list rv=1 exact", answered(exact)
    events = client.watch(pods, resourceVersion=start)[1]
    yield "watch rv=1", {"events": [it["type"] for it in events[:3]]}
    events = client.watch(pods, resourceVersion=future)[1]
    yield "watch rv in the future", {"events": [it["type"] for it in events]}
    yield "unknown resource", answered(client.get(f"/api/v1/namespaces/{ns}/things"))
    yield "unknown crd group", answered(client.get("/apis/no.such.group/v1/things"))


def others(client, ns, pods):
    path = f"/api/v1/nodes/{ns}"
    node = {**NODE, "metadata": {"name": ns}, "status": {"capacity": {"nvidia.com/gpu": "8"}}}
    made = client.post("/api/v1/nodes", node)
    yield "node create", answered(made)
    yield "node create: taints", {"spec": made.body["spec"]}
    info = made.body["status"]["nodeInfo"]
    yield (
        "node create: status",
        {"status": made.body["status"], "machine_id": info["machineID"]},
    )
    more = {"status": {"capacity": {"cpu": "4"}}}
    patched = client.patch(f"{path}/status", more, type_=STRATEGIC)
    yield "node status patch strategic", answered(patched)
    yield "node status patch strategic: status", patched.body["status"]
    client.delete(path)
    yield "deletecollection", answered(client.delete(pods, labelSelector="no=such"))
    event = {
        "metadata": {"name": "ev"},
        "regarding": {"kind": "Pod", "name": "e", "namespace": ns},
        "reason": "Scheduled",
        "action": "Binding",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "kaisched",
        "reportingInstance": "kaisched-0",
    }
    events = f"/apis/events.k8s.io/v1/namespaces/{ns}/events"
    yield "events.k8s.io create", answered(client.post(events, event))
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
    lease = client.post(leases, {"metadata": {"name": "k"}, "spec": {"holderIdentity": "x"}})
    yield "lease create", answered(lease)
    renewed = {**lease.body, "spec": {"holderIdentity": "y"}}
    client.put(f"{leases}/k", renewed)
    late = json.loads(json.dumps(renewed))
    yield "lease put stale", answered(client.put(f"{leases}/k", late))


def recorded_requests(client, ns):
    """Make the requests; yield what each is about, and its answer."""
    pods = f"/api/v1/namespaces/{ns}/pods"
    start = client.get(pods).version
    yield from creations(client, pods)
    yield from bindings(client, ns, pods)
    yield from departures(client, pods)
    yield from changes(client, pods)
    yield from lists(client, ns, pods, start)
    yield from others(client, ns, pods)
