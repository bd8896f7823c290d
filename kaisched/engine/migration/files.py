"""The files that a migration makes: queues, shards and settings, and the options of the chart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from kaisched.config.settings import API_VERSION, KIND
from kaisched.engine.migration.parts import Told
from kaisched.errors import Collector, ObjectError
from kaisched.objects.load import check_queues, load_text
from kaisched.objects.queue import Queue
from kaisched.objects.shard import SchedulingShard

OUR_NAME: Final = "kaisched"
_QUEUE: Final = {"apiVersion": Queue.API_VERSION, "kind": Queue.KIND}
_SHARD: Final = {"apiVersion": SchedulingShard.API_VERSION, "kind": SchedulingShard.KIND}


@dataclass(slots=True)
class Migration:
    """What becomes of an export: specs of queues and shards by name, and all that is said."""

    told: Told = field(default_factory=Told)
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Metadata (without the name) and spec of each queue."""
    shards: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Spec of each shard."""
    scheduler_names: list[str] = field(default_factory=lambda: [OUR_NAME])
    service_monitor: bool | None = None
    """Whether the chart makes a ServiceMonitor; None leaves it to the chart."""
    shares_gpus: bool = False

    def files(self) -> Mapping[str, str]:
        """Return the text of each file by name, after reading the objects as the daemon would.

        Raises:
            KaischedError: what was made of the export is wrong, or the export itself is.

        """
        told = Collector(self.told.errors)
        told.stop_if_any()
        texts = {
            "queues.yaml": _documents({**_QUEUE, **self._named(it)} for it in sorted(self.queues)),
            "shards.yaml": _documents(
                {**_SHARD, "metadata": {"name": name}, "spec": self.shards[name]}
                for name in sorted(self.shards)
            ),
            "settings.yaml": _documents([self._settings()]),
        }
        for error in _faults(texts):
            told.add(error)
        told.stop_if_any()
        return {name: text for name, text in texts.items() if text}

    def _named(self, name: str) -> dict[str, Any]:
        queue = self.queues[name]
        return {"metadata": {"name": name, **queue["metadata"]}, "spec": queue["spec"]}

    def _settings(self) -> dict[str, Any]:
        names = list(dict.fromkeys(self.scheduler_names))
        head = {"apiVersion": API_VERSION, "kind": KIND}
        return {**head, "cluster": "kubernetes", "schedulerNames": names}

    def helm(self) -> str:
        """Return the options of ``helm install`` that fit the files."""
        options = {
            "settings.schedulerNames": _listed(self.scheduler_names),
            "shards": _listed(sorted(self.shards) or ["default"]),
            "defaults.shard.create": not self.shards,
            "defaults.queues.create": not self.queues,
            "defaults.priorityClasses.create": False,
        }
        if self.service_monitor is not None:
            options["serviceMonitor.create"] = self.service_monitor
        if self.shares_gpus:
            options |= {"gpuSharing.create": True, "gpuEnvironment.create": True}
        return " ".join(
            f"--set '{key}={str(value).lower() if isinstance(value, bool) else value}'"
            for key, value in options.items()
        )


def _listed(names: list[str]) -> str:
    return f"{{{','.join(dict.fromkeys(names))}}}"


def _faults(texts: Mapping[str, str]) -> list[ObjectError]:
    """Return what the daemon would find wrong with the files."""
    queues, shards = (load_text(texts[name], name) for name in ("queues.yaml", "shards.yaml"))
    sources = {
        (Queue.KIND, queue.name): queues.sources[Queue.KIND, queue.key]
        for queue in queues.of(Queue)
    }
    _, problems = check_queues(queues.of(Queue), sources)
    return [*queues.problems, *shards.problems, *problems]


class _Plain(yaml.SafeDumper):
    """YAML without anchors: values that are shared in memory are written in full."""

    def ignore_aliases(self, data: object) -> bool:
        """Write every value in full."""
        del data
        return True


def _documents(values: Any) -> str:
    return "---\n".join(
        yaml.dump(value, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
        for value in values
    )
