"""Search every model and every mutant: no error in the one, one error in the other.

python -m models [--small] [--jobs 2] [--list] [--trail MUTANT]
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from models.pan import (
    GOOD,
    UNKNOWN,
    VACUOUS,
    WRONG,
    Result,
    SpinError,
    check_tools,
    read_trail,
    run_search,
)
from models.searches import MUTANTS, SEARCHES, Search


def main(arguments: Sequence[str]) -> int:
    """Return 0 if all models hold and all mutants are rejected, else 1."""
    given = _parse(arguments)
    if given.list:
        for each in SEARCHES:
            _say(f"{each.title:<75}{each.claim}")
        return 0
    try:
        check_tools()
        if given.trail:
            (mutant,) = (each for each in MUTANTS if each.mutant == given.trail)
            _say(read_trail(mutant))
            return 0
        searches = [each for each in SEARCHES if each.is_small or not given.small]
        return check(searches, n_jobs=given.jobs)
    except SpinError as error:
        sys.exit(str(error))


def check(
    searches: Sequence[Search],
    *,
    n_jobs: int,
    run: Callable[[Search], Result] = run_search,
) -> int:
    """Run all searches, say what each shows; return 0 if all is well, else 1."""
    start = time.perf_counter()
    results = []
    with ThreadPoolExecutor(n_jobs) as pool:
        jobs = [pool.submit(run, each) for each in searches]
        try:
            for number, job in enumerate(as_completed(jobs), start=1):
                result = job.result()
                results.append(result)
                _say(f"{number:>3}/{len(searches)}  {_row(result)}")
        finally:
            pool.shutdown(cancel_futures=True)
    bad = [each for each in results if each.verdict not in GOOD]
    for each in bad:
        _say("")
        for line in _explain(each):
            _say(line)
    minutes = (time.perf_counter() - start) / 60
    n_good = len(results) - len(bad)
    _say(f"\n{n_good} of {len(results)} as they should be, in {minutes:.1f} minutes")
    return int(bool(bad))


def _row(result: Result) -> str:
    report = result.report
    return (
        f"{result.verdict:<17}{report.n_states:>11,} states {result.seconds:>6.1f} s "
        f"{report.memory_mib:>6,.0f} MiB  {result.search.title}"
    )


def _explain(result: Result) -> Iterable[str]:
    """Yield what is wrong with a search."""
    search, report = result.search, result.report
    yield f"{result.verdict}: {search.title}"
    yield f"  claim: {search.claim}"
    if result.verdict == WRONG:
        yield f"  {report.counterexample}"
    elif result.verdict == UNKNOWN:
        yield from (f"  {each}" for each in report.gaps)
    elif result.verdict == VACUOUS:
        yield from (f"  never reached: {each}" for each in report.unreached)
    yield f"  spin -a {' '.join(search.switches)} models/{search.model}.pml"


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m models")
    names = [each.mutant for each in MUTANTS]
    parser.add_argument("--small", action="store_true", help="what the tests run")
    parser.add_argument("--jobs", type=int, default=2, help="searches at a time")
    parser.add_argument("--list", action="store_true", help="list them, run nothing")
    parser.add_argument(
        "--trail", metavar="MUTANT", choices=names, help="steps to a mutant's error"
    )
    return parser.parse_args(arguments)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
