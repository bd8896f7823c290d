"""Errors that people may see, named for what to do about them. None of them is a traceback.

::

    KaischedError                    exit code 1
      ConfigError                    2   correct the file, variable or flag that is named
      ObjectError                    2   correct the manifest that is named
      PluginError                    3   change the plugin, or the shard that enables it
        PluginLoadError                    install it, or spell its name or arguments right
        PluginConflictError                enable only one of the two
        PluginContractError                report it to the plugin's author
      ClusterError                   4   look at the cluster
        ClusterUnavailable                 wait, or check address and credentials; a retry may help
      UsageUnavailable               5   look at the usage store
      InvariantBroken                70  report a bug: the scheduler contradicted itself

A decision against a job is a value and no error: see ``core.refusals``.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
_SHORT.maxlevel = 2
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = 4

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_$][\w-]*", re.ASCII)
_MAX_KEY: Final = 80


class _Absent:
    """Marks that there is no value to show; ``None`` is a value."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        """Stay one of a kind where an error comes from another process."""
        return "ABSENT"


ABSENT: Final = _Absent()
"""Marker for no value to show."""


def show(value: object) -> str:
    """Return a value in one short printable line."""
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a huge number"


def join_path(*steps: str | int) -> str:
    """Return a readable path: ``join_path("spec", "subGroups", 0)`` is ``spec.subGroups[0]``."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        elif _PLAIN_KEY.fullmatch(step) and len(step) <= _MAX_KEY:
            path += f".{step}" if path else step
        else:
            path += f"[{_SHORT.repr(step)}]"
    return path


def _one_line(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


class KaischedError(Exception):
    """Base of all errors here. ``str()`` is one line; ``fix`` says what to do."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.others: tuple[KaischedError, ...] = ()
        """Errors that were found together with this one."""

    def __str__(self) -> str:
        return _one_line(f"{self.message}; {self.fix}" if self.fix else self.message)


class _PlacedError(KaischedError):
    """An error in something that a person wrote: ``file: path: message (value ...); fix``."""

    def __init__(
        self, message: str, *, file: str = "", path: str = "", value: object = ABSENT, fix: str = ""
    ) -> None:
        super().__init__(message, fix=fix)
        self.file = file
        self.path = path
        self.value = value

    def _places(self) -> Iterable[str]:
        return (self.file, self.path)

    def __str__(self) -> str:
        text = ": ".join([*filter(None, self._places()), self.message])
        if self.value is not ABSENT:
            text += f" (value {show(self.value)})"
        return _one_line(f"{text}; {self.fix}" if self.fix else text)


class ConfigError(_PlacedError):
    """A setting of the process or of a shard's policy is wrong."""

    exit_code = 2


class ObjectError(_PlacedError):
    """An object (Queue, Pod, SchedulingShard ...) is wrong; other objects are not affected.

    ``document`` counts from 1 within the file; 0 for a single or unknown document.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        file: str = "",
        path: str = "",
        value: object = ABSENT,
        fix: str = "",
        document: int = 0,
        kind: str = "",
        name: str = "",
    ) -> None:
        super().__init__(message, file=file, path=path, value=value, fix=fix)
        self.document = document
        self.kind = kind
        self.name = name

    def _places(self) -> Iterable[str]:
        what = " ".join(filter(None, (self.kind, self.name)))
        where = f"document {self.document}" if self.document else ""
        return (self.file, f"{where} ({what})" if where and what else where or what, self.path)


def root_of(error: BaseException) -> str:
    """Describe the innermost cause of an error of a connection in few words."""
    while (under := error.__cause__ or error.__context__) is not None:
        error = under
    return str(getattr(error, "strerror", None) or type(error).__name__)


class Collector:
    """Errors that are found one by one and reported at once."""

    def __init__(self, errors: Iterable[KaischedError] = ()) -> None:
        """Start with some errors."""
        self.errors: list[KaischedError] = list(errors)

    def add(self, error: KaischedError) -> None:
        """Add an error, with those that it holds."""
        self.errors += [error, *error.others]

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the error that ends the block, if any."""
        try:
            yield
        except KaischedError as error:
            self.add(error)

    def stop_if_any(self) -> None:
        """Raise the first error, which holds the others.

        Raises:
            KaischedError: there is any error.

        """
        if self.errors:
            first, *others = self.errors
            first.others = tuple(others)
            raise first


class PluginError(KaischedError):
    """A plugin cannot be used as the shard asks; names the plugin and its package."""

    exit_code = 3

    def __init__(
        self, message: str, *, plugin: str = "", distribution: str = "", fix: str = ""
    ) -> None:
        super().__init__(message, fix=fix)
        self.plugin = plugin
        self.distribution = distribution

    def __str__(self) -> str:
        origin = f" (from {self.distribution})" if self.distribution else ""
        text = super().__str__()
        return _one_line(f"plugin {self.plugin}{origin}: {text}" if self.plugin else text)


class PluginLoadError(PluginError):
    """The plugin is not installed, cannot be imported, or its arguments are wrong."""


class PluginConflictError(PluginError):
    """Two plugins claim the same name or the same exclusive hook."""


class PluginContractError(PluginError):
    """The plugin's answer to a hook breaks the hook's contract."""


class ClusterError(KaischedError):
    """The cluster did not do what was requested."""

    exit_code = 4


class ClusterUnavailable(ClusterError):  # noqa: N818 - a state of the cluster, named as it is
    """The API server, or a scheduler of workers, is unreachable or refuses us; retry later."""


class UsageUnavailable(KaischedError):  # noqa: N818 - a state of the usage store, named as it is
    """The usage history cannot be read, or has invalid values."""

    exit_code = 5


class InvariantBroken(KaischedError):  # noqa: N818 - names what happened
    """An invariant does not hold: a bug, and the present decision is dropped."""

    exit_code = 70
