"""The process that renews leases and does nothing else, and the scheduler's side of it.

The scheduler holds Python's lock for seconds at a time, while it reads a long list. So
leases are renewed in a process where nothing else runs. It is small: no numpy, store or plugins.
Orders go to it, and reports come from it, through two pipes, one a line. All processes of a machine
have the same monotonic clock, so that a report says until when a lease is valid, however late it is
read.

The process renews only for a scheduler that is alive. When the scheduler ends, its pipe closes,
which ends the process at once. A stopped scheduler is noticed by its state, a hanging one by its
silence. The leases are not released then: writes of the scheduler that are under way may still
arrive.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
import urllib3

from kaisched.clock import SystemClock, monotonic_s
from kaisched.cluster.kubernetes.access import Access
from kaisched.cluster.kubernetes.client import Client, Counts
from kaisched.cluster.kubernetes.leader_election import Elector, Leadership, LeaseTimes
from kaisched.errors import ClusterUnavailable

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_BEAT_S: Final = 1.0
_AGAIN_S: Final = 0.2
"""Pause between starts of the process; leadership is held for some seconds without it."""
_LAST_S: Final = 2.0
"""How long the process may take to end."""
_QUIET: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
"""Signals for the scheduler only, which releases the lease when its writes are done."""
_STATES: Final = {"T": "is stopped", "t": "is stopped", "Z": "has ended", "X": "has ended"}
_LONGEST: Final = 4096
"""Longest line that a pipe accepts whole or not at all."""


# -- orders and reports ----------------------------------------------------------------------------


class Begin(msgspec.Struct, tag=True):
    """Order, first line: the settings that are the same for every lease."""

    host: str
    pool: Mapping[str, Any]
    namespace: str
    identity: str
    lease_s: float
    renew_s: float
    retry_s: float
    silence_s: float
    """Nothing is renewed after so long without a heartbeat."""


class Beat(msgspec.Struct, tag=True):
    """Order: a heartbeat of the scheduler."""

    authorization: str | None = None
    """The header's value, if it is new."""


class Try(msgspec.Struct, tag=True):
    """Order: take a lease as soon as it is free."""

    lease: str
    epoch: int | None = None
    """The number of a term to continue, instead of beginning another."""
    until_s: float = 0.0
    """Until when that term is valid: after that it is not continued."""


class LetGo(msgspec.Struct, tag=True):
    """Order: release a lease and stop renewing it."""

    lease: str


class Held(msgspec.Struct, tag=True):
    """Report: a lease was taken or renewed."""

    lease: str
    until_s: float
    """Until when it is valid, on the monotonic clock."""
    epoch: int
    late_s: float | None = None
    """How long after a renewal was due it was done; None where the lease was taken."""


class Lost(msgspec.Struct, tag=True):
    """Report: a lease was lost."""

    lease: str
    why: str


class Gone(msgspec.Struct, tag=True):
    """Report: a lease was released, as ordered."""

    lease: str


class Asked(msgspec.Struct, tag=True):
    """Report: a request was sent to the API server."""

    labels: tuple[str, ...]
    seconds: float


class Said(msgspec.Struct, tag=True):
    """Report: a line for the log."""

    level: str
    event: str
    fields: dict[str, Any]


Order = Begin | Beat | Try | LetGo
Report = Held | Lost | Gone | Asked | Said
_ORDERS: Final = msgspec.json.Decoder(Order)
_REPORTS: Final = msgspec.json.Decoder(Report)


def line_of(message: Order | Report) -> bytes:
    """Return a message as a line."""
    return msgspec.json.encode(message, enc_hook=str) + b"\n"


# -- the scheduler's side --------------------------------------------------------------------------


