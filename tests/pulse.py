"""Whether the machine stands still: a virtual one may be held for many seconds."""

import threading
from time import monotonic, sleep

BEAT_S = 0.1
STILL_S = 1.0


class Pulse:
    """Wants to run ten times a second, and notes when nothing could for a whole one."""

    def __init__(self, tell=lambda _since_s, _until_s: None):
        """Tell of each time that the machine stood still, on the monotonic clock."""
        self.stood_s = 0.0
        """For how many seconds in all."""
        self._tell, self._lock = tell, threading.Lock()
        self._seen_s = monotonic()

    def start(self):
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()
        return self

    def look(self):
        """Note whether it has stood still until now; return for how long in all."""
        with self._lock:
            now_s = monotonic()
            since_s, self._seen_s = self._seen_s, now_s
            if now_s - since_s > STILL_S:
                self.stood_s += now_s - since_s
                self._tell(since_s, now_s)
            return self.stood_s

    def _beat(self):
        while True:
            self.look()
            sleep(BEAT_S)
