import importlib.util
import json
import re
import shutil
from importlib.metadata import PackageNotFoundError, metadata, version
from typing import Any

import pytest
import torch

from fediac import native
from fediac.plan import doctor
from fediac.plan.doctor import Finding, examine, run_doctor


def find(name: str) -> Finding:
    return next(each for each in examine() if each.name == name)


def test_everything_there_is_is_looked_for() -> None:
    findings = examine()
    names = [each.name for each in findings]
    assert names == [
        "native kernels",
        "torch",
        "CUDA",
        "triton",
        "matplotlib",
        "tensorboard",
        "chromium",
    ]
    assert all(each.brings and each.found for each in findings)
    assert find("torch") == Finding(
        "torch",
        is_there=True,
        found=version("torch"),
        brings="training, and tensors as updates (pip install 'fediac[train]')",
    )


def test_what_it_says_to_install_can_be_installed() -> None:
    extras = metadata("fediac").get_all("Provides-Extra")
    named = re.findall(r"fediac\[(\w+)\]", " ".join(each.brings for each in examine()))
    assert set(named) == {"train", "plot", "tensorboard"}
    assert extras is not None
    assert set(named) <= set(extras)


def test_kernels_say_what_they_were_built_for() -> None:
    with native.disabled():
        finding = find("native kernels")
    assert (finding.is_there, finding.found) == (False, "not built or turned off")
    if native.isa() is not None:
        assert find("native kernels").found.startswith(str(native.isa()))


def test_what_is_missing_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", no_version)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    found = {each.name: (each.is_there, each.found) for each in examine()}
    assert found["torch"] == found["matplotlib"] == (False, "not installed")
    assert found["CUDA"] == (False, "torch is missing")
    assert found["chromium"] == (False, "not on the PATH")


@pytest.mark.parametrize(
    ("has_cuda", "expected"),
    [(True, (True, "H200")), (False, (False, "none found"))],
)
def test_a_gpu_is_named(
    monkeypatch: pytest.MonkeyPatch, *, has_cuda: bool, expected: tuple[bool, str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_cuda)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "H200")
    finding = find("CUDA")
    assert (finding.is_there, finding.found) == expected


def test_json_holds_every_finding(capsys: pytest.CaptureFixture[str]) -> None:
    run_doctor(as_json=True)
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["fediac"] == version("fediac")
    assert [each["name"] for each in document["findings"]] == [
        each.name for each in examine()
    ]


def test_the_table_says_yes_or_no(capsys: pytest.CaptureFixture[str]) -> None:
    run_doctor(as_json=False)
    text = capsys.readouterr().out
    assert f"fediac {version('fediac')} on Python" in text
    assert "native kernels" in text
    assert "yes" in text
