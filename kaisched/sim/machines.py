"""Other machines: calls are made on the workers of a dask.distributed scheduler.

A call is sent with all that it needs, so a worker needs no files, and equal calls give equal
results wherever they are made. What a lost worker was at, the scheduler gives to another one.
"""

from __future__ import annotations

import logging
import pickle
import platform
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from kaisched import __version__
from kaisched.errors import ABSENT, ClusterUnavailable, ConfigError, KaischedError
from kaisched.framework.plugins.loader import installed_plugins

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")
R = TypeVar("R")
Environment = Mapping[str, str]
"""Versions of all that results depend on, by name."""

_PYTHON: Final = "Python"
_CONNECT_S: Final = 10.0
_LOOK_S: Final = 2.0
"""Seconds between two looks at the workers while no call ends."""
_AHEAD: Final = 2
"""Calls that are sent for each thread of the workers: when one ends, the next is there already."""


class Machines:
    """Workers of one scheduler, for as long as the block lasts."""

    def __init__(self, address: str, warn: Callable[[str], None]) -> None:
        """Take the address of a scheduler, such as ``tcp://10.0.0.1:8786``."""
        self._address = address
        self._warn = warn
        self._environment = environment()
        self._compared: set[str] = set()
        """Addresses of workers that have our versions."""
        self._threads = -1
        """Of all workers, at the last look."""
        self._has_news = Event()

    def __enter__(self) -> Self:
        """Connect to the scheduler, and compare versions with its workers.

        Raises:
            ConfigError: the extra is not installed, the address has no known form, or a worker has
                other versions.
            ClusterUnavailable: no scheduler answers.

        """
        distributed = _imported(self._address)
        # What these would print, our errors say in a line each.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        with warnings.catch_warnings(), self._guarded("cannot be reached"):
            warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)
            try:
                self._client: Client = distributed.Client(
                    self._address, timeout=_CONNECT_S, set_as_default=False
                )
            except (ValueError, TypeError) as error:
                fix = "write it as tcp://HOST:PORT"
                raise _wrong(str(error), fix, value=self._address) from None
        try:
            self._look()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect; the scheduler then drops the calls whose results nobody took."""
        self._close()

    def _close(self) -> None:
        with suppress(OSError):
            self._client.close()

    def each(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Call a function of a module with each item; yield the results in order.

        Raises:
            ConfigError: a worker that came later has other versions.
            ClusterUnavailable: the scheduler was lost, or one call has ended several workers.

        """
        upcoming = enumerate(items)
        sent: dict[Future[Any], int] = {}
        results: dict[int, R] = {}
        due = 0
        while True:
            # Without a worker one call is sent all the same: some clusters grow on demand.
            room = max(self._threads * _AHEAD, 1) - len(sent)
            for at, item in islice(upcoming, max(room, 0)):
                sent[self._send(function, item)] = at
            if not sent:
                return
            if not self._has_news.wait(_LOOK_S):
                self._look()
            self._has_news.clear()
            for future in [future for future in sent if future.done()]:
                results[sent.pop(future)] = self._result(future)
            while due in results:
                yield results.pop(due)
                due += 1

    def _send(self, function: Callable[[T], R], item: T) -> Future[Any]:
        body = zlib.compress(pickle.dumps((function, item)), 1)
        call = pickle.dumps(_Call(_answer, self._environment, body))
        with self._guarded("was lost"):
            future = self._client.submit(pickle.loads, call, pure=False)
        future.add_done_callback(lambda _: self._has_news.set())
        return future

    def _result(self, future: Future[Any]) -> Any:
        if future.status == "finished":
            with self._guarded("was lost"):
                return future.result()
        if future.status != "error":
            raise self._unavailable("was lost", "its connection ended")
        error = future.exception()
        assert error is not None
        if type(error).__name__ == "KilledWorker":
            what = f"the dask scheduler at {self._address} lost several workers at one call"
            fix = "look into the workers' logs; they may need more memory"
            raise ClusterUnavailable(what, fix=fix) from None
        if not isinstance(error, KaischedError):
            self._look()  # a worker that came meanwhile may lack what the call needs
        raise error

    def _look(self) -> None:
        """Count the threads of the workers, and compare versions with those that are new."""
        with self._guarded("was lost"):
            workers = self._client.nthreads()
            if new := sorted(workers.keys() - self._compared):
                here = {"kaisched": self._environment["kaisched"]}
                asked = self._client.run(version, "kaisched", workers=new, on_error="return")
                self._compare(here, {at: _named(it) for at, it in asked.items()})
                call = pickle.dumps(_Call(environment))
                asked = self._client.run(pickle.loads, call, workers=new, on_error="return")
                self._compare(self._environment, asked)
                self._compared.update(new)
        threads = sum(workers.values())
        if not threads and self._threads:
            self._warn(f"no worker is connected to {self._address}: waiting for one")
        self._threads = threads

    def _compare(self, here: Environment, there: Mapping[str, Any]) -> None:
        for worker, found in there.items():
            if not isinstance(found, OSError):  # else it was lost while it was asked
                _check(worker, here, found)

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._unavailable(what, error) from None

    def _unavailable(self, what: str, reason: object) -> ClusterUnavailable:
        fix = "start one with `dask scheduler`, or correct the address"
        return ClusterUnavailable(
            f"the dask scheduler at {self._address} {what}: {reason}", fix=fix
        )


