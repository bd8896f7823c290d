"""The scheduler's side of the process that renews its leases.

The other process opens the gates in shared memory, so that no thread of the scheduler has to run
for a renewal to count. All other messages go through two pipes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import structlog

from kaisched.cluster.kubernetes import lease_process
from kaisched.cluster.kubernetes.client import Client
from kaisched.cluster.kubernetes.gate import Board, SharedGate
from kaisched.cluster.kubernetes.lease import LeaseTimes
from kaisched.cluster.kubernetes.lease_messages import (
    REPORTS,
    Asked,
    Beat,
    Begin,
    Gone,
    LetGo,
    Lost,
    Order,
    Renewed,
    Report,
    Said,
    Try,
    Won,
    line_of,
)
from kaisched.errors import ClusterUnavailable

_BEAT_S: Final = 1.0
_AGAIN_S: Final = 0.2
"""Pause between starts of the other process; a gate stays open for some seconds without it."""
_LAST_S: Final = 2.0
"""How long the other process may take to end."""
_QUIET: Final = {signal.SIGINT, signal.SIGTERM}
"""Signals for the scheduler only, which releases the lease when its writes are done."""


class Candidacy:
    """One lease, which is tried for, held, or lost."""

    def __init__(
        self,
        keeper: LeaseKeeper,
        gate: SharedGate,
        lease: str,
        *,
        on_won: Callable[[], None],
        on_lost: Callable[[str], None],
        on_renewed: Callable[[float], None],
    ) -> None:
        """Make a candidacy that is not started."""
        self._keeper, self.gate, self.lease = keeper, gate, lease
        self.on_won, self.on_lost, self.on_renewed = on_won, on_lost, on_renewed
        self.is_tried = self.is_won = self.is_lost = False
        self.is_gone = threading.Event()

    def start(self) -> None:
        """Try to lead from now on."""
        self._keeper.try_for(self)

    def stop(self) -> None:
        """Shut the gate, and release the lease so that standbys need not wait."""
        self.gate.shut()
        if self.is_tried:
            self.is_tried = False
            self._keeper.let_go(self)

    def order(self) -> Try:
        """Return the order to take the lease, or to continue its term."""
        return Try(self.lease, self.gate.slot, self.gate.term.epoch if self.is_won else None)


class LeaseKeeper:
    """Starts and stops the process that renews our leases, and exchanges messages with it."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        identity: str,
        times: LeaseTimes,
        most: int,
        silence_s: float | None = None,
    ) -> None:
        """Make a keeper that is not started.

        Args:
            client: gives the access, and counts the requests.
            namespace: namespace of the leases.
            identity: our name in the leases, unique among all processes.
            times: duration, deadline and period of renewals.
            most: largest number of leases.
            silence_s: nothing is renewed when the scheduler has hung for so long; twice the
                duration of a lease unless given. With 15 s that is three times as long as the
                interpreter's lock was ever held on an overloaded machine, and as long as a
                liveness probe waits before it ends the scheduler.

        """
        self._client, self._identity, self._times = client, identity, times
        self._namespace, self._board = namespace, Board.make(most)
        self._silence_s = 2 * times.lease_s if silence_s is None else silence_s
        self._candidacies: dict[str, Candidacy] = {}
        self._log: Any = structlog.get_logger()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._authorization = ""
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._listen, name="leases", daemon=True),
            threading.Thread(target=self._beat, name="leases-beat", daemon=True),
        ]

    def candidacy(
        self,
        lease: str,
        *,
        on_won: Callable[[], None],
        on_lost: Callable[[str], None],
        on_renewed: Callable[[float], None] = lambda _: None,
    ) -> Candidacy:
        """Return a candidacy for a lease, not started yet.

        Args:
            lease: its name.
            on_won: called in a thread of the keeper.
            on_lost: called once with the reason.
            on_renewed: called with the delay of a renewal in seconds.

        """
        gate = SharedGate(self._board, len(self._candidacies), self._identity, lease)
        found = Candidacy(self, gate, lease, on_won=on_won, on_lost=on_lost, on_renewed=on_renewed)
        self._candidacies[lease] = found
        return found

    @property
    def pid(self) -> int:
        """The process number of the other process; 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start the other process, and start it again whenever it ends."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the other process; leases that were not released run out."""
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
        self._board.close()

    def send(self, order: Order) -> None:
        """Send an order; if there is no process, the next one gets it."""
        with self._lock:
            self._send(order)

    def _send(self, order: Order) -> None:
        process = self._process
        if process is not None and process.stdin is not None and not self._end.is_set():
            with suppress(OSError):  # the process has ended: the listening thread starts another
                process.stdin.write(line_of(order))
                process.stdin.flush()

    def try_for(self, candidacy: Candidacy) -> None:
        """Order to take a lease, once: a process that starts just now has the order already.

        Two orders would make two electors, of which only one is told to let go; the other would
        take that for a loss.
        """
        with self._lock:
            candidacy.is_tried = True
            self._send(candidacy.order())

    def let_go(self, candidacy: Candidacy) -> None:
        """Release a lease, and wait for that no longer than a renewal may take."""
        self.send(LetGo(candidacy.lease))
        if not candidacy.is_gone.wait(self._times.renew_s):
            self._log.info("lease_not_released", lease=f"{self._namespace}/{candidacy.lease}")

    # -- the threads -----------------------------------------------------------------------------

    def _listen(self) -> None:
        """Start the other process and read its messages, again whenever it ends."""
        while not self._end.is_set():
            try:
                process = self._started()
            except OSError as error:
                self._log.error("lease_process_not_started", err=str(error))
            else:
                with suppress(OSError), process:  # unsent orders are useless by then
                    for line in process.stdout or ():
                        self._receive(REPORTS.decode(line))
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
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", lease_process.__name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[self._board.descriptor],
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._renew_authorization()
        with self._lock:
            if self._end.is_set() and process.stdin is not None:
                process.stdin.close()  # the keeper was closed meanwhile
            self._process = process
            self._send(self._begin())
            self._send(Beat(self._authorization))
            for candidacy in self._candidacies.values():
                if candidacy.is_tried and not candidacy.is_lost:
                    self._send(candidacy.order())
        return process

    def _begin(self) -> Begin:
        access, times = self._client.access, self._times
        return Begin(
            host=access.host,
            pool=access.pool,
            namespace=self._namespace,
            identity=self._identity,
            descriptor=self._board.descriptor,
            slots=self._board.slots,
            lease_s=times.lease_s,
            renew_s=times.renew_s,
            retry_s=times.retry_s,
            silence_s=self._silence_s,
        )

    def _receive(self, report: Report) -> None:
        if isinstance(report, Said):
            getattr(self._log, report.level)(report.event, **report.fields)
        elif isinstance(report, Asked):
            self._client.requests.add(*report.labels, seconds=report.seconds)
        else:
            self._notify(self._candidacies[report.lease], report)

    def _notify(self, candidacy: Candidacy, report: Won | Lost | Gone | Renewed) -> None:
        if isinstance(report, Won):
            candidacy.is_won = True
            candidacy.on_won()
        elif isinstance(report, Lost):
            candidacy.is_lost = True
            candidacy.on_lost(report.why)
        elif isinstance(report, Renewed):
            candidacy.on_renewed(report.seconds)
        else:
            candidacy.is_gone.set()

    def _beat(self) -> None:
        """Send heartbeats, and each new token."""
        while not self._end.wait(_BEAT_S):
            self.send(Beat())
            if self._renew_authorization():
                self.send(Beat(self._authorization))

    def _renew_authorization(self) -> bool:
        """Renew the header; return whether it has changed. If unreadable, keep the old one."""
        before = self._authorization
        with suppress(ClusterUnavailable, OSError):
            self._authorization = self._client.access.authorization()
        return self._authorization != before
