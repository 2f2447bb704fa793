"""Damages every kind of file that is read: python tests/fuzz/fuzz.py --seconds 60 --kinds npz run

An input is an intact file, or a folder, after one or more mutations. Reading it may succeed or end
in an error of keras_vit. Everything else is a finding: another exception, a process that ends,
memory above twice the input's size and the constant of its kind, more than 10 seconds, or a message
that is long or cannot be printed. Each finding is made small and stored in tests/fuzz/findings,
whose files test_fuzz.py reads again.
"""

import argparse
import functools
import random
import sys
from pathlib import Path

from fuzzing.driver import Tally, fuzz
from fuzzing.kinds import KINDS

FINDINGS = Path(__file__).parent / "findings"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60, help="after the kinds are prepared")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--seed", type=int, help="default: another one each time")
    parser.add_argument("--jobs", type=int, default=1, help="processes that read")
    parser.add_argument("--out", type=Path, default=FINDINGS, help="the folder of the findings")
    arguments = parser.parse_args()
    seed = random.randrange(10**6) if arguments.seed is None else arguments.seed
    kinds = {name: KINDS[name] for name in arguments.kinds}
    print(f"{len(kinds)} kinds, --seed {seed}; Ctrl-C ends with the table", flush=True)
    say = functools.partial(print, flush=True)
    tallies = fuzz(kinds, arguments.seconds, seed, arguments.jobs, arguments.out, say)
    print(table(tallies))
    sys.exit(any(tally.findings for tally in tallies.values()))


def table(tallies: dict[str, Tally]) -> str:
    """A row for each kind."""
    lines = [
        f"{'kind':<12}{'tried':>9}{'read':>9}{'findings':>10}{'MiB':>8}{'of limit':>10}"
        f"{'longest s':>11}"
    ]
    lines += [
        f"{name:<12}{each.tried:>9,}{each.read:>9,}{len(each.findings):>10}"
        f"{each.grown / 2**20:>8.0f}{each.memory:>10.0%}{each.seconds:>11.1f}"
        for name, each in tallies.items()
    ]
    found = sorted({line for each in tallies.values() for line in each.findings.values()})
    return "\n".join([*lines, *found])


if __name__ == "__main__":
    main()
