"""An export of another scheduler: every key taken, told of or wrong; and the files made of it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import yaml

from kaisched.config.settings import API_VERSION, KIND
from kaisched.errors import ABSENT, Collector, ObjectError, join_path
from kaisched.objects.faults import Fault, Source, to_error
from kaisched.objects.faults import Path as Steps
from kaisched.objects.load import check_queues, load_text, read_values
from kaisched.objects.queue import Queue
from kaisched.objects.shard import SchedulingShard
from kaisched.telemetry.logs import masked
from kaisched.units import UnitError, parse_duration

Reasons: TypeAlias = Mapping[str, "str | Reasons"]
"""Why keys are not taken; those inside a key may have reasons of their own."""

UNKNOWN: Final = "kaisched does not know this key: see what it did, and whether you need it"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)


class Note(NamedTuple):
    """Something that a file does not hold, and why; or something that is left to do."""

    source: Source
    path: str
    text: str
    value: object = ABSENT


@dataclass(slots=True)
class Told:
    """All that is said about an export beside the files made of it."""

    left: list[Note] = field(default_factory=list)
    """What is not taken, and why."""
    to_do: list[Note] = field(default_factory=list)
    """What no file can do."""
    errors: list[ObjectError] = field(default_factory=list)


class Part:
    """One map of an export. Nulls count as absent."""

    def __init__(self, raw: object, at: Steps, source: Source, told: Told) -> None:
        """Begin with all keys; what is no map is an error, and has none."""
        self.at, self.source, self.told = at, source, told
        self._left: dict[str, Any] = {}
        if isinstance(raw, dict):
            self._left = {str(key): value for key, value in raw.items() if value is not None}
        else:
            self.wrong("", "no map", raw, "export it again, as it was given out")

    def wrong(self, key: str, message: str, value: object, fix: str) -> None:
        """Add an error about a key, or about the map itself."""
        shown = masked(key, value)
        fault = Fault((*self.at, key) if key else self.at, message, shown, fix)
        self.told.errors.append(to_error(fault, self.source))

    def has(self, key: str) -> bool:
        """Tell whether a key is given and was not taken yet."""
        return key in self._left

    def raw(self, key: str) -> Any:
        """Take a value as it is; None without one."""
        return self._left.pop(key, None)

    def text(self, *keys: str) -> str:
        """Take the text, or number, of the first key that is given."""
        for key in keys:
            value = self.raw(key)
            if isinstance(value, str | int) and not isinstance(value, bool):
                return str(value)
            if value is not None:
                self.wrong(key, "no text", value, "write a text")
        return ""

    def name(self, *keys: str) -> str:
        """Take the name of something that becomes an object of Kubernetes."""
        key = next((it for it in keys if self.has(it)), keys[0])
        name = self.text(key)
        if not _NAME.fullmatch(name):
            shown = name or ABSENT
            fix = "write small letters, digits, hyphens and dots"
            self.wrong(key, "no name" if name else "missing", shown, fix)
        return name

    def switch(self, key: str) -> bool | None:
        """Take true or false; None without a value."""
        value = self.raw(key)
        if value is None or isinstance(value, bool):
            return value
        if str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        self.wrong(key, "neither true nor false", value, "write true or false")
        return None

    def number(self, key: str, least: float = 0) -> float | None:
        """Take a number, which may be written as a text; -1 stands for no bound."""
        value = self.raw(key)
        if value is None:
            return None
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isfinite(number) and number >= least:
            return int(number) if number.is_integer() else number
        self.wrong(
            key,
            "no number" if math.isnan(number) else "out of range",
            value,
            f"write a number of at least {least:g}",
        )
        return None

    def seconds(self, key: str) -> str:
        """Take a number of seconds as a duration; empty without one, or for 0."""
        number = self.number(key)
        return f"{number:g}s" if number else ""

    def duration(self, key: str) -> str:
        """Take a duration as it is written; empty without one."""
        text = self.text(key)
        if text:
            try:
                parse_duration(text)
            except UnitError as error:
                self.wrong(key, str(error), text, error.fix)
                return ""
        return text

    def texts(self, key: str) -> list[str]:
        """Take a list of texts."""
        value = self.raw(key)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(it, str | int) for it in value):
            return [str(it) for it in value]
        self.wrong(key, "no list of texts", value, "write a list such as [a, b]")
        return []

    def part(self, key: str) -> Part:
        """Take a map; an empty one if there is none."""
        return Part(self._left.pop(key, {}), (*self.at, key), self.source, self.told)

    def parts(self, key: str) -> list[Part]:
        """Take a list of maps."""
        value = self._left.pop(key, [])
        if not isinstance(value, list):
            self.wrong(key, "no list", value, "export it again, as it was given out")
            return []
        return [
            Part(it, (*self.at, key, at), self.source, self.told) for at, it in enumerate(value)
        ]

    def leave(self, key: str, reason: str) -> None:
        """Take a key and say why it is not used."""
        if self.has(key):
            self._leave((*self.at, key), self.raw(key), reason)

    def to_do(self, text: str, *steps: str) -> None:
        """Say what no file can do."""
        self.told.to_do.append(Note(self.source, join_path(*self.at, *steps), text))

    def rest(self, reasons: Reasons) -> None:
        """Say of every key that was not taken why it is not used."""
        for key in list(self._left):
            reason = reasons.get(key, reasons.get("*", UNKNOWN))
            value = self.raw(key)
            if isinstance(reason, str):
                self._leave((*self.at, key), value, reason)
            elif isinstance(value, dict):
                Part(value, (*self.at, key), self.source, self.told).rest(reason)
            else:
                self._leave((*self.at, key), value, UNKNOWN)

    def _leave(self, at: Steps, value: object, reason: str) -> None:
        for path, each in _leaves(value, at):
            shown = masked(join_path(*path), each)
            self.told.left.append(Note(self.source, join_path(*path), reason, shown))


def _leaves(value: object, at: Steps) -> Iterator[tuple[Steps, object]]:
    """Yield every value inside a map, so that no key of it is left out; lists are one value."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*at, str(key)))
    else:
        yield at, value


