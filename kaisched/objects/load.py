"""Loader of manifests from files, directories and texts: good objects, and problems of bad ones.

Manifests are YAML with any number of documents, JSON, or lists (``kind: List``) of either. Nothing
here raises: input that cannot be used becomes an :class:`kaisched.errors.ObjectError` that names
file, document, object and path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from kaisched.errors import ObjectError, join_path
from kaisched.objects.decode import BadObject, decode_object, name_in
from kaisched.objects.faults import Fault, Source, to_error
from kaisched.objects.json_text import read_json
from kaisched.objects.kinds import type_of
from kaisched.objects.owners import PartialObject
from kaisched.objects.wire import KubernetesObject
from kaisched.objects.yaml_text import TextFault, read_yaml

MAX_BYTES: Final = 256 << 20
"""Largest file that is read."""
SUFFIXES: Final = (".yaml", ".yml", ".json")

_SEPARATOR: Final = re.compile(rb"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_NO_CONTENT: Final = (b"#", b"%", b"...")
_MAX_LISTS: Final = 4
_EXAMPLE: Final = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue"}
_BOM: Final = b"\xef\xbb\xbf"

_T = TypeVar("_T", bound=KubernetesObject)


Manifest: TypeAlias = KubernetesObject | PartialObject
"""An object that was read: as a whole, or of a workload only the fields for grouping pods."""


def identity_of(obj: Manifest) -> tuple[str, str]:
    """Return (kind, key) of an object; a workload's kind includes its API group to be unique."""
    if isinstance(obj, PartialObject):
        group = obj.api_version.rpartition("/")[0]
        return f"{obj.kind}.{group}", f"{obj.metadata.namespace}/{obj.metadata.name}"
    return obj.KIND, obj.key


class Other(NamedTuple):
    """An object of a kind without a struct: a workload that owns pods, or one to be ignored."""

    api_version: str
    kind: str
    name: str
    raw: dict[str, Any]
    source: Source


@dataclass(slots=True)
class Loaded:
    """Result of loading, in the order of files and documents."""

    objects: list[Manifest] = field(default_factory=list)
    problems: list[ObjectError] = field(default_factory=list)
    faulty: list[tuple[KubernetesObject, Source]] = field(default_factory=list)
    """Objects with problems, which are not used: for checks that find more problems."""
    warnings: list[ObjectError] = field(default_factory=list)
    """Warnings about objects that are used all the same."""
    others: list[Other] = field(default_factory=list)
    """Objects of other kinds, undecoded; see :mod:`kaisched.objects.load_workloads`."""
    sources: dict[tuple[str, str], Source] = field(default_factory=dict)
    """Source of each object, by (kind, key)."""

    def of(self, type_: type[_T]) -> list[_T]:
        """Return the objects of one kind."""
        return [obj for obj in self.objects if isinstance(obj, type_)]


def load_manifests(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], max_bytes: int = MAX_BYTES
) -> Loaded:
    """Read files, and directories with all below them, in sorted order. See :func:`load_text`."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    loaded = Loaded()
    for path in paths:
        for file in _files(Path(path), loaded):
            data = _read(file, max_bytes, loaded)
            if data is not None:
                _load_data(data, str(file), loaded)
    return loaded


def load_text(text: str | bytes, name: str = "", max_bytes: int = MAX_BYTES) -> Loaded:
    """Load a text of YAML documents or of JSON; problems name ``name`` as the file."""
    loaded = Loaded()
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > max_bytes:
        loaded.problems.append(_too_large(name, max_bytes))
    else:
        _load_data(data, name, loaded)
    return loaded


def _files(path: Path, loaded: Loaded) -> Iterator[Path]:
    try:
        if path.is_dir():
            found = sorted(it for it in path.rglob("*") if it.suffix in SUFFIXES)
            yield from (it for it in found if not _is_hidden(it.relative_to(path)) and it.is_file())
        elif path.exists():
            yield path
        else:
            problem = ObjectError("no such file or directory", file=str(path), fix="check the path")
            loaded.problems.append(problem)
    except (OSError, ValueError) as error:
        loaded.problems.append(_unreadable(path, error))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _read(path: Path, max_bytes: int, loaded: Loaded) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        loaded.problems.append(_unreadable(path, error))
        return None
    if len(data) > max_bytes:
        loaded.problems.append(_too_large(str(path), max_bytes))
        return None
    return data


def _unreadable(path: Path, error: Exception) -> ObjectError:
    reason = getattr(error, "strerror", None) or str(error)
    return ObjectError(f"cannot be read: {reason}", file=str(path), fix="check path and rights")


def _too_large(file: str, max_bytes: int) -> ObjectError:
    return ObjectError(f"larger than {max_bytes >> 20} MiB", file=file, fix="split it")


def _load_data(data: bytes, file: str, loaded: Loaded) -> None:
    for value, source in _values(data, file, loaded.problems):
        _take(value, source, (), loaded)


def read_values(path: Path) -> Iterator[tuple[Any, Source]]:
    """Yield the plain values of a file that need not be objects: YAML documents, or JSON.

    Raises:
        ObjectError: the file cannot be read, is too large, or has a text that is neither.

    """
    loaded = Loaded()
    data = _read(path, MAX_BYTES, loaded)
    found = [] if data is None else list(_values(data, str(path), loaded.problems))
    if loaded.problems:
        first, *others = loaded.problems
        first.others = tuple(others)
        raise first
    yield from found


def _values(data: bytes, file: str, problems: list[ObjectError]) -> Iterator[tuple[Any, Source]]:
    data = data.removeprefix(_BOM)
    is_json = file.endswith(".json")
    if is_json or data.lstrip()[:1] in (b"{", b"["):
        try:
            values = list(read_json(data.decode()))
        except (TextFault, UnicodeDecodeError) as error:
            if is_json:  # otherwise it may be YAML in its flow style
                problems.append(_text_problem(error, Source(file)))
                return
        else:
            for number, value in enumerate(values, 1):
                yield value, Source(file, number)
            return
    for number, (chunk, line) in enumerate(documents(data), 1):
        source = Source(file, number)
        try:
            value = read_yaml(chunk.decode(), line)
        except (TextFault, UnicodeDecodeError) as error:
            problems.append(_text_problem(error, source))
        else:
            yield value, source


def documents(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield each document that has content, with the number of its first line.

    The text is cut before parsing, so that a bad document spoils no other. A line that begins with
    ``---`` always separates: YAML forbids it inside a text.
    """
    start, line = 0, 1
    ends = [(match.start(), match.end()) for match in _SEPARATOR.finditer(data)]
    for end, following in [*ends, (len(data), len(data))]:
        chunk = data[start:end]
        lines = (it.strip() for it in chunk.splitlines())
        if any(it and not it.startswith(_NO_CONTENT) for it in lines):
            yield chunk, line
        line += data.count(b"\n", start, following)
        start = following


