"""The part of the schema of shards about sharing GPUs: descriptions, bounds, rules in CEL."""

from __future__ import annotations

from typing import Final

from kaisched.objects.crd_parts import cel, rules, says
from kaisched.objects.crd_schema import Schema

SHARING_RULES: Final[dict[str, Schema]] = {
    "": rules(
        cel(
            "(has(self.image) && self.image != '')"
            " != (has(self.deviceClass) && self.deviceClass != '')",
            "name the image of the agent, or a deviceClass",
        ),
        cel(
            "!has(self.backend) || (self.backend == 'claim')"
            " == (has(self.deviceClass) && self.deviceClass != '')",
            "reservation goes with image, claim with deviceClass",
        ),
        cel(
            "!has(self.deviceClass) || self.deviceClass == '' || !has(self.runtimeClass)"
            " || self.runtimeClass == ''",
            "runtimeClass goes with image",
        ),
        cel(
            "!has(self.deviceClass) || self.deviceClass == ''"
            " || !((has(self.configMaps) && self.configMaps)"
            " || (has(self.cdiNames) && self.cdiNames))",
            "configMaps and cdiNames go with image",
        ),
    ),
    "backend": says(
        "reservation: a pod for each shared GPU takes it from the device plugin; claim: a share"
        " is a claim on a part of a device. Left out: the one that is set up."
    ),
    "image": says("Image of the pod that takes a shared GPU.", maxLength=1024),
    "runtime_class": says("Runtime class of that pod.", maxLength=253),
    "config_maps": says("Writes the ConfigMaps that KAI-Scheduler's webhook names on pods."),
    "cdi_names": says("GPUs have names of CDI in these ConfigMaps."),
    "device_class": says(
        "Class of the devices of which claims have parts.",
        maxLength=253,
        pattern="^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$",
    ),
}
