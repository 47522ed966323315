"""One search: SPIN writes a verifier in C, the compiler builds it, its report is read.

The verifier, ``pan``, exits with 0 whatever it finds. All that is known stands in its
report, which is believed to have shown something only where it complains of nothing.
"""

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from models.searches import Search

FOLDER = Path(__file__).parent
MEMORY_MIB = 1_800
MAX_DEPTH = 200_000
FIRST_TABLE = 18
"""Log2 of the hash table's places; it grows when it is full."""
TIMEOUT_S = 1_200

PROVEN, REJECTED = "proven", "rejected"
WRONG, UNKNOWN = "ERROR FOUND", "NOT COMPLETE"
SURVIVED, VACUOUS = "NOT REJECTED", "NOT ALL REACHED"
GOOD = frozenset((PROVEN, REJECTED))

_COUNTEREXAMPLES = ("assertion violated", "acceptance cycle")
_HARMLESS = ("pan: elapsed time", "pan: rate", "pan: wrote", "pan: resizing hashtable")


class SpinError(Exception):
    """SPIN or the compiler is missing, or did not accept a model."""


@dataclass(frozen=True, slots=True)
class Report:
    """What pan says of one search.

    Attributes:
        counterexample: What was violated, in pan's words; empty if nothing was.
        gaps: Why the search is not complete; empty if it is.
        unreached: Statements that no step of the search took.
    """

    n_states: int
    memory_mib: float
    counterexample: str
    gaps: tuple[str, ...]
    unreached: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A search with its report, and how long pan took."""

    search: Search
    report: Report
    seconds: float

    @property
    def verdict(self) -> str:
        """Return what the search has shown."""
        return judge(self.search, self.report)


def read_report(text: str) -> Report:
    """Return what pan's output says.

    A complaint that is not known to be harmless makes the search incomplete: nothing is
    proven by a message that nobody here has seen before.
    """
    states = re.search(r"^ *([\d.e+]+) states, stored", text, re.MULTILINE)
    memory = re.search(r"^ *([\d.]+)\ttotal actual memory usage", text, re.MULTILINE)
    found = re.findall(r"^pan:\d+: (.*?)(?: \(at depth \d+\))?$", text, re.MULTILINE)
    counterexamples = [each for each in found if each.startswith(_COUNTEREXAMPLES)]
    return Report(
        n_states=int(float(states[1])) if states else 0,
        memory_mib=float(memory[1]) if memory else 0.0,
        counterexample=counterexamples[0] if counterexamples else "",
        gaps=tuple(_gaps(text)),
        unreached=tuple(
            line.strip()
            for line in text.splitlines()
            if re.match(r"\t\S+:\d+, state \d+, ", line) and '"-end-"' not in line
        ),
    )


def judge(search: Search, report: Report) -> str:
    """Return the verdict on a search, one of those in ``GOOD`` or a bad one.

    A model that holds because nothing happens shows little: each of its statements must
    be taken by some step. Where something must happen, a network that loses nothing any
    more leaves statements about losses unreached, and the mutants say that it happens.
    """
    if search.mutant:
        return REJECTED if report.counterexample else SURVIVED
    if report.counterexample:
        return WRONG
    if report.gaps:
        return UNKNOWN
    return VACUOUS if report.unreached and not search.is_live else PROVEN


def run_search(search: Search) -> Result:
    """Return what SPIN finds."""
    with tempfile.TemporaryDirectory() as folder:
        return _search(search, Path(folder))


def read_trail(search: Search) -> str:
    """Return the steps to what SPIN finds, one a line, or an empty text.

    They are the fewest where the claim is about a state; a cycle is found as it comes.
    """
    with tempfile.TemporaryDirectory() as folder:
        model = f"{search.model}.pml"
        options = () if search.is_live else ("-DBFS",)
        if not _search(search, Path(folder), options).report.counterexample:
            return ""
        return _call(["spin", "-t", "-T", *search.switches, model], Path(folder))


def check_tools() -> None:
    """Raise unless SPIN and a C compiler are installed."""
    for name, package in (("spin", "spin"), ("cc", "gcc")):
        if shutil.which(name) is None:
            raise SpinError(f"{name} is not installed (Debian: apt install {package})")


def _search(search: Search, folder: Path, extra: Sequence[str] = ()) -> Result:
    model = f"{search.model}.pml"
    shutil.copy(FOLDER / model, folder)
    # SPIN warns of a trail older than its model, as after a step of the clock.
    os.utime(folder / model, (0, 0))
    _call(["spin", "-a", *search.switches, model], folder)
    # A mutant's verifier runs for a moment: there the compiler is what takes time.
    options = ["-w", "-O0" if search.mutant else "-O2", f"-DMEMLIM={MEMORY_MIB}"]
    options += ["-DNFAIR=3"] if search.is_live else ["-DSAFETY", "-DCOLLAPSE"]
    _call(["cc", *options, *extra, "-o", "pan", "pan.c"], folder)
    start = time.perf_counter()
    report = read_report(_pan(search, folder))
    return Result(search, report, time.perf_counter() - start)


def _pan(search: Search, folder: Path) -> str:
    """Return pan's output; that of a search that was ended ends in a complaint."""
    # -a -f: cycles in which every process that can take steps takes some.
    # -E: processes may end or wait where they like; claims are made by assertions.
    options = ["-a", "-f"] if search.is_live else ["-E"]
    command = ["./pan", *options, f"-m{MAX_DEPTH}", f"-w{FIRST_TABLE}"]
    path = folder / "report.txt"
    ending = ""
    with path.open("w") as out:
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_S,
                check=False,
            )
            if done.returncode:
                ending = f"pan: exit status {done.returncode}"
        except subprocess.TimeoutExpired:
            ending = f"pan: took more than {TIMEOUT_S} s"
    return f"{path.read_text()}\n{ending}"


def _gaps(text: str) -> Iterator[str]:
    """Yield why a report does not cover everything within the bounds."""
    if not re.search(r"^Full statespace search for:", text, re.MULTILINE):
        yield "no full search of the states"
    if not re.search(r", errors: 0$", text, re.MULTILINE):
        yield "no word that there are 0 errors"
    for line in text.splitlines():
        is_complaint = re.match(r"(pan|error|warning|hint|interrupted)\b", line, re.I)
        if is_complaint and not line.startswith(_HARMLESS):
            yield line


def _call(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise SpinError(f"{' '.join(command)} failed: {said[0]}")
    return done.stdout
