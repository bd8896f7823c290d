"""The node types that a project or department of Run:ai allows, by type of workload."""

from __future__ import annotations

from typing import Any, Final

from kaisched.engine.migration.parts import Part, Reasons
from kaisched.objects.labels import LABEL_VALUE

_LABEL: Final = "run.ai/type"
_LISTS: Final = {
    "training": ("trainNodeAffinity", "nodeAffinityTrain"),
    "interactive": ("interactiveNodeAffinity", "nodeAffinityInteractive"),
}
"""Keys of older exports, each a list of types."""
_WORDS: Final = {"training": ("training", "train"), "interactive": ("workspace", "interactive")}
"""What the two types of workload are called inside ``nodeTypes`` and ``nodeAffinity``."""
_ANY: Final = "no_limit"
_INNER: Final[Reasons] = {"id": "it tells of the export, and is no rule"}


def read_node_types(part: Part) -> list[dict[str, Any]]:
    """Take the node types of a project or department, as ``nodeAffinity`` of a queue."""
    newer, older = part.part("nodeTypes"), part.part("nodeAffinity")
    entries: list[dict[str, Any]] = []
    for workload, words in _WORDS.items():
        types: list[str] = []
        for key in _LISTS[workload]:
            types += _checked(part, key)
        for word in words:
            types += _checked(newer, word)
            types += _selected(older.part(word))
        if types:
            values = sorted(set(types))
            wanted = {"key": _LABEL, "operator": "In", "values": values}
            entries.append({"workloads": [workload], "terms": [{"matchExpressions": [wanted]}]})
    newer.rest({})
    older.rest({})
    return entries


def _selected(rule: Part) -> list[str]:
    """Take a rule that says whether there is a limit, and the types by id and name."""
    is_any = rule.text("affinityType").lower() == _ANY
    types = []
    for each in rule.parts("selectedTypes"):
        types += [name] if (name := each.text("name")) else []
        each.rest(_INNER)
    rule.rest({})
    return [] if is_any else types


def _checked(part: Part, key: str) -> list[str]:
    types = part.texts(key)
    for name in types:
        if not name or not LABEL_VALUE.fullmatch(name):
            part.wrong(key, "no value of a label", name, "write the types as nodes have them")
    return types
