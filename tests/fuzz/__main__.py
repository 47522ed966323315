"""Search for a datagram that the compiled switch cannot bear, guided by coverage.

    python -m tests.fuzz [--seconds 20] [--corpus FOLDER]

libFuzzer tries datagrams on the code of `native/src` that takes, processes and answers
them, built with the address and undefined-behaviour sanitizers. What it finds to be new
is then given to Python's decoders and to both data planes, which must agree. At last
mistakes are put into copies of the code, one by one, each an index that is one too
large: the same search must find every one of them.

Needs clang with its runtime, libclang-rt-dev on Debian.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.inputs import read_inputs, write_seeds
from tests.fuzz.replay import differs

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "fediac" / "native" / "src"
HARNESS = Path(__file__).with_name("harness.c")
FILES = (
    "isa",
    "lanes",
    "serve_send",
    "serve_take",
    "siphash",
    "siphash_lanes",
    "switch",
    "switch_aligned",
    "switch_blocks",
    "switch_indexed",
    "switch_region",
    "switch_values",
)
FLAGS = (
    "-std=c11",
    "-g",
    "-O1",
    "-Wall",
    "-Wextra",
    "-Wno-pass-failed",
    '-DFEDIAC_SOURCES="fuzzed"',
    "-fsanitize=fuzzer,address,undefined",
    "-fno-sanitize-recover=all",
)
MUTANT_S = 30


class Mutant(NamedTuple):
    """A mistake: the file, what it says, and what it says instead."""

    file: str
    right: str
    wrong: str


MUTANTS = {
    "a header may lack its last byte": Mutant(
        "serve_take.c",
        "datagram->n_bytes < HEADER_BYTES",
        "datagram->n_bytes < HEADER_BYTES - 1",
    ),
    "there is one member more": Mutant(
        "serve_take.c", "client < session->n_members", "client <= session->n_members"
    ),
    "a word may begin a byte before the end": Mutant(
        "switch.h", "n_left < 8 ? load_tail", "n_left < 7 ? load_tail"
    ),
}


def main(arguments: Sequence[str]) -> int:
    """Return 0 if nothing is wrong with the code, and every mistake was found."""
    given = _parse(arguments)
    compiler = shutil.which("clang")
    if compiler is None:
        sys.exit("fuzz needs clang: apt-get install clang libclang-rt-dev")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        corpus = given.corpus or place / "corpus"
        write_seeds(place / "seeds")
        corpus.mkdir(parents=True, exist_ok=True)
        program = _build(compiler, SOURCES, place / "fuzz")
        found = _search(program, [corpus, place / "seeds"], given.seconds)
        if found is not None:
            _say(found)
            return 1
        inputs = read_inputs(place / "seeds", corpus)
        return _replay(inputs) or _try_mutants(compiler, place)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=int, default=20, help="how long to search")
    parser.add_argument("--corpus", type=Path, help="keep what is found to be new here")
    return parser.parse_args(arguments)


def _build(compiler: str, sources: Path, program: Path) -> Path:
    files = [sources / f"{name}.c" for name in FILES]
    command = [compiler, *FLAGS, f"-I{sources}", str(HARNESS), *map(str, files)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def _search(program: Path, folders: Sequence[Path], seconds: int) -> str | None:
    """Return what was found to be wrong, None if nothing was."""
    command = [str(program), *map(str, folders), f"-max_total_time={seconds}"]
    artifact = program.with_name(f"{program.name}-found")
    done = subprocess.run(
        [*command, "-max_len=4096", f"-exact_artifact_path={artifact}"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        # There is nothing to leak, and looking for it needs rights that CI lacks.
        env=os.environ | {"ASAN_OPTIONS": "detect_leaks=0"},
    )
    if done.returncode == 0:
        _say(done.stderr.splitlines()[-1])
        return None
    data = artifact.read_bytes().hex() if artifact.exists() else "none"
    return f"{done.stderr}\nthe input, in hexadecimal digits: {data}"


def _replay(inputs: Sequence[bytes]) -> int:
    """Return 1 if Python's data plane and decoders say something else."""
    for data in inputs:
        if differs(data):
            _say(f"C and Python differ about {data.hex()}")
            return 1
    _say(f"{len(inputs)} inputs: the same answers in C and in Python")
    return 0


def _try_mutants(compiler: str, place: Path) -> int:
    """Return 1 if the search misses a mistake."""
    n_missed = 0
    for number, (claim, mutant) in enumerate(MUTANTS.items()):
        folder = place / f"mutant{number}"
        program = _build(compiler, _copy_with(mutant, folder / "src"), folder / "fuzz")
        (folder / "corpus").mkdir()
        start_s = time.perf_counter()
        found = _search(program, [folder / "corpus", place / "seeds"], MUTANT_S)
        took_s = time.perf_counter() - start_s
        n_missed += found is None
        said = (found or "ERROR: NOT FOUND").partition("ERROR: ")[2].split(" on ")[0]
        _say(f"mistake: {claim}: {said} after {took_s:.1f} s")
    return int(n_missed > 0)


def _copy_with(mutant: Mutant, folder: Path) -> Path:
    """Return a copy of the code with a mistake in it."""
    shutil.copytree(SOURCES, folder)
    path = folder / mutant.file
    text = path.read_text(encoding="utf-8")
    if text.count(mutant.right) != 1:
        sys.exit(f"{mutant.file}: {mutant.right!r} must be there once")
    path.write_text(text.replace(mutant.right, mutant.wrong), encoding="utf-8")
    return folder


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
