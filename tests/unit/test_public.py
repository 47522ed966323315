"""What is public: every name that is promised is there, and examples use no other."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import fediac
from fediac import extend, partition

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("name", fediac.__all__)
def test_every_promised_name_is_there(name: str) -> None:
    assert getattr(fediac, name) is not None
    assert name in dir(fediac)


@pytest.mark.parametrize("name", extend.__all__)
def test_everything_to_write_an_algorithm_with_is_there(name: str) -> None:
    assert getattr(extend, name) is not None


@pytest.mark.parametrize("name", partition.__all__)
def test_every_way_to_share_a_training_set_out_is_there(name: str) -> None:
    assert callable(getattr(fediac.partition, name))


def test_the_version_is_the_packages() -> None:
    assert fediac.__version__ == version("fediac")


def test_names_that_are_not_there_are_refused() -> None:
    with pytest.raises(AttributeError, match="'fediac' has no attribute 'FedSGD'"):
        fediac.FedSGD  # noqa: B018 - looked up


def test_looking_at_the_package_imports_no_torch() -> None:
    code = (
        "import sys, fediac; "
        "fediac.FediAC, fediac.__version__, fediac.load_dataset, fediac.extend; "
        "fediac.partition.iid([0, 1], 2, seed=1); "
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_use_public_names_only(path: Path) -> None:
    modules = re.findall(r"(?m)^(?:from|import) (fediac[\w.]*)", path.read_text())
    assert modules
    assert set(modules) <= {"fediac", "fediac.extend", "fediac.partition"}


def test_the_way_to_the_registers_is_there_to_read() -> None:
    root = Path(__file__).parents[2]
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    modules = re.findall(r"(?m)^[0-9]+\. `([a-z_/]+\.py)`: ", text)
    assert len(modules) == 13
    for module in modules:
        assert (root / "src" / "fediac" / module).is_file()
