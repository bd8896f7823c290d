"""B9 with a topology: the same packing on nodes that are in racks of 16.

``python -m tests.benchmarks.b9_in_racks --policy gpu-fragmentation --orders 10`` prints what is
left free, and the processor time of a run, without a topology and with each use of one.
"""

import argparse
import time
from typing import Final

import numpy as np

from tests.benchmarks.b9 import SHARDS, Racks, fill
from tests.benchmarks.harness import Watch

USES: Final = {
    "no topology": None,
    "racks, no pod asks": Racks(),
    "racks in order, packUnconstrained": Racks(is_packed=True),
    "racks dealt out, packUnconstrained": Racks(is_dealt=True, is_packed=True),
    "every pod requires a rack": Racks(is_required=True),  # long: jobs are refused one by one
}


def main() -> None:
    """Print a line for each use of the topology."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.b9_in_racks")
    parser.add_argument("--policy", choices=sorted(SHARDS), default="gpu-fragmentation")
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--pods", type=int, default=-1, help="no more than these arrive")
    asked = parser.parse_args()
    for name, racks in USES.items():
        before_s = time.process_time()
        filled = [
            fill(seed, asked.policy, Watch(), asked.pods, racks) for seed in range(asked.orders)
        ]
        spent_s = (time.process_time() - before_s) / asked.orders
        free, most = 1 - np.mean(filled, axis=0), 1 - np.min(filled, axis=0)
        print(
            f"{name:<36} free at 100 % {free[0]:.2%}, worst {most[0]:.2%};",
            f"at 130 % {free[1]:.2%}, worst {most[1]:.2%}; {spent_s:.1f} s a run",
            flush=True,
        )


if __name__ == "__main__":
    main()
