import ctypes
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from fediac import native
from fediac.native import dispatch, kernels, layers, library, queueing, serving
from tests.planes import require_native
from tests.support import refuses

WITHOUT = (
    "^fediac runs on NumPy alone, several times slower: {}; reinstall it where there "
    "is a C compiler, or set FEDIAC_NATIVE=0$"
)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDIAC_NATIVE", raising=False)
    monkeypatch.delenv("FEDIAC_ISA", raising=False)


def test_a_missing_library_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "find", lambda: None)
    loader = library._Loader()
    with pytest.warns(
        RuntimeWarning, match=WITHOUT.format("its C kernels are not installed")
    ):
        assert loader.library() is None
    assert loader.library() is None


def test_a_file_that_is_no_library_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / library.FILE_NAME
    broken.write_bytes(b"not a library")
    monkeypatch.setattr(library, "find", lambda: broken)
    with pytest.warns(RuntimeWarning, match=WITHOUT.format(".*")):
        assert library._Loader().library() is None


def test_a_library_of_other_sources_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "one.c").write_text("int main(void) { return 0; }\n")
    monkeypatch.setattr(library, "_SOURCES", tmp_path)
    reason = f".* was built from other sources than those in {tmp_path}"
    with pytest.warns(RuntimeWarning, match=WITHOUT.format(reason)):
        assert library._Loader().library() is None


def test_any_change_of_a_source_is_another_digest(tmp_path: Path) -> None:
    assert library.digest_of(tmp_path) is None
    digests = set()
    for name, text in (("a.c", "1"), ("a.c", "2"), ("b.h", ""), ("notes.md", "3")):
        (tmp_path / name).write_text(text)
        digests.add(library.digest_of(tmp_path))
    assert len(digests) == 3  # notes are no source


def test_a_wheel_without_sources_takes_its_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    require_native()
    monkeypatch.setattr(library, "_SOURCES", tmp_path / "none")
    assert library._Loader().library() is not None


def test_a_foreign_library_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    with pytest.raises(OSError, match=r"is not a library of fediac's kernels$"):
        library.open_library(Path("other.so"))


@pytest.mark.parametrize(
    ("module", "load"),
    [
        (layers, layers.layer_kernels),
        (queueing, queueing.queue_kernels),
        (serving, serving.serve_kernels),
    ],
)
def test_a_library_from_older_sources_is_rejected(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, load: Callable[[], object]
) -> None:
    reasons: list[str] = []

    def fail(_library: ctypes.CDLL, _signatures: library.Signatures) -> None:
        raise AttributeError("fediac_serve_step")

    monkeypatch.setattr(module, "declare", fail)
    monkeypatch.setattr(layers, "isa_of", lambda _library: "avx2")
    monkeypatch.setattr(library, "reject", reasons.append)
    assert load() is None
    assert reasons == ["its C kernels were built from older sources"]


def test_a_library_without_some_kernel_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = library._Loader()
    monkeypatch.setattr(library, "_loader", loader)
    assert library.load() is not None
    monkeypatch.setitem(kernels._SIGNATURES, "fediac_fly", (None, []))
    reason = "its C kernels were built from older sources"
    with pytest.warns(RuntimeWarning, match=WITHOUT.format(reason)):
        assert dispatch._load() is None
    assert dispatch._load() is None
    assert library.load() is None
    loader.reject("told already")


def test_kernels_can_be_turned_off_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDIAC_NATIVE", "0")
    assert library._Loader().library() is None


@pytest.mark.parametrize("value", ["1", ""])
def test_kernels_are_wanted_unless_they_are_turned_off(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    assert library.is_wanted()
    monkeypatch.setenv("FEDIAC_NATIVE", value)
    assert library.is_wanted()


@pytest.mark.parametrize("value", ["2", "false", "no", "00", " 0"])
def test_other_words_for_kernels_are_refused(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("FEDIAC_NATIVE", value)
    loader = library._Loader()
    for _ in range(2):
        with refuses(f"FEDIAC_NATIVE must be 0 or 1, got {value!r}"):
            loader.library()


def test_the_library_is_searched_in_all_folders_of_the_package(tmp_path: Path) -> None:
    assert library.find([str(tmp_path)]) is None
    (tmp_path / library.FILE_NAME).touch()
    elsewhere = tmp_path / "elsewhere"
    found = library.find([str(elsewhere), str(tmp_path)])
    assert found == tmp_path / library.FILE_NAME
    assert library.find() is not None


@pytest.mark.parametrize("cap", library.ISAS)
def test_the_environment_caps_the_instruction_set(
    monkeypatch: pytest.MonkeyPatch, cap: str
) -> None:
    monkeypatch.setenv("FEDIAC_ISA", cap)
    with library.isa_capped_at(cap):
        loaded = library._Loader().library()
        assert loaded is not None
        used = library.isa_of(loaded)
    assert library.ISAS.index(used) <= library.ISAS.index(cap)


def test_an_unknown_instruction_set_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDIAC_ISA", "sse9")
    with refuses("FEDIAC_ISA must be one of baseline, avx2, avx512, got 'sse9'"):
        library._Loader().library()


def test_the_kernels_in_use_have_a_name() -> None:
    assert native.isa() in library.ISAS
    assert native.name_kernels("cpu") == native.isa()
    with native.disabled():
        assert native.isa() is None
        assert native.name_kernels("cpu") == native.name_kernels("cuda") == "none"


def test_disabled_kernels_come_back() -> None:
    values = np.ones(3, np.float32)
    with native.disabled():
        with native.disabled():
            assert native.kernels_for(values) is None
        assert native.kernels_for(values) is None
    assert native.kernels_for(values) is not None