class Candidate:
    """One lease, which is tried for, held, or lost."""

    def __init__(
        self,
        process: LeaseProcess,
        lease: str,
        *,
        on_won: Callable[[], None],
        on_lost: Callable[[str], None],
        on_renewed: Callable[[float], None],
    ) -> None:
        """Make a candidate that is not started."""
        self._process, self.lease, self.leadership = process, lease, Leadership()
        self.on_won, self.on_lost, self.on_renewed = on_won, on_lost, on_renewed
        self.is_tried = self.is_won = self.is_lost = False
        self.is_gone = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Try to lead from now on."""
        self._process.try_for(self)

    def stop(self) -> None:
        """End the leadership, and release the lease so that standbys need not wait."""
        with self._lock:
            is_tried, self.is_tried = self.is_tried, False
            self.leadership.end()
        if is_tried:
            self._process.let_go(self)

    def order(self) -> Try:
        """Return the order to take the lease, or to continue its term."""
        term = self.leadership.term
        if not self.is_won:
            return Try(self.lease)
        return Try(self.lease, term.epoch, max(term.until_s, 0.0))  # JSON has no infinity

    def take_in(self, report: Held | Lost | Gone, identity: str) -> None:
        """Take in a report about the lease; once stopped, there is no leadership."""
        if isinstance(report, Gone):
            self.is_gone.set()
        elif isinstance(report, Lost):
            self.is_lost = True
            self.leadership.end()
            self.on_lost(report.why)
        else:
            with self._lock:
                if self.is_tried:
                    self.leadership.renew(report.until_s, identity, report.epoch, self.lease)
            if report.late_s is not None:
                self.on_renewed(report.late_s)
            elif not self.is_won:
                self.is_won = True
                self.on_won()


class LeaseProcess:
    """Starts and stops the process that renews our leases, and exchanges messages with it."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        identity: str,
        times: LeaseTimes,
        silence_s: float | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            client: gives the access, and counts the requests.
            namespace: namespace of the leases.
            identity: our name in the leases, unique among all processes.
            times: duration, deadline and period of renewals.
            silence_s: nothing is renewed when the scheduler has hung for so long; twice the
                duration of a lease unless given. With 15 s that is three times as long as the
                interpreter's lock was ever held on an overloaded machine, and as long as a
                liveness probe waits before it ends the scheduler.

        """
        self._client, self._identity, self._times = client, identity, times
        self._namespace = namespace
        self._silence_s = 2 * times.lease_s if silence_s is None else silence_s
        self._candidates: dict[str, Candidate] = {}
        self._log: Any = structlog.get_logger()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._authorization = ""
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, name="leases", daemon=True),
            threading.Thread(target=self._beat, name="leases-beat", daemon=True),
        ]

    def candidate(
        self,
        lease: str,
        *,
        on_won: Callable[[], None],
        on_lost: Callable[[str], None],
        on_renewed: Callable[[float], None] = lambda _: None,
    ) -> Candidate:
        """Return a candidate for a lease, not started yet.

        Args:
            lease: its name.
            on_won: called in the thread that reads the reports.
            on_lost: called once with the reason.
            on_renewed: called with the delay of a renewal in seconds.

        """
        found = Candidate(self, lease, on_won=on_won, on_lost=on_lost, on_renewed=on_renewed)
        self._candidates[lease] = found
        return found

    @property
    def pid(self) -> int:
        """The number of the process; 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start the process, and start it again whenever it ends."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the process; leases that were not released run out."""
        self._end.set()
        with self._lock:
            process = self._process
            if process is not None and process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
        if process is not None:
            try:
                process.wait(_LAST_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_LAST_S)

    def _send(self, order: Order) -> None:
        """Send an order, under the lock; if there is no process, the next one gets it."""
        process = self._process
        if process is not None and process.stdin is not None and not self._end.is_set():
            # The process has ended, and the listening thread starts another; or we are closed.
            with suppress(OSError, ValueError):
                process.stdin.write(line_of(order))
                process.stdin.flush()

    def try_for(self, candidate: Candidate) -> None:
        """Order to take a lease, once: a process that starts just now has the order already.

        Two orders would make two electors, of which only one is told to let go; the other would
        take that for a loss.
        """
        with self._lock:
            candidate.is_tried = True
            self._send(candidate.order())

    def let_go(self, candidate: Candidate) -> None:
        """Release a lease, and wait for that no longer than a renewal may take."""
        with self._lock:
            self._send(LetGo(candidate.lease))
        if not candidate.is_gone.wait(self._times.renew_s):
            self._log.info("lease_not_released", lease=f"{self._namespace}/{candidate.lease}")

    # -- the threads -----------------------------------------------------------------------------

    def _listen(self) -> None:
        """Start the process and read its reports, again whenever it ends."""
        while not self._end.is_set():
            try:
                process = self._started()
            except OSError as error:
                self._log.error("lease_process_not_started", err=str(error))
            else:
                with suppress(OSError), process:  # unsent orders are useless by then
                    for line in process.stdout or ():
                        self._receive(_REPORTS.decode(line))
                    with self._lock:
                        self._process = None
                if not self._end.is_set():
                    self._log.error("lease_process_ended", code=process.wait())
            self._end.wait(_AGAIN_S)

    def _started(self) -> subprocess.Popen[bytes]:
        """Start the process and send it its settings and orders.

        Raises:
            OSError: the process could not be started.

        """
        # Signals that are blocked here are blocked in the new process from its start.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _QUIET)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "kaisched.cluster.kubernetes.lease_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._renew_authorization()
        access, times = self._client.access, self._times
        with self._lock:
            if self._end.is_set() and process.stdin is not None:
                process.stdin.close()  # we were closed meanwhile
            self._process = process
            self._send(
                Begin(
                    host=access.host,
                    pool=access.pool,
                    namespace=self._namespace,
                    identity=self._identity,
                    lease_s=times.lease_s,
                    renew_s=times.renew_s,
                    retry_s=times.retry_s,
                    silence_s=self._silence_s,
                )
            )
            self._send(Beat(self._authorization))
            for candidate in self._candidates.values():
                if candidate.is_tried and not candidate.is_lost:
                    self._send(candidate.order())
        return process

    def _receive(self, report: Report) -> None:
        if isinstance(report, Said):
            getattr(self._log, report.level)(report.event, **report.fields)
        elif isinstance(report, Asked):
            self._client.requests.add(*report.labels, seconds=report.seconds)
        else:
            self._candidates[report.lease].take_in(report, self._identity)

    def _beat(self) -> None:
        """Send heartbeats, and each new token."""
        while not self._end.wait(_BEAT_S):
            is_new = self._renew_authorization()
            with self._lock:
                self._send(Beat(self._authorization if is_new else None))

    def _renew_authorization(self) -> bool:
        """Renew the header; return whether it has changed. If unreadable, keep the old one."""
        before = self._authorization
        with suppress(ClusterUnavailable, OSError):
            self._authorization = self._client.access.authorization()
        return self._authorization != before


