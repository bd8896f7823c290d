"""Redaction of annotations: what is kept, and what is replaced by aliases."""

from __future__ import annotations

import re
from json import dumps as to_text
from typing import TYPE_CHECKING, Final

from kaisched.cluster.claims.generated import NOTE as SPECIAL_CLAIM
from kaisched.engine.redacted_keys import NAMES, NUMBERS
from kaisched.errors import ObjectError
from kaisched.objects import labels
from kaisched.objects.workloads import layers_of

if TYPE_CHECKING:
    from kaisched.engine.aliases import Aliases

_PLAIN: Final = re.compile(r"[-+0-9.:TZeEnumshdwyukMGTPi]{1,40}", re.ASCII)
"""Numbers, amounts, durations and times: values of annotations that cannot be names."""


def without_names(alias: Aliases, old: dict[str, str]) -> dict[str, str]:
    """Return annotations without names."""
    new = {key: alias(use, old[key]) for key, use in NAMES.items() if key in old}
    new |= {key: old[key] for key in NUMBERS if _PLAIN.fullmatch(old.get(key, ""))}
    if old.get(SPECIAL_CLAIM) == "true":
        new[SPECIAL_CLAIM] = "true"
    if labels.SKIP_GROUPING in old:
        new[labels.SKIP_GROUPING] = ""
    if old.get(labels.POD_SET_UNCONSTRAINED) in ("true", "false"):
        new[labels.POD_SET_UNCONSTRAINED] = old[labels.POD_SET_UNCONSTRAINED]
    if labels.POD_SET_SLICES in old:
        new[labels.POD_SET_SLICES] = _layers(alias, old[labels.POD_SET_SLICES])
    if labels.NODE_POOLS in old:
        names = [name.strip() for name in old[labels.NODE_POOLS].split(",")]
        new[labels.NODE_POOLS] = ", ".join(pool(alias, name) for name in names)
    if labels.NODE_TYPE in old:
        types = [name.strip() for name in old[labels.NODE_TYPE].split(",")]
        new[labels.NODE_TYPE] = ", ".join(alias("value", name) for name in types)
    if labels.INDEPENDENT_PODS in old:
        new[labels.INDEPENDENT_PODS] = str(old[labels.INDEPENDENT_PODS] == "true").lower()
    return new


def _layers(alias: Aliases, text: str) -> str:
    """Return the layers of slices with aliases of their levels; invalid ones stay invalid."""
    try:
        layers = layers_of(text)
    except ObjectError:
        return "invalid"
    return to_text([{"topology": alias("key", level), "size": size} for level, size in layers])


def pool(alias: Aliases, name: str) -> str:
    """Return the alias of a node pool; the one of nodes without a label has none."""
    return name if name in {"", labels.DEFAULT_POOL} else alias("pool", name)
