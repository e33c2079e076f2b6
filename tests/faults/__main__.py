"""`make faults N=50`: many seeded kill schedules, one line each; exit 1 if any answer suffered."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.faults import schedule
from tests.stack import Stack


def main() -> int:
    """Run the schedules against one instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1000, help="of the first schedule")
    arguments = parser.parse_args()
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="llamaweb-faults-") as folder,
        Stack(Path(folder) / "data", env={"LLAMAWEB_MOCK_DELAY_MS": "30"}) as stack,
    ):
        stack.wait_ready()
        for seed in range(arguments.seed, arguments.seed + arguments.schedules):
            started_ts = time.monotonic()
            kills = [kill.target for kill in schedule.schedule(seed)]
            problems = schedule.run(stack, seed)
            failed += bool(problems)
            verdict = "; ".join(problems) or "ok"
            print(f"seed {seed} {kills} {time.monotonic() - started_ts:.0f} s: {verdict}")
            sys.stdout.flush()
    print(f"{arguments.schedules - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
