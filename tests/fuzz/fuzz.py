"""Damages every kind of file that is read: python tests/fuzz/fuzz.py --seconds 60 --kinds npz run

An input is an intact file, or a folder, after one or more mutations. CONTRIBUTING.md says what a
finding is. Each is made small and stored in tests/fuzz/findings, whose files test_fuzz.py reads.
"""

import argparse
import functools
import random
import sys
from pathlib import Path

from fuzzing.driver import Campaign
from fuzzing.kinds import KINDS


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    shown = "(default: %(default)s)"
    parser.add_argument("--seconds", type=float, default=60, help=f"once prepared {shown}")
    parser.add_argument(
        "--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), metavar="KIND",
        help=f"out of {', '.join(KINDS)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="default: another one each time")
    parser.add_argument("--jobs", type=int, default=1, help=f"processes that read {shown}")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(__file__).parent / "findings",
        help=f"of the findings {shown}",
    )
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    kinds = {name: KINDS[name] for name in options.kinds}
    print(f"{len(kinds)} kinds, --seed {seed}; Ctrl-C ends with the table", flush=True)
    say = functools.partial(print, flush=True)
    campaign = Campaign(kinds, options.seconds, seed, options.out, say)
    campaign.run(options.jobs)
    print(f"{'kind':<12}{'tried':>9}{'read':>9}{'findings':>10}{'of memory':>11}{'longest s':>11}")
    for name in kinds:
        answers = campaign.answers[name]
        findings = sum(kind == name for kind, _ in campaign.findings)
        read = sum(answer.outcome == "read" for answer in answers)
        memory = max((answer.memory for answer in answers), default=0)
        seconds = max((answer.seconds for answer in answers), default=0)
        print(
            f"{name:<12}{len(answers):>9,}{read:>9,}{findings:>10}{memory:>11.0%}{seconds:>11.1f}"
        )
    for line in sorted(campaign.findings.values()):
        print(line)
    sys.exit(bool(campaign.findings))


if __name__ == "__main__":
    main()
