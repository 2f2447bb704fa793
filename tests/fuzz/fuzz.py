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

from fuzzing.driver import Campaign
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
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    kinds = {name: KINDS[name] for name in options.kinds}
    print(f"{len(kinds)} kinds, --seed {seed}; Ctrl-C ends with the table", flush=True)
    say = functools.partial(print, flush=True)
    seen = Campaign(kinds, options.seconds, seed, options.out, say).run(options.jobs)
    print(f"{'kind':<12}{'tried':>9}{'read':>9}{'findings':>10}{'of memory':>11}{'longest s':>11}")
    for name, (answers, findings) in seen.items():
        read = sum(answer.outcome == "read" for answer in answers)
        memory = max((answer.memory for answer in answers), default=0)
        seconds = max((answer.seconds for answer in answers), default=0)
        print(
            f"{name:<12}{len(answers):>9,}{read:>9,}{len(findings):>10}{memory:>11.0%}"
            f"{seconds:>11.1f}"
        )
    found = [line for _, findings in seen.values() for line in findings.values()]
    for line in sorted(found):
        print(line)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
