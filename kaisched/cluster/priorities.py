"""Priority classes: names for numbers, those that come with the install included."""

from __future__ import annotations

from typing import Final

from kaisched.core.tables import INFERENCE, INTERACTIVE, TRAINING
from kaisched.objects.labels import NON_PREEMPTIBLE, PREEMPTIBLE
from kaisched.objects.workloads import PriorityClass

BUILT_IN: Final = {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}
WORKLOAD_OF_CLASS: Final = {
    "train": TRAINING,
    "build-preemptible": INTERACTIVE,
    "build": INTERACTIVE,
    "inference": INFERENCE,
}
"""The type of workload that a class stands for."""
DEFAULT_PRIORITY: Final = 50
FIRST_NON_PREEMPTIBLE: Final = 100
"""Jobs of this priority or more are not preemptible unless they say so."""


class PriorityClasses:
    """What a priority class's name stands for."""

    def __init__(self) -> None:
        """Know the built-in classes."""
        self._class: dict[str, PriorityClass] = {}

    def put(self, cls: PriorityClass) -> bool:
        """Add or replace a class; return whether a number may have changed."""
        old = self._class.get(cls.name)
        self._class[cls.name] = cls
        return old is None or (old.value, old.global_default) != (cls.value, cls.global_default)

    def remove(self, name: str) -> bool:
        """Drop a class; return whether there was one."""
        return self._class.pop(name, None) is not None

    def find(self, name: str) -> int | None:
        """Return the value of a class, None for an unknown one."""
        cls = self._class.get(name)
        return cls.value if cls is not None else BUILT_IN.get(name)

    def value(self, name: str) -> int:
        """Return the value of a class, or the default for an unknown one."""
        value = self.find(name)
        return self.default if value is None else value

    def is_default(self, name: str) -> bool:
        """Tell whether an API server writes a class into every pod that names none."""
        return name in self._class and self._class[name].global_default

    @property
    def default(self) -> int:
        """What holds without a known class: the global default class's value, else 50."""
        # Kubernetes forbids two global defaults and takes the lower where there are two.
        return min(
            (cls.value for cls in self._class.values() if cls.global_default),
            default=DEFAULT_PRIORITY,
        )


def class_of(workload: int, declared: str | None, of_kind: str = "") -> str:
    """Return the class of a job that names none; empty for the cluster's default.

    Interactive work goes before training. So does what is not preemptible and does not say what it
    is. ``of_kind`` is the class of the job's kind where neither says anything else.
    """
    if workload == INTERACTIVE:
        return "build-preemptible" if declared == PREEMPTIBLE else "build"
    if workload in (TRAINING, INFERENCE):
        return "train" if workload == TRAINING else "inference"
    return of_kind or ("build" if declared == NON_PREEMPTIBLE else "")
