"""``kaisched plan`` with shares of GPUs that are claims: templates and claims are made for it."""

import json

import yaml

OBJECTS = """
apiVersion: kai.scheduler/v1
kind: SchedulingShard
metadata: {name: default}
spec: {resourceClaims: true, gpuSharing: {deviceClass: gpu.nvidia.com}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.nvidia.com"'}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "20"}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-gpus}
spec:
  driver: gpu.nvidia.com
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
    - {name: gpu-0, allowMultipleAllocations: true, capacity: {memory: {value: 80Gi}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: labs}
spec: {resources: {gpu: {quota: 2, limit: -1, overQuotaWeight: 1}}}
"""


def pod(name, is_named=True):
    template = "kaisched-gpu-fraction-0.5"
    claims = [{"name": "gpu-share", "resourceClaimTemplateName": template}] if is_named else []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"kai.scheduler/queue": "labs"},
            "annotations": {"gpu-fraction": "0.5"},
        },
        "spec": {
            "schedulerName": "kaisched",
            "resourceClaims": claims,
            "containers": [{"name": "main", "image": "x"}],
        },
    }


def test_shares_that_are_claims_are_planned(run, tmp_path):
    pods = [pod("a"), pod("b"), pod("c"), pod("d", is_named=False)]
    file = tmp_path / "shares.yaml"
    file.write_text("---".join([OBJECTS, *map(yaml.safe_dump, pods)]).replace("---", "\n---\n"))
    _, out, err = run("plan", "-f", file, "-o", "json")
    (found,) = json.loads(out)["cycles"]
    assert [(it["pod"], it["node"]) for it in found["binds"]] == [
        ("default/a", "n1"),
        ("default/b", "n1"),
    ]
    assert [it["reason"] for it in found["pending"]] == ["NoRoom", "Unsupported"]
    assert "resourceClaimTemplateName: kaisched-gpu-fraction-0.5" in err + out
    (queue,) = found["queues"]
    assert (queue["allocated"]["gpu"], queue["allocated"]["gpu-by-claim"]) == (1, 1)
    assert queue["requested"]["gpu"] == 1.5
