"""The commands as a user runs them: arguments and files in, text and exit code out."""

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fediac as package
from fediac.errors import UpdateError
from fediac.plan.updates import open_updates
from tests.integration.command import Command, Result


def theory_arguments(**changes: str) -> list[str]:
    settings = {
        "dim": "11173962",
        "clients": "20",
        "n_votes": "558698",
        "threshold": "3",
        "alpha": "-0.5",
    } | changes
    options = {name.replace("_", "-"): value for name, value in settings.items()}
    return ["theory", *(f"--{name}={value}" for name, value in options.items())]


def power_law(dim: int, seed: int) -> NDArray[np.float32]:
    magnitudes = 0.1 * np.arange(1.0, dim + 1.0) ** -0.4
    rng = np.random.default_rng(seed)
    return rng.permutation(magnitudes).astype(np.float32)


class Touches:
    """What pickle calls when it reads a file, as somebody could make it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def three_updates(tmp_path: Path) -> Path:
    path = tmp_path / "updates.npy"
    np.save(path, np.stack([power_law(5000, seed) for seed in range(3)]))
    return path


class TestTheory:
    @pytest.mark.parametrize(
        ("alpha", "threshold", "share", "bound", "bits"),
        [
            ("-0.3", "3", 0.0791, 9.97, 10),
            ("-0.5", "3", 0.0826, 12.37, 13),
            ("-0.5", "4", 0.0340, 11.77, 12),
            ("-0.7", "2", 0.1705, 13.94, 14),
        ],
    )
    def test_json_holds_the_check_values(
        self,
        fediac: Command,
        alpha: str,
        threshold: str,
        share: float,
        bound: float,
        bits: int,
    ) -> None:
        found = fediac.json(*theory_arguments(alpha=alpha, threshold=threshold))
        assert found["expected_chosen"] / 11_173_962 == pytest.approx(share, abs=5e-5)
        assert found["min_bits"] == pytest.approx(bound, abs=5e-3)
        assert found["bits"] == bits
        assert 0.0 < found["gamma"] < 1.0

    def test_numbers_may_be_written_in_any_usual_way(self, fediac: Command) -> None:
        plain = theory_arguments(dim="1000000000", n_votes="50000000", threshold="3")
        fancy = theory_arguments(dim="1e9", n_votes="5%", threshold="15%")
        assert fediac.json(*fancy) == fediac.json(*plain)

    def test_a_fitted_resnet18_has_the_known_errors(self, fediac: Command) -> None:
        found = [
            fediac.json(
                *theory_arguments(alpha="-0.37", phi="0.32", peak="0.15", bits=bits)
            )["gamma"]
            for bits in ("10", "11", "12")
        ]
        assert found == pytest.approx([0.93, 0.69, 0.63], abs=5e-3)

    def test_text_is_plain_and_complete_when_piped(self, fediac: Command) -> None:
        result = fediac(*theory_arguments())
        assert result.code == 0
        assert result.out.isascii()
        assert "\x1b" not in result.out
        lines = {
            line.split()[0]: line.split()[1] for line in result.out.splitlines()[3:]
        }
        assert lines["expected_chosen"] == "922,664"
        assert (lines["min_bits"], lines["bits"]) == ("12.37", "13")
        assert "does not converge" not in result.out

    def test_text_says_when_bits_are_too_few(self, fediac: Command) -> None:
        last_line = fediac(*theory_arguments(bits="12")).out.splitlines()[-1]
        assert last_line == (
            "With these settings training does not converge: bits must be above 12.37."
        )

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"threshold": "0"}, "--threshold must be in 1..20 (n_clients), got 0"),
            (
                {"threshold": "21"},
                "--threshold must be in 1..20 (n_clients), got 21",
            ),
            ({"clients": "0"}, "--clients must be at least 1, got 0"),
            ({"dim": "0"}, "--dim must be at least 1, got 0"),
            ({"dim": "many"}, "--dim must be a whole number, got 'many'"),
            ({"n_votes": "0"}, "--n-votes must be in 1..11173962 (dim), got 0"),
            (
                {"n_votes": "some"},
                "--n-votes must be a whole number or a share such as 5%, got 'some'",
            ),
            ({"alpha": "steep"}, "--alpha must be a number, got 'steep'"),
            ({"alpha": "0.5"}, "--alpha must be finite and below 0, got 0.5"),
            ({"alpha": "nan"}, "--alpha must be finite and below 0, got nan"),
            ({"phi": "-1"}, "--phi must be finite and above 0, got -1.0"),
            ({"peak": "inf"}, "--peak must be finite and above 0, got inf"),
            (
                {"bits": "5"},
                "--bits must leave room for 20 clients (at least 6), got 5",
            ),
        ],
    )
    def test_a_wrong_setting_is_one_line_and_exit_code_2(
        self, fediac: Command, changes: dict[str, str], message: str
    ) -> None:
        result = fediac(*theory_arguments(**changes))
        assert result == Result(2, "", f"error: {message}\n")

    def test_a_missing_option_is_named(self, fediac: Command) -> None:
        result = fediac("theory", "--dim", "100")
        assert result == Result(
            2, "", "error: missing option '--clients'\nsee fediac theory --help\n"
        )


class TestTune:
    def test_json_holds_fits_and_ranked_candidates(
        self, fediac: Command, three_updates: Path
    ) -> None:
        found = fediac.json("tune", three_updates)
        assert (found["n_updates"], found["dim"]) == (3, 5000)
        assert (found["n_clients"], found["n_votes"]) == (3, 1024)
        # See test_powerlaw for how far off a fit may be.
        for name in ("median", "min", "max"):
            assert found["alpha"][name] == pytest.approx(-0.4, abs=0.01)
        assert found["peak"]["max"] == float(np.float32(0.1))
        costs = [each["cost_bytes"] for each in found["candidates"]]
        assert costs == sorted(costs)
        assert len(costs) == 10
        assert found["recommended"] == found["candidates"][0]

    def test_the_recommendation_can_be_pasted(
        self, fediac: Command, three_updates: Path
    ) -> None:
        best = fediac.json("tune", three_updates)["recommended"]
        (line,) = [
            line
            for line in fediac("tune", three_updates).out.splitlines()
            if line.startswith("In Python: ")
        ]
        made = eval(line.removeprefix("In Python: "), {"fediac": package})
        assert (made.n_clients, made.n_votes) == (3, 1024)
        assert (made.threshold, made.bits) == (best["threshold"], best["bits"])

    def test_options_choose_clients_votes_thresholds_and_length(
        self, fediac: Command, three_updates: Path
    ) -> None:
        options = ["--clients=50", "--n-votes=1%", "--thresholds=2-3", "--top=7"]
        found = fediac.json("tune", three_updates, *options)
        assert (found["n_clients"], found["n_votes"]) == (50, 50)
        assert len(found["candidates"]) == 7
        assert {each["threshold"] for each in found["candidates"]} == {2, 3}

    def test_one_update_stands_for_twenty_clients(
        self, fediac: Command, tmp_path: Path
    ) -> None:
        np.save(tmp_path / "one.npy", power_law(5000, 0).astype(np.float64))
        found = fediac.json("tune", tmp_path / "one.npy")
        assert (found["n_updates"], found["n_clients"]) == (1, 20)

    def test_several_files_and_orders_of_axes_are_one_set_of_updates(
        self, fediac: Command, tmp_path: Path, three_updates: Path
    ) -> None:
        rows = np.load(three_updates)
        np.save(tmp_path / "first.npy", rows[0])
        np.save(tmp_path / "rest.npy", np.asfortranarray(rows[1:]))
        together = fediac.json("tune", three_updates)
        apart = fediac.json("tune", tmp_path / "first.npy", tmp_path / "rest.npy")
        assert apart == together

    def test_other_files_hold_the_same_updates(
        self, fediac: Command, tmp_path: Path, three_updates: Path
    ) -> None:
        rows = np.load(three_updates)
        tensors = torch.from_numpy(rows)
        np.savez(tmp_path / "rows.npz", rows)
        np.savez(tmp_path / "each.npz", *rows)
        named = [
            {
                "fc.weight": each[:4900].reshape(70, 70),
                "bn.running_mean": torch.full((9,), 1e3),
                "bn.num_batches_tracked": torch.tensor(7),
                "fc.bias": each[4900:],
            }
            for each in tensors
        ]
        files: dict[str, Any] = {
            "rows.pt": tensors,
            "vectors.pt": list(tensors),
            "named.pt": named,
            "clients.pth": {f"client {i}": each for i, each in enumerate(named)},
            "layers.pt": [[each[:70].reshape(7, 10), each[70:]] for each in tensors],
        }
        for name, content in files.items():
            torch.save(content, tmp_path / name)
        expected = fediac.json("tune", three_updates)
        for name in ("rows.npz", "each.npz", *files):
            assert fediac.json("tune", tmp_path / name) == expected
        one = tmp_path / "one.pt"
        torch.save(named[0], one)
        assert fediac.json("tune", one)["n_updates"] == 1

    def test_a_runs_folder_has_its_own_clients(
        self, fediac: Command, tmp_path: Path, three_updates: Path
    ) -> None:
        rows = np.load(three_updates)
        for number in (1, 2, 10):
            np.save(tmp_path / f"updates-{number}.npy", rows)
        np.save(tmp_path / "updates-mine.npy", rows[:, :7])
        found = fediac.json("tune", tmp_path)
        assert (found["n_updates"], found["n_clients"]) == (9, 3)
        assert found["recommended"] == fediac.json("tune", three_updates)["recommended"]

    def test_text_begins_with_a_recommendation(
        self, fediac: Command, three_updates: Path
    ) -> None:
        best = fediac.json("tune", three_updates)["recommended"]
        result = fediac("tune", three_updates)
        assert (result.code, result.err) == (0, "")
        assert result.out.isascii()
        assert "\x1b" not in result.out
        assert result.out.startswith(
            f"Use threshold {best['threshold']} and {best['bits']} bits: with 3 clients"
        )
        assert "far from a power law" not in result.out

    def test_text_warns_of_magnitudes_that_follow_no_law(
        self, fediac: Command, tmp_path: Path
    ) -> None:
        two_sizes = np.repeat(np.array([1.0, 1e-6], np.float32), [50, 950])
        np.save(tmp_path / "odd.npy", two_sizes)
        out = fediac("tune", tmp_path / "odd.npy").out
        assert "The magnitudes are far from a power law (see misfit)" in out

    def test_thresholds_that_leave_no_choice_are_refused(
        self, fediac: Command, three_updates: Path
    ) -> None:
        options = ["--clients=1000", "--n-votes=1", "--thresholds=1000"]
        result = fediac("tune", three_updates, *options)
        assert result == Result(
            2,
            "",
            "error: no threshold tried keeps gamma below 1 for alpha = -0.4; "
            "try lower thresholds or more votes\n",
        )

    def test_wrong_thresholds_are_one_line(
        self, fediac: Command, three_updates: Path
    ) -> None:
        result = fediac("tune", three_updates, "--thresholds=4-1")
        assert result == Result(
            2,
            "",
            "error: --thresholds must be a range such as 1-4 or a list such as 1,2,4, "
            "got '4-1'\n",
        )


class TestBadFiles:
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (np.ones(5, np.int64), "dtype must be float32 or float64, got int64"),
            (np.ones(5, ">f4"), "dtype must be float32 or float64, got >f4"),
            (
                np.array([{}], dtype=object),
                "dtype must be float32 or float64, got object",
            ),
            (
                np.ones((2, 2, 2), np.float32),
                "shape must be (dim,) or (n_updates, dim), none of them zero, "
                "got (2, 2, 2)",
            ),
            (
                np.ones((3, 0), np.float32),
                "shape must be (dim,) or (n_updates, dim), none of them zero, "
                "got (3, 0)",
            ),
            (
                np.array([[1.0, 2.0], [np.nan, 1.0]], np.float32),
                "update 1: values must be finite in float32, got 1 that are not",
            ),
            (
                np.zeros(4, np.float32),
                "update 0: values must have at least 2 non-zero entries to fit a "
                "power law, got 0",
            ),
        ],
    )
    def test_what_cannot_be_an_update_is_refused(
        self, fediac: Command, tmp_path: Path, values: NDArray[Any], message: str
    ) -> None:
        path = tmp_path / "bad.npy"
        np.save(path, values)
        result = fediac("tune", path)
        assert result == Result(2, "", f"error: {path}: {message}\n")

    def test_a_missing_file_is_refused(self, fediac: Command, tmp_path: Path) -> None:
        path = tmp_path / "none.npy"
        result = fediac("tune", path)
        assert result == Result(2, "", f"error: {path}: no such file or directory\n")

    def test_a_folder_without_updates_says_how_to_keep_them(
        self, fediac: Command, tmp_path: Path
    ) -> None:
        result = fediac("tune", tmp_path)
        assert result == Result(
            2,
            "",
            f"error: {tmp_path}: holds no updates; a run keeps them with --set "
            "save.updates=1, an Experiment with save_updates=1\n",
        )

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("cut.npz", "not an .npz file, or damaged"),
            (
                "cut.pt",
                "not a file of tensors alone that torch.save wrote, or damaged",
            ),
        ],
    )
    def test_other_files_cut_short_are_refused(
        self, fediac: Command, tmp_path: Path, name: str, text: str
    ) -> None:
        path = tmp_path / name
        update = power_law(5000, 0)
        if path.suffix == ".npz":
            np.savez(path, update)
        else:
            torch.save(torch.from_numpy(update), path)
        path.write_bytes(path.read_bytes()[:-200])
        assert fediac("tune", path) == Result(2, "", f"error: {path}: {text}\n")

    def test_code_in_a_file_is_not_run(self, fediac: Command, tmp_path: Path) -> None:
        path = tmp_path / "bad.pt"
        torch.save(Touches(tmp_path / "was run"), path)
        assert fediac("tune", path).code == 2
        assert not (tmp_path / "was run").exists()

    def test_tensors_that_are_no_update_are_named(
        self, fediac: Command, tmp_path: Path
    ) -> None:
        path = tmp_path / "bad.pt"
        torch.save({"epoch": 3}, path)
        assert fediac("tune", path) == Result(
            2,
            "",
            f"error: {path}: client 0: update['epoch'] must be a NumPy array or a "
            "PyTorch tensor, got int\n",
        )

    @pytest.mark.parametrize("content", [b"", b"hello\n", b"PK\x03\x04", b"\x93NUMPY"])
    def test_another_kind_of_file_is_refused(
        self, fediac: Command, tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / "other.npy"
        path.write_bytes(content)
        result = fediac("tune", path)
        assert result == Result(2, "", f"error: {path}: not a .npy file, or damaged\n")

    @pytest.mark.parametrize("n_cut", [1, 19_999, 20_000])
    def test_a_file_cut_short_is_refused(
        self, fediac: Command, tmp_path: Path, n_cut: int
    ) -> None:
        path = tmp_path / "cut.npy"
        np.save(path, power_law(5000, 0))
        path.write_bytes(path.read_bytes()[:-n_cut])
        result = fediac("tune", path)
        assert result == Result(
            2,
            "",
            f"error: {path}: file is cut short, its header promises 5000 entries\n",
        )

    def test_updates_of_another_length_are_refused(
        self, fediac: Command, tmp_path: Path, three_updates: Path
    ) -> None:
        path = tmp_path / "short.npy"
        np.save(path, power_law(4000, 0))
        result = fediac("tune", three_updates, path)
        assert result == Result(
            2,
            "",
            f"error: {path} has 4000 entries per update but {three_updates} has 5000\n",
        )

    @pytest.mark.parametrize("byte", [0x00, 0xFF, ord("("), ord("'"), ord("L")])
    def test_a_damaged_header_never_crashes(self, tmp_path: Path, byte: int) -> None:
        path = tmp_path / "damaged.npy"
        np.save(path, power_law(100, 0))
        intact = path.read_bytes()
        for place in range(128):
            path.write_bytes(intact[:place] + bytes([byte]) + intact[place + 1 :])
            with contextlib.suppress(UpdateError):
                assert open_updates(path).ndim == 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("theory", ["Examples:", "expected_chosen", "min_bits", "gamma", "2^20 bytes"]),
        ("tune", ["Examples:", "threshold", "gamma", "cost", "2^20 bytes"]),
    ],
)
def test_help_teaches_by_example(
    fediac: Command, command: str, words: list[str]
) -> None:
    result = fediac(command, "--help")
    assert result.code == 0
    assert "\x1b" not in result.out
    for word in words:
        assert word in result.out


def test_without_a_command_the_help_is_shown(fediac: Command) -> None:
    result = fediac()
    shown = result.out + result.err
    assert "theory" in shown
    assert "tune" in shown
