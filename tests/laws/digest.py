"""Run the clusters that standard input lists and print a digest of what was decided, one a line.

``python -m tests.laws.digest`` is started by the determinism laws, in processes that differ in what
must not matter.
"""

import hashlib
import json
import random
import sys

from kaisched.framework.cycle import run_cycle
from kaisched.framework.memory import Memory
from tests.laws.clusters import NOW_S, make_cluster, policy


def digest(seed: int, **arguments: str) -> str:
    """Return a digest of the decisions on one made cluster, loaded in an order of its own."""
    store = make_cluster(seed).store(random.Random(seed))
    result, _ = run_cycle(store.snapshot(), None, policy(**arguments), NOW_S, Memory())
    return hashlib.sha256(result.encode()).hexdigest()


def main() -> None:
    """Answer each line of standard input with one line."""
    for line in sys.stdin:
        print(digest(**json.loads(line)))


if __name__ == "__main__":
    main()
