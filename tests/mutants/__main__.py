"""Put mistakes into a copy of the package, one by one: some test must notice each.

python -m tests.mutants [--list] [--only NAME]
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.copies import CAUGHT, Copy
from tests.mutants.table import MUTANTS, Mutant


def main(arguments: Sequence[str]) -> int:
    """Return 0 if every mutant was caught, else 1."""
    given = _parse(arguments)
    mutants = [each for each in MUTANTS if given.only in (None, each.name)]
    if given.list:
        for each in mutants:
            _say(f"{each.name:<27}{each.file}: {each.claim}")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(Path(folder).resolve())
        tests = sorted({test for each in mutants for test in each.tests})
        _say("the tests alone, without a mistake, must pass first ...")
        copy.check(tests)
        return _try_all(copy, mutants)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    names = [each.name for each in MUTANTS]
    parser.add_argument("--list", action="store_true", help="list them, run nothing")
    parser.add_argument("--only", metavar="NAME", choices=names, help="try one alone")
    return parser.parse_args(arguments)


def _try_all(copy: Copy, mutants: Sequence[Mutant]) -> int:
    verdicts = {}
    began = time.perf_counter()
    for number, each in enumerate(mutants, start=1):
        start = time.perf_counter()
        verdicts[each] = copy.try_mutant(each)
        seconds = time.perf_counter() - start
        _say(
            f"{number:>3}/{len(mutants)}  {verdicts[each]:<18}"
            f"{seconds:6.1f} s  {each.name}"
        )
    _say("")
    for each, verdict in verdicts.items():
        _say(f"{verdict:<18}{each.name:<27}{each.claim}")
    n_caught = list(verdicts.values()).count(CAUGHT)
    minutes = (time.perf_counter() - began) / 60
    _say(f"\n{n_caught} of {len(mutants)} caught in {minutes:.1f} minutes")
    return int(n_caught < len(mutants))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
