"""Claims for extended resources as the scheduler of Kubernetes 1.36 makes them, recorded.

Each case is a pod, and the claim that was made for it with its allocation and which request each
container got.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kaisched.cluster.claims.conversion import claim_of, class_of, slice_of, taken_by, written
from kaisched.cluster.claims.generated import generated_for
from kaisched.core.claims.model import Site
from kaisched.core.claims.offer import Offer
from kaisched.core.claims.search import allocate
from kaisched.objects.devices import DeviceClass, ResourceSlice
from kaisched.objects.pod import Pod
from kaisched.objects.requests import resource_asks

RECORDED = Path(__file__).with_name("recorded_extended.json.gz")
CLASSES = {
    "example.com/gpu": "gpu",
    "example.com/nic": "nic",
    "deviceclass.resource.kubernetes.io/bare": "bare",
}


@cache
def recorded() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(gzip.decompress(RECORDED.read_bytes()))
    return data


def of_case(case: dict[str, Any]) -> dict[str, Any]:
    spec = {name: case[name] for name in ("containers", "initContainers")}
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)
    generated = generated_for(resource_asks(pod, ()), CLASSES)
    classes = [class_of(msgspec.convert(it, DeviceClass)) for it in recorded()["classes"]]
    offer = Offer(
        [slice_of(msgspec.convert(recorded()["slice"], ResourceSlice))],
        {it.name: it for it in classes},
    )
    selectors = {text.text: text for it in classes for text in it.selectors}
    wanted = [claim_of(generated.spec)]
    [found] = allocate(offer, Site("n1", {}), wanted, selectors, taken_by([])) or [None]
    assert found is not None
    return {
        "spec": [
            (it.name, it.exactly.device_class_name, it.exactly.count)
            for it in generated.spec.devices.requests
            if it.exactly is not None
        ],
        "allocation": msgspec.to_builtins(written(found, lambda: "*")),
        "mappings": [
            {"containerName": it.container, "resourceName": it.resource, "requestName": it.request}
            for it in generated.mappings
        ],
    }


def test_claims_for_extended_resources_are_those_that_kubernetes_makes() -> None:
    cases = recorded()["cases"]
    assert len(cases) >= 80
    assert sum(bool(it["initContainers"]) for it in cases) >= 40
    other = []
    for case in cases:
        expected = dict(case["expected"])
        expected["spec"] = [
            (it["name"], it["exactly"]["deviceClassName"], it["exactly"]["count"])
            for it in expected["spec"]["devices"]["requests"]
        ]
        if of_case(case) != expected:
            other.append(case["id"])
    assert other == []