_OF_LISTS: Final = ("next", "count", "total", "offset", "limit", "metadata", "apiVersion", "kind")
"""Keys beside the entries of a list, which say how it was read."""


class Item(NamedTuple):
    """One object or entry of an export."""

    kind: str
    raw: dict[str, Any]
    at: Steps
    source: Source

    def part(self, told: Told, *, inside: str = "") -> Part:
        """Return a cursor over the item, or over the map under a key of it."""
        if not inside:
            return Part(self.raw, self.at, self.source, told)
        return Part(self.raw.get(inside) or {}, (*self.at, inside), self.source, told)

    def entry(self, told: Told, about: Reasons) -> Part:
        """Return a cursor over an entry of a list, or over the spec and the name of an object.

        What else an object has is told of, with the reasons of ``about``.
        """
        if "spec" not in self.raw:
            return self.part(told)
        whole = self.part(told)
        for key in ("apiVersion", "kind", "spec", "metadata"):
            whole.raw(key)
        whole.rest(about)
        meta, spec = self.raw.get("metadata"), self.raw["spec"]
        name = meta.get("name") if isinstance(meta, dict) else None
        raw = {"name": name, **spec} if isinstance(spec, dict) else spec
        return Part(raw, (*self.at, "spec"), self.source, told)


def items(files: list[Path], lists: Mapping[str, str], told: Told) -> list[Item]:
    """Return all items of some files; ``lists`` gives the kind of the entries of each list by key.

    Raises:
        ObjectError: files cannot be read; it holds all further errors of files.

    """
    found: list[Item] = []
    errors = Collector()
    for file in files:
        with errors.collecting():
            for value, source in read_values(file):
                found += _items(value, (), source, lists, told)
    errors.stop_if_any()
    return found


def nothing_in(files: Sequence[Path], wanted: str) -> ObjectError:
    """Return what is to be said of files with nothing that is read."""
    fix = f"name files with {wanted}"
    return ObjectError("holds nothing that is read", file=", ".join(map(str, files)), fix=fix)


def _items(
    raw: object, at: Steps, source: Source, lists: Mapping[str, str], told: Told
) -> Iterator[Item]:
    if raw is None:
        return
    part = Part(raw, at, source, told)
    if not isinstance(raw, dict):
        return
    kind, entries = raw.get("kind"), raw.get("items")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(entries, list):
        for number, entry in enumerate(entries):
            one = kind.removesuffix("List")
            typed = {"kind": one, **entry} if one and isinstance(entry, dict) else entry
            yield from _items(typed, (*at, "items", number), source, lists, told)
        return
    if isinstance(kind, str) and kind:
        yield Item(kind, raw, at, source)
        return
    known = [key for key in raw if key in lists]
    if not known:
        lists_too = f", or a map with {', '.join(sorted(lists))}" if lists else ""
        fix = f"give objects, as kubectl get -o yaml does{lists_too}"
        part.wrong("", "no object with a kind", sorted(raw)[:5], fix)
        return
    for key in known:
        part.parts(key)  # says what is no list of maps
        for number, entry in enumerate(raw[key] if isinstance(raw[key], list) else ()):
            if isinstance(entry, dict):
                yield Item(lists[key], entry, (*at, key, number), source)
    part.rest(dict.fromkeys(_OF_LISTS, "it says how the list was read"))


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
