"""The tests of the C kernels, with a library that looks at every address it uses.

    python -m tests.sanitize [ARGUMENTS OF PYTEST]

All of `native/src` is built once more, with the address and undefined-behaviour
sanitizers of GCC, and takes the place of the library that is installed. The
first thing that reaches beyond its memory, or that C does not define, ends the tests.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from fediac import native
from fediac.native import library

COMPILER = os.environ.get("CC", "gcc")
ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "fediac" / "native" / "src"
TESTS = (
    "tests/unit/switch",
    "tests/unit/native",
    "tests/property/test_packets.py",
    "tests/property/test_slot_values.py",
    "tests/property/test_golden_packets.py",
    "tests/property/test_native_equals_core.py",
)
FLAGS = (
    "-std=gnu11",
    "-g",
    "-O1",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)
FOLDER = "FEDIAC_SANITIZED"
"""Variable with the library's folder, for the process that tests."""


def build(folder: Path) -> None:
    """Put the library into a folder."""
    files = sorted(str(each) for each in SOURCES.glob("*.c"))
    digest = f'-DFEDIAC_SOURCES="{library.digest_of(SOURCES)}"'
    made = str(folder / library.FILE_NAME)
    subprocess.run([COMPILER, *FLAGS, digest, *files, "-o", made, "-lm"], check=True)


def runtime() -> str:
    """Return GCC's library that a process must load before all others."""
    return subprocess.check_output(
        [COMPILER, "-print-file-name=libasan.so"], text=True
    ).strip()


def test(folder: str, arguments: Sequence[str]) -> int:
    """Run tests with the library in a folder."""
    native.__path__.insert(0, folder)
    found = library.find()
    if found is None or found.parent != Path(folder) or native.isa() is None:
        sys.exit(f"{folder} has no library that can be loaded")
    # What a sanitizer says goes to the file of standard error, which pytest would hide.
    return int(
        pytest.main(["-q", "--capture=sys", "-p", "no:cacheprovider", *arguments])
    )


def main(arguments: Sequence[str]) -> int:
    """Build the library, and return what pytest does in a process of its own."""
    if FOLDER in os.environ:
        return test(os.environ[FOLDER], arguments)
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder))
        # Python never gives all of its memory back, which is no fault of the kernels.
        environment = os.environ | {
            FOLDER: folder,
            "LD_PRELOAD": runtime(),
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        }
        command = [sys.executable, "-m", "tests.sanitize", *(arguments or TESTS)]
        done = subprocess.run(command, cwd=ROOT, env=environment, check=False)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
