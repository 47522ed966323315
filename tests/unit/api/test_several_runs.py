import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from fediac.api.several_runs import compare_algorithms, make_table
from fediac.errors import (
    AlgorithmError,
    ConfigError,
    FediacError,
    LocalProtocolError,
    RunError,
    UpdateError,
)
from fediac.runs.loop import run_experiment
from fediac.runs.observers import NoObserver
from fediac.runs.records import AtTarget, RunTotals, Summary
from fediac.runs.settings import RunSettings
from tests.support import refuses
from tests.tiny import make_settings, read_lines

ALGORITHMS = ["fediac", "fedavg"]


def compare(
    folder: Path,
    algorithms: list[str] = ALGORITHMS,
    *,
    resumes: bool = False,
    **changes: Any,
) -> dict[str, Summary]:
    settings = make_settings(folder.parent / "data", **changes)
    return compare_algorithms(settings, algorithms, folder, resumes=resumes).summaries


def test_every_algorithm_gets_a_folder_and_all_a_summary(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    summaries = compare(folder, stop={"rounds": 2})
    assert list(summaries) == ALGORITHMS
    for name, summary in summaries.items():
        assert summary.algorithm == name
        assert len(read_lines(folder / name)) == 2
    document = json.loads((folder / "summary.json").read_text())
    expected = {"algorithms": list(summaries.values())}
    assert document == json.loads(msgspec.json.encode(expected))
    hashes = {summary.partition.sha256 for summary in summaries.values()}
    assert len(hashes) == 1


def test_a_comparison_runs_what_single_runs_run(tmp_path: Path) -> None:
    compare(tmp_path / "all", ["topk"], stop={"rounds": 1})
    settings = make_settings(tmp_path / "data", algorithm="topk", stop={"rounds": 1})
    run_experiment(settings, tmp_path / "one", resumes=False)
    assert read_lines(tmp_path / "all" / "topk") == read_lines(tmp_path / "one")


def test_names_given_twice_run_once(tmp_path: Path) -> None:
    both = ["fedavg", "fedavg"]
    assert list(compare(tmp_path / "all", both, stop={"rounds": 1})) == ["fedavg"]


def test_nothing_runs_if_a_name_is_unknown_or_missing(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    with refuses("unknown algorithm 'top'; did you mean 'topk'?", ConfigError):
        compare(folder, ["fedavg", "top"])
    with refuses(
        "algorithms must name some of fediac, switchml, omnireduce, libra, fedavg, "
        "topk",
        ConfigError,
    ):
        compare(folder, [])
    assert not folder.exists()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"switchml": {"bits": 2}},
            "switchml.bits must leave room for 3 clients (at least 3), got 2",
        ),
        (
            {"omnireduce": {"block": 1000}},
            "omnireduce.block must be at most 352 entries (payload_bytes=1408), "
            "got 1000",
        ),
        ({"topk": {"n_sent": 0}}, "topk.n_sent must be at least 1, got 0"),
    ],
)
def test_nothing_runs_if_one_algorithm_cannot_have_its_settings(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    folder = tmp_path / "all"
    with refuses(text, ConfigError):
        compare(folder, ["fedavg", *changes], **changes)
    assert not folder.exists()


def test_what_a_server_chooses_is_not_refused(tmp_path: Path) -> None:
    given = {"threshold": 20, "bits": 2}  # more than there are clients; too narrow
    names = ["fedavg", "fediac"]
    found = compare(tmp_path / "all", names, tuning="server", fediac=given)
    assert list(found) == names


@pytest.mark.parametrize("damage", [b"{", b"\xff"])
def test_nothing_runs_if_an_earlier_summary_is_damaged(
    tmp_path: Path, damage: bytes
) -> None:
    folder = tmp_path / "all"
    compare(folder, ["topk"], stop={"rounds": 1})
    whole = (folder / "summary.json").read_bytes()
    damaged = folder / "topk" / "summary.json"
    damaged.write_bytes(damage)
    with pytest.raises(RunError, match=re.escape(f"{damaged}: not JSON (")):
        compare(folder, ["fedavg"], stop={"rounds": 1})
    assert not (folder / "fedavg").exists()
    assert (folder / "summary.json").read_bytes() == whole


def test_a_summary_that_is_damaged_meanwhile_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "all"
    compare(folder, ["topk"], stop={"rounds": 1})

    def damage(*_: object) -> None:
        (folder / "topk" / "summary.json").write_text("{")
        raise KeyboardInterrupt

    monkeypatch.setattr(NoObserver, "round_done", damage)
    with pytest.raises(KeyboardInterrupt):
        compare(folder, ["fedavg"], stop={"rounds": 1})
    (ended,) = json.loads((folder / "summary.json").read_text())["algorithms"]
    assert ended["algorithm"] == "topk"


def test_nothing_runs_beside_a_run_with_other_settings(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    compare(folder, ["topk"], seed=9, stop={"rounds": 1})
    text = (
        f"{folder / 'topk' / 'config.toml'}: seed was 9, got 1; a comparison needs the "
        "same settings, but for algorithms' own, [stop] and [save]; give another --out"
    )
    with refuses(text, ConfigError):
        compare(folder, ["fedavg"], stop={"rounds": 1})
    assert not (folder / "fedavg").exists()


def test_algorithms_may_have_settings_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    compare(folder, ["topk"], stop={"rounds": 1}, train={"n_at_once": 1})
    compare(folder, ["fediac"], topk={"n_sent": 7}, tuning="server", stop={"rounds": 2})
    ended = json.loads((folder / "summary.json").read_text())["algorithms"]
    assert [each["algorithm"] for each in ended] == ["fediac", "topk"]


def test_nothing_runs_if_one_folder_holds_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    compare(folder, ["fedavg"], stop={"rounds": 1})
    text = (
        f"{folder / 'fedavg'}: holds a run already; add --resume to go on with it, or "
        "give another --out"
    )
    with refuses(text, ConfigError):
        compare(folder, ["topk", "fedavg"], stop={"rounds": 1})
    assert not (folder / "topk").exists()


def test_resuming_keeps_complete_runs_and_adds_new_ones(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    first = compare(folder, ["fedavg"], stop={"rounds": 2})
    before = (folder / "fedavg" / "rounds.jsonl").read_bytes()
    again = compare(folder, ["fedavg", "topk"], resumes=True, stop={"rounds": 2})
    assert (folder / "fedavg" / "rounds.jsonl").read_bytes() == before
    assert again["fedavg"] == first["fedavg"]
    assert again["topk"].rounds == 2


def show(summaries: dict[str, RunTotals]) -> list[str]:
    file = io.StringIO()
    Console(width=200, file=file).print(make_table(summaries))
    return file.getvalue().splitlines()


def make_summary(*, is_reached: bool | None = None) -> RunTotals:
    target = AtTarget(
        accuracy=0.63,
        reached=bool(is_reached),
        payload_mib=1234.56 if is_reached else None,
    )
    return RunTotals(
        rounds=7,
        accuracy=0.655,
        best_accuracy=0.7,
        payload_mib=3197.04,
        wire_mib=3300.0,
        time_s={"fast": 12.34, "slow": 23.45},
        target=None if is_reached is None else target,
    )


def test_the_table_shows_what_each_algorithm_came_to() -> None:
    text = show({"fediac": make_summary()})
    for words in ("algorithm", "rounds", "time, fast switch", "time, slow switch"):
        assert words in text[1]
    assert "MiB to" not in text[1]
    for words in ("fediac", "7", "65.5 %", "3,197", "3,300", "12.34 s", "23.45 s"):
        assert words in text[3]


@pytest.mark.parametrize(
    ("is_reached", "cell"), [(True, "1,235"), (False, "not reached")]
)
def test_with_a_target_the_table_says_what_it_took(
    *, is_reached: bool, cell: str
) -> None:
    text = show({"fediac": make_summary(is_reached=is_reached)})
    assert "MiB to 63 %" in text[1]
    assert cell in text[3]


def test_small_numbers_have_digits_that_say_something() -> None:
    small = msgspec.structs.replace(
        make_summary(), payload_mib=0.0123, wire_mib=0.0456, time_s={"fast": 0.00789}
    )
    text = show({"fediac": small})[3]
    for words in ("0.01230", "0.04560", "0.007890 s"):
        assert words in text


def test_an_earlier_comparison_stays_in_the_summary(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    compare(folder, ["switchml"])
    compare(folder, ["fedavg"])
    summary = json.loads((folder / "summary.json").read_text())
    assert [each["algorithm"] for each in summary["algorithms"]] == [
        "switchml",
        "fedavg",
    ]


def test_own_algorithms_stay_in_the_summary_too(tmp_path: Path) -> None:
    folder = tmp_path / "all"
    own = "fediac.compressors:SwitchML"  # a class like a user's
    assert list(compare(folder, [own], stop={"rounds": 1})) == ["SwitchML"]
    (folder / "SwitchML").rename(folder / "kept")  # somebody's own from now on
    compare(folder, [own, "topk"], stop={"rounds": 1})
    compare(folder, ["fedavg"], stop={"rounds": 1})
    summary = json.loads((folder / "summary.json").read_text())
    names = [each["algorithm"] for each in summary["algorithms"]]
    assert names == ["fedavg", "topk", own]


def test_a_run_and_a_comparison_keep_apart(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "data")
    run_experiment(settings, tmp_path / "one", resumes=False)
    text = f"{tmp_path / 'one'}: holds a single run; give another --out"
    with refuses(text, ConfigError):
        compare(tmp_path / "one")
    compare(tmp_path / "all", ["fedavg"])
    text = (
        "holds other runs in folders of their own, such as fedavg; give another --out"
    )
    with refuses(f"{tmp_path / 'all'}: {text}", ConfigError):
        run_experiment(settings, tmp_path / "all", resumes=False)


def test_a_comparison_that_goes_on_tells_only_of_runs_that_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "all"
    compare(folder, stop={"rounds": 1})

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(NoObserver, "round_done", stop)
        with pytest.raises(KeyboardInterrupt):
            compare(folder, resumes=True, stop={"rounds": 3})
    (ended,) = json.loads((folder / "summary.json").read_text())["algorithms"]
    assert (ended["algorithm"], ended["rounds"]) == ("fedavg", 1)
    compare(folder, resumes=True, stop={"rounds": 3})
    ended = json.loads((folder / "summary.json").read_text())["algorithms"]
    assert [each["rounds"] for each in ended] == [3, 3]


@pytest.mark.parametrize("kind", [UpdateError, AlgorithmError, LocalProtocolError])
def test_one_that_fails_does_not_keep_the_others_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[FediacError]
) -> None:
    def fail(settings: RunSettings, *arguments: Any, **others: Any) -> Any:
        if settings.algorithm == "fediac":
            raise kind("client 0, round 1: update has 1 entry that is infinite")
        return run_experiment(settings, *arguments, **others)

    monkeypatch.setattr("fediac.api.several_runs.run_experiment", fail)
    settings = make_settings(tmp_path / "data", stop={"rounds": 1})
    folder = tmp_path / "all"
    found = compare_algorithms(settings, ALGORITHMS, folder, resumes=False)
    assert list(found.summaries) == ["fedavg"]
    why = "client 0, round 1: update has 1 entry that is infinite"
    assert found.failures == {"fediac": why}
    (ended,) = json.loads((folder / "summary.json").read_text())["algorithms"]
    assert ended["algorithm"] == "fedavg"
    with refuses(why, kind):
        compare_algorithms(settings, ["fediac"], tmp_path / "one", resumes=False)