def _text_problem(error: TextFault | UnicodeDecodeError, source: Source) -> ObjectError:
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        fault = Fault((), f"no UTF-8: byte 0x{byte:02x} at {error.start}", fix="save it as UTF-8")
        return to_error(fault, source)
    where = f"line {error.line}: " if error.line else ""
    kind = error.partial.get("kind") if isinstance(error.partial, dict) else ""
    return to_error(
        Fault(error.path, where + error.message, fix=error.fix),
        source,
        kind if isinstance(kind, str) else "",
        name_in(error.partial),
    )


def _take(raw: Any, source: Source, at: tuple[str | int, ...], loaded: Loaded) -> None:
    if raw is None:
        return
    if not isinstance(raw, dict):
        fix = "write a map with apiVersion, kind, metadata and spec"
        loaded.problems.append(to_error(Fault(at, "no object", raw, fix), source))
        return
    kind, api_version = raw.get("kind"), raw.get("apiVersion")
    name = name_in(raw)
    for key, word in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(word, str) or not word:
            fault = Fault((*at, key), "missing", fix=f"add {key}")
            if word is not None:
                fault = Fault(
                    (*at, key), f"no {key}", word, f"write a text, such as {_EXAMPLE[key]}"
                )
            shown = kind if isinstance(kind, str) else ""
            loaded.problems.append(to_error(fault, source, shown, name))
            return
    kind, api_version = str(kind), str(api_version)
    if kind.endswith("List") and isinstance(raw.get("items"), list | None):
        _take_list(raw, source, at, loaded)
        return
    type_ = type_of(api_version, kind)
    if isinstance(type_, Fault):
        fault = type_._replace(path=(*at, *type_.path))
        loaded.problems.append(to_error(fault, source, kind, name))
    elif type_ is None:
        loaded.others.append(Other(api_version, kind[:80], name, raw, source))
    else:
        _take_object(raw, type_, source, at, loaded)


def _take_list(
    raw: dict[str, Any], source: Source, at: tuple[str | int, ...], loaded: Loaded
) -> None:
    if len(at) >= 2 * _MAX_LISTS:
        fault = Fault(at, "lists inside lists", fix="write one list")
        loaded.problems.append(to_error(fault, source, "List"))
        return
    kind = raw["kind"].removesuffix("List")
    for number, item in enumerate(raw.get("items") or ()):
        if kind and isinstance(item, dict):  # items of a PodList do not repeat their kind
            item = {"apiVersion": raw["apiVersion"], "kind": kind, **item}  # noqa: PLW2901
        _take(item, source, (*at, "items", number), loaded)


def _take_object(
    raw: dict[str, Any],
    type_: type[KubernetesObject],
    source: Source,
    at: tuple[str | int, ...],
    loaded: Loaded,
) -> None:
    try:
        obj, warnings = decode_object(raw, type_, source)
    except BadObject as bad:
        loaded.problems.extend(within(bad.errors, at))
        if bad.obj is not None:
            loaded.faulty.append((bad.obj, source))
        return
    first = loaded.sources.get((type_.KIND, obj.key))
    if first is not None:
        where = f"first in {first.file} document {first.document}".replace("  ", " ")
        fault = Fault((*at, "metadata", "name"), f"given twice, {where}", obj.key, "drop one")
        loaded.problems.append(to_error(fault, source, type_.KIND, obj.name))
        return
    loaded.sources[type_.KIND, obj.key] = source
    loaded.objects.append(obj)
    loaded.warnings.extend(within(warnings, at))


def within(errors: list[ObjectError], at: tuple[str | int, ...]) -> list[ObjectError]:
    """Put the path of a list's item before the paths of errors inside the item."""
    if at:
        for error in errors:
            error.path = ".".join(filter(None, (join_path(*at), error.path)))
    return errors