def environment() -> dict[str, str]:
    """Return the versions of all that results depend on."""
    found = {plugin.distribution: plugin.version for plugin in installed_plugins().by_name.values()}
    python = ".".join(platform.python_version_tuple()[:2])
    return {**found, "kaisched": __version__, "numpy": version("numpy"), _PYTHON: python}


def end_if_unwanted(_: float) -> None:
    """End the call that is being made here once nobody waits for its result.

    Raises:
        UnwantedError: nobody does.

    """
    import distributed  # noqa: PLC0415 - on workers only

    worker = distributed.get_worker()
    task = worker.state.tasks.get(worker.get_current_task())
    if task is None or task.state == "cancelled":
        raise UnwantedError


class UnwantedError(Exception):
    """Nobody waits for the result of a call any more."""


class _Call:
    """A call that is made as it is unpickled.

    What is sent by name must be importable where it arrives: else dask's loop there ends, and the
    call is never answered. So :func:`pickle.loads` is sent, and a missing module is its error.
    """

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._call


def _answer(here: Environment, body: bytes) -> Any:
    """Make a call on a worker, unless its versions are others; it may have come a moment ago."""
    import distributed  # noqa: PLC0415 - on workers only

    _check(distributed.get_worker().address, here, environment())
    function, item = pickle.loads(zlib.decompress(body))  # noqa: S301 - who sends may run anything
    return function(item)


def _check(worker: str, here: Environment, there: Any) -> None:
    """Compare the versions of a worker with ours.

    Raises:
        ConfigError: they differ.

    """
    fix = "install the same versions there, and start it again"
    if not isinstance(there, Mapping):
        raise _wrong(f"worker {worker} has a kaisched that cannot say its versions: {there}", fix)
    wrong = [name for name in sorted(here) if there.get(name) != here[name]]
    if wrong:
        has = ", ".join(
            f"{name} {there[name]}" if name in there else f"no {name}" for name in wrong
        )
        wants = ", ".join(f"{name} {here[name]}" for name in wrong)
        raise _wrong(f"worker {worker} has {has}, this machine has {wants}", fix)


def _imported(address: str) -> Any:
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError:
        message = "needs the package distributed, which is not installed"
        raise _wrong(message, "run: pip install 'kaisched[dask]'", value=address) from None
    return distributed


def _named(found: object) -> object:
    """Return the version of kaisched by name; what failed for another reason is kept."""
    if isinstance(found, PackageNotFoundError):
        return {}
    return {"kaisched": found} if isinstance(found, str) else found


def _wrong(message: str, fix: str, value: object = ABSENT) -> ConfigError:
    return ConfigError(message, path="--dask", value=value, fix=fix)
