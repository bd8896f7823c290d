"""Small clusters with devices and claims, for tests."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kaisched.cluster.embedded import EmbeddedCluster
from kaisched.cluster.pods import Sharing
from kaisched.core.snapshot import Snapshot
from kaisched.engine.policy import build_policy
from kaisched.framework.cycle import run_cycle
from kaisched.framework.invariants.violations import violations
from kaisched.framework.memory import Memory
from kaisched.framework.plugins.loader import installed_plugins
from kaisched.framework.report.result import CycleResult
from kaisched.objects.decode import decode_object, type_of
from kaisched.objects.devices import ResourceClaim, ResourceSlice
from kaisched.objects.shard import SchedulingShard

DRIVER = "gpu.nvidia.com"
_VERSIONS = {
    "Queue": "scheduling.run.ai/v2",
    "Node": "v1",
    "Pod": "v1",
    "PodGroup": "scheduling.run.ai/v2alpha2",
    "Topology": "kai.scheduler/v1alpha1",
}


class World:
    """An embedded cluster with a queue for each name, whose cycles are run by hand."""

    def __init__(self, share_class: str = "", **quotas: int) -> None:
        """Make queues with quotas of GPUs; of a class, shares are claims."""
        self.slices: dict[str, ResourceSlice] = {}
        sharing = Sharing(share_class=share_class)
        self.cluster = EmbeddedCluster(start_delay_s=0.0, grace_s=1.0, sharing=sharing)
        for name, quota in quotas.items():
            self.put("Queue", name, spec={"resources": {"gpu": {"quota": quota}}})
        self.put("DeviceClass", DRIVER, spec=_selecting(f'device.driver == "{DRIVER}"'))
        self.policy()
        self._memory = Memory()
        self.result: CycleResult | None = None

    def policy(self, **plugins: Mapping[str, Any]) -> None:
        """Decide by the default policy, with other settings of some plugins."""
        text: dict[str, Any] = {"metadata": {"name": "s"}, "spec": {"plugins": plugins}}
        shard, _ = decode_object(text, SchedulingShard)
        self._policy, _ = build_policy(shard, installed_plugins())

    def put(self, kind: str, name: str, namespace: str = "", **more: Any) -> None:
        """Create or change an object."""
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        meta |= more.pop("metadata", {})
        obj, _ = decode_object({"metadata": meta, **more}, _type_of(kind))
        if isinstance(obj, ResourceSlice):
            self.slices[name] = obj
        self.cluster.load([obj])

    def remove(self, kind: str, name: str) -> None:
        """Delete an object that has no namespace, if it is there."""
        obj, _ = decode_object({"metadata": {"name": name}}, _type_of(kind))
        self.cluster.delete(obj)

    def node(
        self, name: str, *models: str, labels: Mapping[str, str] | None = None, **spec: Any
    ) -> None:
        """Add a node whose driver offers devices of these models."""
        amounts = {"cpu": 64, "memory": "256Gi", "pods": 110}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": amounts, "conditions": ready}
        self.put("Node", name, metadata={"labels": dict(labels or {})}, status=status)
        devices = [
            {"name": f"gpu-{at}", "attributes": {"model": {"string": model}}}
            for at, model in enumerate(models)
        ]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices} | spec
        if models:
            self.put("ResourceSlice", f"{name}-gpus", spec=spec)

    def template(self, name: str, count: int = 1, model: str = "", **more: Any) -> None:
        """Add a template of claims on devices."""
        self.put("ResourceClaimTemplate", name, "team", spec={"spec": asking(count, model, **more)})

    def claim(self, name: str, count: int = 1, model: str = "", **more: Any) -> None:
        """Add a claim on devices."""
        self.put("ResourceClaim", name, "team", spec=asking(count, model, **more))

    def pod(
        self,
        name: str,
        queue: str,
        *templates: str,
        claim: str | Sequence[str] = (),
        group: str = "",
    ) -> None:
        """Add a pod that names templates, or claims, in a pod group or alone."""
        named = [claim] if isinstance(claim, str) else claim
        claims: list[Mapping[str, str]] = [
            {"name": it, "resourceClaimTemplateName": it} for it in templates
        ]
        claims += [{"name": it, "resourceClaimName": it} for it in named]
        labels = {"kai.scheduler/queue": queue}
        self.put(
            "Pod",
            name,
            "team",
            metadata={"labels": labels, "annotations": {"pod-group-name": group} if group else {}},
            spec={
                "schedulerName": "kaisched",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}],
                "resourceClaims": claims,
            },
        )

    def cycle(self, for_s: float = 2.0) -> CycleResult:
        """Run a cycle, carry out what it decided, and let some time pass."""
        now_s = self.cluster.clock.now_s()
        result = self.decide(self.cluster.snapshot())
        self.cluster.apply(result.binds, result.evictions, result.nominations)
        failed = [it for it in self.cluster.history if it.what.endswith("failed")]
        assert not failed
        self.cluster.advance_to(now_s + for_s)
        self.result = result
        return result

    def decide(self, snapshot: Snapshot) -> CycleResult:
        """Run a cycle, and carry out nothing."""
        now_s = self.cluster.clock.now_s()
        result, self._memory = run_cycle(snapshot, None, self._policy, now_s, self._memory)
        assert not result.failures
        assert not violations(snapshot, result, self._policy, with_records=True)
        return result

    def delete(self, name: str) -> None:
        """Delete a pod, and let it go."""
        pod = self.cluster.pod(f"team/{name}")
        assert pod is not None
        self.cluster.delete(pod)
        self.cluster.advance_to(self.cluster.clock.now_s() + 2)

    @property
    def nodes(self) -> dict[str, str]:
        """Pod to node, empty for one that waits."""
        return {it.name: it.spec.node_name for it in self.cluster.pods()}

    def reason(self, name: str) -> tuple[str, str]:
        """Return why the job of a pod waits: the reason and the message."""
        assert self.result is not None
        found = [it for it in self.result.records if f"-{name}-" in it.pod_group]
        return found[0].reason, found[0].message

    def claims(self) -> Iterator[ResourceClaim]:
        """Yield the claims there are."""
        state = self.cluster.store.device_claims
        return iter(state.claims())

    def devices(self, claim: str) -> list[str]:
        """Return the devices of a claim, as pool and name."""
        found = next(it for it in self.claims() if it.name == claim)
        given = found.status.allocation
        return [f"{it.pool}/{it.device}" for it in (given.devices.results if given else ())]


def _type_of(kind: str) -> type[Any]:
    type_ = type_of(_VERSIONS.get(kind, "resource.k8s.io/v1"), kind)
    assert isinstance(type_, type)
    return type_


def asking(count: int = 1, model: str = "", **more: Any) -> dict[str, Any]:
    """Return the spec of a claim on so many devices, of a model if it says one."""
    exactly: dict[str, Any] = {"deviceClassName": DRIVER, "count": count}
    if model:
        exactly |= of_model(model)
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **more}}


def of_model(model: str) -> dict[str, Any]:
    """Return selectors of devices of a model."""
    return _selecting(f'device.attributes["{DRIVER}"].model == "{model}"')


def _selecting(expression: str) -> dict[str, Any]:
    return {"selectors": [{"cel": {"expression": expression}}]}
