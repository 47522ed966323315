"""Finding, checking and loading the shared library of C kernels."""

import ctypes
import hashlib
import os
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FILE_NAME = "fediac_kernels.so"
_SOURCES = Path(__file__).parent / "src"
"""The C files, where this is a source tree; a wheel has the library alone."""

ISAS = ("baseline", "avx2", "avx512")
"""Instruction sets a kernel may be compiled for, weakest first."""

Signatures = Mapping[str, tuple[Any, Sequence[Any]]]
"""For each function of the library: what it returns, and its arguments."""

_ISA_SIGNATURES: Signatures = {
    "fediac_sources": (ctypes.c_char_p, []),
    "fediac_set_isa": (ctypes.c_int, [ctypes.c_int]),
    "fediac_isa_name": (ctypes.c_char_p, []),
}


def declare(library: ctypes.CDLL, signatures: Signatures) -> None:
    """Tell ctypes what the functions of the library take and return."""
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = list(arguments)


def find(folders: Sequence[str] | None = None) -> Path | None:
    """Return where the library is, or None.

    A wheel has it beside this file. An editable install has it in another folder of
    the same package, so all of the package's folders are searched.
    """
    for folder in folders or sys.modules[__package__].__path__:
        path = Path(folder) / FILE_NAME
        if path.is_file():
            return path
    return None


def open_library(path: Path) -> ctypes.CDLL:
    """Return the library at ``path``, set to the instruction set it shall use.

    Raises:
        OSError: It cannot be loaded, or was built from other sources than these.
    """
    library = ctypes.CDLL(str(path))
    try:
        declare(library, _ISA_SIGNATURES)
    except AttributeError as error:
        raise OSError(f"{path} is not a library of fediac's kernels") from error
    expected = digest_of(_SOURCES)
    if expected not in (None, library.fediac_sources().decode()):
        raise OSError(f"{path} was built from other sources than those in {_SOURCES}")
    library.fediac_set_isa(ISAS.index(isa_cap()))
    return library


def digest_of(sources: Path) -> str | None:
    """Return the digest of C files, as CMakeLists.txt makes it; None without any.

    A library whose functions take other arguments than Python gives them would read
    and write where it must not.
    """
    files = sorted(sources.glob("*.[ch]"))
    digests = (hashlib.sha256(each.read_bytes()).hexdigest() for each in files)
    return hashlib.sha256("".join(digests).encode()).hexdigest() if files else None


def isa_cap() -> str:
    """Return the best instruction set that FEDIAC_ISA allows."""
    cap = os.environ.get("FEDIAC_ISA") or ISAS[-1]
    if cap not in ISAS:
        raise ValueError(f"FEDIAC_ISA must be one of {', '.join(ISAS)}, got {cap!r}")
    return cap


def is_wanted() -> bool:
    """Return whether FEDIAC_NATIVE allows kernels, as it does if it is not set."""
    wanted = os.environ.get("FEDIAC_NATIVE") or "1"
    if wanted not in ("0", "1"):
        raise ValueError(f"FEDIAC_NATIVE must be 0 or 1, got {wanted!r}")
    return wanted == "1"


def check_environment() -> None:
    """Refuse what the environment says wrongly, before hours of work depend on it.

    Raises:
        ValueError: FEDIAC_NATIVE or FEDIAC_ISA is none of what it may be.
    """
    is_wanted()
    isa_cap()


class _Loader:
    """Loads the library once, and warns once if that cannot be done."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_tried = False
        self._library: ctypes.CDLL | None = None

    def library(self) -> ctypes.CDLL | None:
        if self._is_tried:
            return self._library
        with self._lock:
            if self._is_tried:
                return self._library
            reason = self._load()
            self._is_tried = True
        if reason is not None:
            _warn(reason)
        return self._library

    def _load(self) -> str | None:
        """Load the library if it is wanted; return why that failed, if it did."""
        if not is_wanted():
            return None
        path = find()
        if path is None:
            return "its C kernels are not installed"
        try:
            self._library = open_library(path)
        except OSError as error:
            return str(error)
        return None

    def reject(self, reason: str) -> None:
        """Do without the library from now on, after all."""
        with self._lock:
            is_known = self._library is None
            self._library = None
        if not is_known:
            _warn(reason)


def _warn(reason: str) -> None:
    warnings.warn(
        f"fediac runs on NumPy alone, several times slower: {reason}; "
        "reinstall it where there is a C compiler, or set FEDIAC_NATIVE=0",
        RuntimeWarning,
        stacklevel=6,
    )


_loader = _Loader()


def load() -> ctypes.CDLL | None:
    """Return the library, or None if it is missing (with one warning) or unwanted."""
    return _loader.library()


def reject(reason: str) -> None:
    """Warn, and return None from `load` from now on: the library lacks something."""
    _loader.reject(reason)


@contextmanager
def isa_capped_at(cap: str) -> Iterator[str | None]:
    """Use no better instruction set than ``cap`` inside the block; for tests.

    Yields:
        The instruction set in use, which is a weaker one if the machine lacks ``cap``.
    """
    library = load()
    if library is None:
        yield None
        return
    before = isa_of(library)
    library.fediac_set_isa(ISAS.index(cap))
    try:
        yield isa_of(library)
    finally:
        library.fediac_set_isa(ISAS.index(before))


def isa_of(library: ctypes.CDLL) -> str:
    """Return the name of the instruction set that the library uses."""
    name: bytes = library.fediac_isa_name()
    return name.decode()
