"""What moves of very many jobs between full node pools cost.

``python -m tests.benchmarks.pool_moves --jobs 10000`` lets so many jobs pass through four pools
that are full, for the 40 seconds of their first lap, with a cycle of each shard every ten seconds.
"""

import argparse
import time

from tests.unit.cluster.pools.test_what_fails import crowd

LAP_S, STEP_S = 40, 10


def main() -> None:
    """Print the processor time of the first lap, all cycles included, and that of each move."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.pool_moves")
    parser.add_argument("--jobs", type=int, default=10_000)
    asked = parser.parse_args()
    world = crowd(asked.jobs)
    world.is_reading = False
    before_s = time.process_time()
    world.run_to(LAP_S, step_s=STEP_S)
    spent_s, moves = time.process_time() - before_s, len(world.moves)
    print(f"{moves} moves in {spent_s:.1f} s: {spent_s / moves * 1000:.2f} ms each")


if __name__ == "__main__":
    main()