# -- the process -----------------------------------------------------------------------------------


class _Out(Counts):
    """Sends reports without ever waiting: a stopped reader must not delay a renewal."""

    def __init__(self, descriptor: int) -> None:
        """Write to a pipe."""
        super().__init__()
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    def put(self, report: Report) -> None:
        """Send a report. If the pipe is full, reports of renewals, logs and metrics are dropped.

        If any other report cannot be sent this process ends: the next one begins with the present
        state.
        """
        line = line_of(report)
        try:
            if len(line) <= _LONGEST:
                os.write(self._descriptor, line)
        except OSError:
            is_renewal = isinstance(report, Held) and report.late_s is not None
            if not is_renewal and not isinstance(report, Said | Asked):
                os._exit(1)

    def add(self, *labels: str, seconds: float = 0.0) -> None:
        """Send the count of a request: the scheduler exports it."""
        self.put(Asked(labels, seconds))

    def log(self, _: object, level: str, event: MutableMapping[str, Any]) -> str:
        """Send a log line: the scheduler has the settings of the log, and masks secrets."""
        self.put(Said(level, str(event.pop("event", "")), dict(event)))
        raise structlog.DropEvent


class _Renewer:
    """Carries out the orders of the scheduler, while the scheduler is alive."""

    def __init__(self, begin: Begin, scheduler: int, out: _Out) -> None:
        """Begin with a heartbeat just now; ``scheduler`` is the process that started this one."""
        self._begin, self._scheduler, self._out = begin, scheduler, out
        self._state = Path(f"/proc/{scheduler}/stat")
        self._heard_s = monotonic_s()
        self._authorization = ""
        if begin.pool.get("cert_reqs") == "CERT_NONE":
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._client = Client(Access(begin.host, begin.pool, lambda: self._authorization))
        self._client.requests = out
        self._electors: dict[str, Elector] = {}

    def obey(self, order: Order) -> None:
        """Carry out one order; slow ones run in a thread."""
        self._heard_s = monotonic_s()
        if isinstance(order, Beat):
            if order.authorization is not None:
                self._authorization = order.authorization
        elif isinstance(order, Try):
            self._electors[order.lease] = elector = self._elector(order)
            elector.start()
        elif isinstance(order, LetGo):
            threading.Thread(target=self._let_go, args=(order.lease,)).start()

    def _elector(self, order: Try) -> Elector:
        begin, out, lease, leadership = self._begin, self._out, order.lease, Leadership()
        if order.epoch is not None:
            leadership.renew(order.until_s, begin.identity, order.epoch, lease)

        def notify(late_s: float | None = None) -> None:
            term = leadership.term
            if term.until_s > 0.0:  # else it was let go meanwhile, which is told by itself
                out.put(Held(lease, term.until_s, term.epoch, late_s))

        return Elector(
            self._client,
            leadership,
            SystemClock(),
            namespace=begin.namespace,
            name=lease,
            identity=begin.identity,
            times=LeaseTimes(begin.lease_s, begin.renew_s, begin.retry_s),
            epoch=order.epoch,
            why_not=self._why_not,
            on_won=notify,
            on_lost=lambda why: out.put(Lost(lease, why)),
            on_renewed=notify,
        )

    def _let_go(self, lease: str) -> None:
        elector = self._electors.pop(lease, None)
        if elector is not None:
            elector.stop()
        self._out.put(Gone(lease))

    def _why_not(self) -> str:
        """Return why nothing is renewed for the scheduler now; empty while it is alive."""
        if os.getppid() != self._scheduler:
            return "the scheduler has ended"
        try:
            state = self._state.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][0]
        except (OSError, IndexError):  # a system without these files: only silence is noticed
            state = ""
        if state in _STATES:
            return f"the scheduler {_STATES[state]}"
        if monotonic_s() - self._heard_s > self._begin.silence_s:
            return f"the scheduler hangs: silent for more than {self._begin.silence_s:.0f} s"
        return ""


def main() -> None:
    """Carry out the orders on standard input, one per line, and end with it."""
    scheduler, out = os.getppid(), _Out(sys.stdout.fileno())
    structlog.configure(
        processors=[structlog.processors.format_exc_info, out.log],
        wrapper_class=structlog.make_filtering_bound_logger(0),
    )
    orders = map(_ORDERS.decode, sys.stdin.buffer)
    begin = next(orders, None)
    if isinstance(begin, Begin):
        renewer = _Renewer(begin, scheduler, out)
        for order in orders:
            renewer.obey(order)
    os._exit(0)  # threads may wait for the server


if __name__ == "__main__":
    main()
