import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from msgspec import structs

from fediac import aggregate
from fediac.compressors import FediAC
from fediac.core.ledger import MIB
from fediac.errors import RunError
from fediac.runs.recording import RoundLog, make_round, write_summary
from fediac.runs.records import (
    ROUNDS,
    SUMMARY,
    AtTarget,
    Round,
    RunTotals,
    SentBytes,
    decode,
    summarize,
)
from fediac.sim import Network, constant_uplinks, paper_switch, simulate_round
from fediac.training.federation import FederatedRound, Progress
from fediac.training.local import Evaluation
from tests.runs import make_rounds
from tests.support import normal_update, refuses

N, DIM = 3, 1000
SWITCHES = {
    name: Network(constant_uplinks(N, 700.0), paper_switch(name), compute_s=0.5)
    for name in ("fast", "slow")
}


def run_round(number: int, **changes: Any) -> tuple[FederatedRound, dict[str, Any]]:
    updates = [torch.from_numpy(normal_update(DIM, seed=i)) for i in range(N)]
    result = aggregate(updates, FediAC(N, 100, 2, 9), seed=1, round_number=number)
    done = FederatedRound(
        progress=Progress(number, torch.zeros(DIM), torch.zeros(0), result.states),
        clients=(0, 1, 2),
        trained=(),
        result=result,
        ledger=result.ledger,
        evaluation=Evaluation(0.25, 1.5),
        train_loss=2.5,
        train_s=1.0,
        compress_s=2.0,
        evaluate_s=3.0,
    )
    timings = {
        name: simulate_round(result.ledger, network, seed=1, round_number=number)
        for name, network in SWITCHES.items()
    }
    return replace(done, **changes), timings


def test_a_line_says_everything_about_its_round() -> None:
    done, timings = run_round(1)
    record = make_round(done, timings, None, simulate_s=4.0, real_s=9.0)
    facts = done.result.facts
    assert (record.number, record.clients) == (1, 3)
    assert (record.accuracy, record.loss, record.train_loss) == (0.25, 1.5, 2.5)
    names = ("votes", "chosen", "bits", "peak", "scale", "gamma", "aggregations")
    for name in (*names, "register_bytes", "clamped"):
        assert getattr(record, name) == getattr(facts, name)
    assert facts.bits == 9
    assert (record.train_s, record.compress_s) == (1.0, 2.0)
    assert (record.simulate_s, record.evaluate_s, record.real_s) == (4.0, 3.0, 9.0)
    assert record.time_s == record.round_s
    assert set(record.time_s) == {"fast", "slow"}
    assert decode(msgspec.json.encode(record), Round, "") == record


def test_bytes_are_given_by_phase_and_direction_in_both_views() -> None:
    done, timings = run_round(1)
    record = make_round(done, timings, None, simulate_s=0.0, real_s=0.0)
    votes, levels = N * DIM / 8, N * done.result.facts.chosen * 9 / 8
    sent = {"votes": votes, "levels": levels}
    assert record.traffic.payload == SentBytes(up=sent, down=sent)
    wire = record.traffic.wire
    assert wire.up["votes"] > votes
    assert record.payload_mib == pytest.approx(2 * (votes + levels) / MIB)
    total = sum((*wire.up.values(), *wire.down.values()))
    assert record.wire_mib == pytest.approx(total / MIB)


def test_times_and_mib_count_from_the_start_of_the_run() -> None:
    first = make_round(*run_round(1), None, simulate_s=0.0, real_s=0.0)
    done, timings = run_round(2)
    second = make_round(done, timings, first, simulate_s=0.0, real_s=0.0)
    for name, timing in timings.items():
        assert second.round_s[name] == timing.round_s
        assert second.time_s[name] == first.time_s[name] + timing.round_s
        described = second.timing[name]
        assert described.compute_s == 0.5
        assert max(described.finish_s) == timing.round_s
        assert [each.name for each in described.phases] == ["votes", "levels"]
    alone = make_round(done, timings, None, simulate_s=0.0, real_s=0.0)
    for view in ("payload", "wire"):
        assert second.mib[view] == first.mib[view] + alone.mib[view]


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_becomes_null(loss: float) -> None:
    done, timings = run_round(1, evaluation=Evaluation(0.1, loss), train_loss=loss)
    record = make_round(done, timings, None, simulate_s=0.0, real_s=0.0)
    assert record.loss is None
    assert record.train_loss is None
    assert b'"loss":null' in msgspec.json.encode(record)


def lines(*numbers: int) -> list[dict[str, Any]]:
    made = make_rounds("fediac", max(numbers))
    return [made[number - 1] for number in numbers]


def rounds(*numbers: int) -> list[Round]:
    return [decode(json.dumps(line), Round, "made up") for line in lines(*numbers)]


