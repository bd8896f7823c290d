"""Redaction of claims on devices and what is offered to them.

Names of devices, pools, classes and claims get aliases, and so do texts in attributes and in the
expressions about them, alike: equal texts stay equal. Texts of hardware makers' domains, numbers,
amounts and versions are kept. Settings of drivers are left out: no decision depends on them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kaisched.objects.gpus import REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from kaisched.engine.aliases import Aliases

_PUBLIC: Final = re.compile(
    r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|nvidia\.com|amd\.com|intel\.com)(/[A-Za-z0-9._-]+)?"
)
_AMOUNT: Final = re.compile(r"([-+]?[0-9][-+0-9.eEnumkKMGTPi]{0,40})?")
_QUOTED: Final = re.compile(r"\"([^\"\\]*)\"|'([^'\\]*)'")
_GPU: Final = "gpu"
OF_DEVICES: Final = (
    "ResourceSlice",
    "DeviceClass",
    "DeviceTaintRule",
    "ResourceClaim",
    "ResourceClaimTemplate",
)
"""The kinds that are about claims on devices."""


class DeviceWalk:
    """Replaces names in slices, classes, claims, their templates and taint rules."""

    def __init__(self, alias: Aliases, constraint: Callable[[Any], Any]) -> None:
        """Take the aliases, and what replaces names in node selectors."""
        self._alias, self._constraint = alias, constraint
        self.of_kind: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = dict(
            zip(
                OF_DEVICES,
                (self.slice, self.of_class, self.rule, self.claim, self.template),
                strict=True,
            )
        )

    # -- texts -----------------------------------------------------------------------------------

    def _text(self, text: str) -> str:
        if _PUBLIC.fullmatch(text) or _AMOUNT.fullmatch(text):
            return text
        return self._alias("value", text)

    def _qualified(self, name: str) -> str:
        """Return the name of an attribute or capacity: its identifier is no name of anybody."""
        domain, slash, rest = name.rpartition("/")
        return f"{self._text(domain)}{slash}{rest}" if slash else name

    def class_name(self, name: str) -> str:
        """Return the alias of a class."""
        return class_alias(self._alias, name)

    def _expression(self, text: str) -> str:
        return _QUOTED.sub(
            lambda it: f'"{self._text(it[1] if it[1] is not None else it[2])}"', text
        )

    def _selectors(self, selectors: list[Any]) -> list[Any]:
        return [
            {"cel": {"expression": self._expression(it["cel"].get("expression", ""))}}
            for it in selectors
            if it.get("cel")
        ]

    def _taint(self, taint: dict[str, Any]) -> dict[str, Any]:
        return {
            **taint,
            **{key: self._text(taint[key]) for key in ("key", "value") if key in taint},
        }

    # -- what is offered -------------------------------------------------------------------------

    def slice(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return a slice without names."""
        spec = self._placed(obj["spec"])
        spec["driver"] = self._text(spec.get("driver", ""))
        spec["pool"] = {**spec.get("pool", {}), "name": self._pool(spec.get("pool", {}))}
        spec["devices"] = [self._device(it) for it in spec.get("devices", [])]
        spec["sharedCounters"] = [
            {**it, "name": self._text(it.get("name", "")), "counters": self._keys(it)}
            for it in spec.get("sharedCounters", [])
        ]
        return {"spec": spec}

    def _pool(self, pool: dict[str, Any]) -> str:
        # Most pools are called as their nodes; pools are tried in the order of their names.
        return self._alias("node", pool.get("name", ""))

    def _keys(self, of: dict[str, Any]) -> dict[str, Any]:
        return {self._text(key): value for key, value in of.get("counters", {}).items()}

    def _placed(self, obj: dict[str, Any]) -> dict[str, Any]:
        new = dict(obj)
        if "nodeName" in new:
            new["nodeName"] = self._alias("node", new["nodeName"])
        if "nodeSelector" in new:
            new["nodeSelector"] = self._constraint(new["nodeSelector"])
        return new

    def _device(self, device: dict[str, Any]) -> dict[str, Any]:
        new = self._placed(device)
        new["name"] = self._alias("value", device.get("name", ""))
        new["attributes"] = {
            self._qualified(key): {
                kind: self._text(value) if kind == "string" else value for kind, value in it.items()
            }
            for key, it in device.get("attributes", {}).items()
        }
        new["capacity"] = {
            self._qualified(key): it for key, it in device.get("capacity", {}).items()
        }
        new["consumesCounters"] = [
            {"counterSet": self._text(it.get("counterSet", "")), "counters": self._keys(it)}
            for it in device.get("consumesCounters", [])
        ]
        new["taints"] = [self._taint(it) for it in device.get("taints", [])]
        for key in ("bindingConditions", "bindingFailureConditions"):
            new[key] = [self._text(it) for it in device.get(key, [])]
        return {key: value for key, value in new.items() if value not in ([], {})}

    def of_class(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return a class without names."""
        spec, old = obj.get("spec", {}), obj["metadata"]
        meta = {"name": self.class_name(old["name"]), "uid": self._uid(old)}
        new: dict[str, Any] = {"selectors": self._selectors(spec.get("selectors", []))}
        if "extendedResourceName" in spec:
            new["extendedResourceName"] = spec["extendedResourceName"]  # as in requests of pods
            meta |= {key: old[key] for key in ("creationTimestamp",) if key in old}  # newest first
        return {"metadata": meta, "spec": new}

    def rule(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return a rule that taints devices without names."""
        spec = dict(obj.get("spec", {}))
        if "deviceSelector" in spec:
            old = spec["deviceSelector"]
            new = {"driver": self._text(old.get("driver", ""))}
            new["pool"] = self._alias("node", old.get("pool", ""))
            new["device"] = self._alias("value", old.get("device", ""))
            spec["deviceSelector"] = {key: value for key, value in new.items() if value}
        return {"spec": {**spec, "taint": self._taint(spec.get("taint", {}))}}

    # -- what is asked for and given -------------------------------------------------------------

    def claim(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return a claim without names."""
        new: dict[str, Any] = {"spec": self._asked(obj.get("spec", {}))}
        status = obj.get("status", {})
        if status:
            users = [
                {**it, "name": self._alias("pod", it.get("name", "")), "uid": self._uid(it)}
                for it in status.get("reservedFor", [])
            ]
            new["status"] = {"reservedFor": users} if users else {}
            if "allocation" in status:
                new["status"]["allocation"] = self._given(status["allocation"])
        return new

    def references(self, listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what a pod, or its status, says of its claims, without names."""
        return [{key: self._alias("claim", name) for key, name in it.items()} for it in listed]

    def template(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return a template of claims without names."""
        return {"spec": {"spec": self._asked(obj.get("spec", {}).get("spec", {}))}}

    def _uid(self, of: dict[str, Any]) -> str:
        return self._alias("uid", of.get("uid", ""))

    def _name(self, text: str) -> str:
        """Return the alias of a request, or of an alternative of one; ours is no name."""
        if text == REQUEST:
            return text
        return "/".join(self._alias("value", it) for it in text.split("/"))

    def _asked(self, spec: dict[str, Any]) -> dict[str, Any]:
        devices = spec.get("devices", {})
        constraints = [
            {
                **{
                    key: self._qualified(it[key])
                    for key in ("matchAttribute", "distinctAttribute")
                    if key in it
                },
                "requests": [self._name(name) for name in it.get("requests", [])],
            }
            for it in devices.get("constraints", [])
        ]
        requests = [self._request(it) for it in devices.get("requests", [])]
        return {"devices": {"requests": requests, "constraints": constraints}}

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        new: dict[str, Any] = {"name": self._name(request.get("name", ""))}
        if "exactly" in request:
            new["exactly"] = self._exact(request["exactly"])
        if "firstAvailable" in request:
            new["firstAvailable"] = [
                {**self._exact(it), "name": self._name(it.get("name", ""))}
                for it in request["firstAvailable"]
            ]
        return new

    def _exact(self, exact: dict[str, Any]) -> dict[str, Any]:
        new = dict(exact)
        new["deviceClassName"] = self.class_name(exact.get("deviceClassName", ""))
        new["selectors"] = self._selectors(exact.get("selectors", []))
        new["tolerations"] = [self._taint(it) for it in exact.get("tolerations", [])]
        if "capacity" in exact:
            asked = exact["capacity"].get("requests", {})
            new["capacity"] = {"requests": {self._qualified(key): it for key, it in asked.items()}}
        return new

    def _given(self, allocation: dict[str, Any]) -> dict[str, Any]:
        results = [
            {
                **{key: it[key] for key in ("adminAccess", "shareID") if key in it},
                "request": self._name(it.get("request", "")),
                "driver": self._text(it.get("driver", "")),
                "pool": self._pool({"name": it.get("pool", "")}),
                "device": self._alias("value", it.get("device", "")),
                "consumedCapacity": {
                    self._qualified(key): of for key, of in it.get("consumedCapacity", {}).items()
                },
            }
            for it in allocation.get("devices", {}).get("results", [])
        ]
        new: dict[str, Any] = {"devices": {"results": results}}
        if "nodeSelector" in allocation:
            new["nodeSelector"] = self._constraint(allocation["nodeSelector"])
        return new


def class_alias(alias: Aliases, name: str) -> str:
    """Return the alias of a class, which tells as before whether it is one of GPUs."""
    new = alias("class", name)
    return f"{_GPU}-{new}" if _GPU in name.lower() and _GPU not in new else new