def as_text(records: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_lines_are_appended_and_read_back(tmp_path: Path) -> None:
    log = RoundLog(tmp_path)
    for record in rounds(1, 2, 3):
        log.append(record)
    assert log.keep_until(3) == rounds(1, 2, 3)
    assert len((tmp_path / ROUNDS).read_text().splitlines()) == 3


@pytest.mark.parametrize("tail", ["", '{"round": 3, "accu', '{"round": 3}\n{"rou', "{"])
def test_what_was_written_after_the_checkpoint_is_dropped(
    tmp_path: Path, tail: str
) -> None:
    log = RoundLog(tmp_path)
    for record in rounds(1, 2):
        log.append(record)
    path = tmp_path / ROUNDS
    path.write_text(path.read_text() + tail)
    assert log.keep_until(2) == rounds(1, 2)
    log.append(rounds(3)[0])
    kept = [json.loads(line)["round"] for line in path.read_text().splitlines()]
    assert kept == [1, 2, 3]
    assert log.keep_until(0) == []
    assert path.read_text() == ""


def test_a_number_that_is_not_finite_is_named_and_not_written(tmp_path: Path) -> None:
    with refuses("round 3: gamma must be finite", RunError):
        RoundLog(tmp_path).append(structs.replace(rounds(3)[0], gamma=math.nan))
    assert not (tmp_path / "rounds.jsonl").exists()


def test_a_log_without_rounds_may_be_missing(tmp_path: Path) -> None:
    assert RoundLog(tmp_path).keep_until(0) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            as_text(lines(1)) + '{"round": 2}',
            ": must have a line for each of 2 rounds in the checkpoint, got 1",
        ),
        (as_text(lines(1, 3)), ":2: round must be 2, got 3"),
        (
            as_text(lines(1)) + '{"round": \n',
            ":2: not JSON (input data was truncated)",
        ),
        ("[]\n[]\n", ":1: expected object, got array"),
    ],
)
def test_a_log_that_lacks_a_round_is_refused(
    tmp_path: Path, text: str, why: str
) -> None:
    (tmp_path / ROUNDS).write_text(text)
    with refuses(f"{tmp_path / ROUNDS}{why}", RunError):
        RoundLog(tmp_path).keep_until(2)
    assert (tmp_path / ROUNDS).read_text() == text


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"real_s": None}, "real_s: expected float, got null"),
        ({"time_s": {}}, "time_s: expected object of length >= 1"),
        ({"traffic": 3}, "traffic: expected object, got int"),
        (
            {"wire_mib": 0},
            "wire_mib counts from the start and must not fall, got 0.0 after "
            f"{lines(1)[0]['wire_mib']}",
        ),
    ],
)
def test_a_log_that_a_run_cannot_go_on_from_is_refused_and_left_as_it_is(
    tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    records = lines(1, 2, 3)
    records[1] |= change
    path, text = tmp_path / ROUNDS, as_text(records)
    path.write_text(text)
    with refuses(f"{path}:2: {why}", RunError):
        RoundLog(tmp_path).keep_until(2)
    assert path.read_text() == text


def test_rounds_of_zeros_send_nothing_and_can_go_on(tmp_path: Path) -> None:
    records = [each | {"payload_mib": 0.0, "wire_mib": 0.0} for each in lines(1, 2)]
    (tmp_path / ROUNDS).write_text(as_text(records))
    kept = RoundLog(tmp_path).keep_until(2)
    assert [each.mib["payload"] for each in kept] == [0.0, 0.0]


def results(*accuracies: float) -> list[Round]:
    (made,) = rounds(1)
    return [
        structs.replace(
            made,
            number=number,
            accuracy=accuracy,
            payload_mib=10.0 * number,
            wire_mib=11.0 * number,
            time_s={"fast": 2.0 * number, "slow": 3.0 * number},
        )
        for number, accuracy in enumerate(accuracies, start=1)
    ]


def test_a_summary_tells_the_end_the_best_and_the_target() -> None:
    assert summarize(results(0.25, 0.75, 0.8, 0.7), 0.75) == RunTotals(
        rounds=4,
        accuracy=0.7,
        payload_mib=40.0,
        wire_mib=44.0,
        time_s={"fast": 8.0, "slow": 12.0},
        best_accuracy=0.8,
        target=AtTarget(
            accuracy=0.75,
            reached=True,
            number=2,
            payload_mib=20.0,
            wire_mib=22.0,
            time_s={"fast": 4.0, "slow": 6.0},
        ),
    )


def test_a_target_may_be_missed_or_absent() -> None:
    missed = summarize(results(0.25), 0.5).target
    assert missed == AtTarget(accuracy=0.5, reached=False)
    assert json.loads(msgspec.json.encode(missed)) == {
        "accuracy": 0.5,
        "reached": False,
    } | dict.fromkeys(("round", "payload_mib", "wire_mib", "time_s"))
    assert summarize(results(0.25), None).target is None


def test_a_summary_is_replaced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_summary(tmp_path, {"rounds": 1})
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_summary(tmp_path, {"rounds": 2})
    assert json.loads((tmp_path / SUMMARY).read_text()) == {"rounds": 1}
    write_summary(tmp_path, {"rounds": 3})
    assert [path.name for path in tmp_path.iterdir()] == [SUMMARY]
