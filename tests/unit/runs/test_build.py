import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fediac.compressors import (
    FedAvg,
    FediAC,
    OmniReduce,
    SwitchML,
    TopK,
)
from fediac.errors import ConfigError
from fediac.runs.algorithm import require_no_server
from fediac.runs.build import (
    choose_device,
    prepare_run,
)
from fediac.runs.settled import Settled
from tests.support import refuses
from tests.tiny import make_settings

DIM = 475


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ("fediac", FediAC(3, "20%", 2)),
        ("switchml", SwitchML(3, 12)),
        ("omnireduce", OmniReduce(3, "5%")),
        ("fedavg", FedAvg(3)),
        ("topk", TopK(3, "1%")),
    ],
)
def test_an_algorithm_has_the_settings_of_its_table(
    build: Any, algorithm: str, expected: object
) -> None:
    prepared = build(algorithm=algorithm)
    assert prepared.federation.model.dim == DIM
    assert prepared.make_compressor() == expected


@pytest.mark.parametrize(
    "algorithm", ["fediac", "switchml", "omnireduce", "libra", "topk"]
)
def test_a_residual_fades_as_its_algorithms_table_says(
    build: Any, algorithm: str
) -> None:
    prepared = build(algorithm=algorithm, **{algorithm: {"fade": 0.25}})
    assert prepared.make_compressor().fade == 0.25


@pytest.mark.parametrize("algorithm", ["fediac", "switchml"])
def test_lanes_are_what_its_algorithms_table_says(build: Any, algorithm: str) -> None:
    prepared = build(algorithm=algorithm, **{algorithm: {"lanes": "words"}})
    assert prepared.make_compressor().lanes == "words"


def test_a_threshold_share_rounds_up_against_those_taking_part(build: Any) -> None:
    prepared = build(
        clients={"n_clients": 10, "n_participants": "35%"}, fediac={"threshold": "30%"}
    )
    compressor = prepared.make_compressor()
    # 35 % of 10 clients are 4; 30 % of those are 1.2.
    assert prepared.federation.n_participants == 4
    assert (compressor.n_clients, compressor.votes_needed) == (4, 2)


def test_clients_have_as_many_examples_as_the_settings_say(build: Any) -> None:
    data = {"partition": "writer", "min_size": 20}  # every writer has one
    sizes = [len(rows) for rows in build(data=data).partition.clients]
    assert sizes == [20, 20, 20]
    with refuses("max_size must be at least 20 (min_size), got 10"):
        build(data=data | {"max_size": 10})
    with refuses(
        "min_size must be in 1..32 (96 examples, 3 clients), got 33", ValueError
    ):
        build(data={"partition": "dirichlet", "min_size": 33})


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"algorithm": "fediak"},
            "unknown algorithm 'fediak'; did you mean 'fediac'?",
        ),
        ({"clients": {"n_clients": 0}}, "clients.n_clients must be at least 1, got 0"),
        (
            {"clients": {"n_clients": 1100, "n_participants": 4}},
            "clients.n_clients must be at most 1024 (bits of a slot's bitmap), "
            "got 1100",
        ),
        (
            {"clients": {"n_participants": 4}},
            "clients.n_participants must be in 1..3 (clients), got 4",
        ),
        ({"train": {"n_at_once": -1}}, "train.n_at_once must be at least 0, got -1"),
        ({"stop": {"rounds": 0}}, "stop.rounds must be at least 1, got 0"),
        *(
            (
                {"stop": {name: value}},
                f"stop.{name} must be finite and above 0, got {float(value)}",
            )
            for name in ("simulated_s", "real_s")
            for value in (-1, 0, math.inf)
        ),
        (
            {"data": {"classes_per_client": 0}},
            "data.classes_per_client must be at least 1, got 0",
        ),
        (
            {"save": {"checkpoint_every": 0}},
            "save.checkpoint_every must be at least 1, got 0",
        ),
        ({"save": {"updates": -1}}, "save.updates must be at least 0, got -1"),
        (
            {"data": {"partition": "own"}},
            "data.partition must not be own in a file: fediac.Experiment was given who "
            "has what, in Python",
        ),
        (
            {"network": {"switches": []}},
            "network.switches must name at least one switch, got none",
        ),
        ({"data": {"min_size": 0}}, "data.min_size must be at least 1, got 0"),
        ({"data": {"max_size": 0}}, "data.max_size must be at least 1, got 0"),
        (
            {"tuning": "none"},
            "fediac.bits must be a number or 'coarse' when tuning is 'none', got "
            "'auto'; give one, or let tuning be 'local'",
        ),
        (
            {"tuning": "none", "fediac": {"bits": "bound"}},
            "fediac.bits must be a number or 'coarse' when tuning is 'none', got "
            "'bound'; give one, or let tuning be 'local'",
        ),
    ],
)
def test_settings_that_cannot_be_run_are_refused_before_training(
    build: Any, changes: dict[str, Any], text: str
) -> None:
    with refuses(text, ConfigError):
        build(**changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"algorithm": "libra", "libra": {"hot_rounds": 0}},
            "libra.hot_rounds must be at least 1, got 0",
        ),
        (
            {"fediac": {"threshold": 4}},
            "fediac.threshold must be in 1..3 (clients in a round), got 4",
        ),
        (
            {"fediac": {"n_votes": 476}},
            "fediac.n_votes must be in 1..475 (dim), got 476",
        ),
        (
            {"fediac": {"n_votes": 476}, "tuning": "server"},
            "fediac.n_votes must be in 1..475 (dim), got 476",
        ),
        (
            {"algorithm": "topk", "topk": {"n_sent": 0}},
            "topk.n_sent must be at least 1, got 0",
        ),
    ],
)
def test_settings_that_an_algorithm_cannot_have_are_refused_before_training(
    build: Any, changes: dict[str, Any], text: str
) -> None:
    with refuses(text, ConfigError):
        build(**changes)


@pytest.mark.parametrize("beta", [0.0, 0.005, 1e7, math.inf, math.nan])
@pytest.mark.parametrize("partition", ["iid", "writer", "dirichlet", "pathological"])
def test_beta_is_checked_whatever_the_partition(
    tmp_path: Path, partition: Any, beta: float
) -> None:
    settings = make_settings(tmp_path, data={"partition": partition})
    changed = replace(settings, data=replace(settings.data, beta=beta))
    with refuses(f"beta must be in 0.01..1e+06, got {beta}"):
        prepare_run(changed)


def test_a_target_that_no_file_gave_is_checked_as_well(tmp_path: Path) -> None:
    settings = make_settings(tmp_path)
    beyond = replace(settings, stop=replace(settings.stop, target=63.0))
    text = "stop.target must be above 0 and at most 1 (all right), got 63"
    with refuses(text, ConfigError):
        prepare_run(beyond)


def test_blocks_that_fit_no_packet_are_refused_before_training(build: Any) -> None:
    text = "omnireduce.block must be at most 352 entries (payload_bytes=1408), got 353"
    with refuses(text, ConfigError):
        build(algorithm="omnireduce", omnireduce={"block": 353})


@pytest.mark.parametrize("algorithm", ["fediac", "omnireduce"])
def test_a_switch_without_room_is_refused_before_training(
    build: Any, algorithm: str
) -> None:
    name = {"fediac": "tally", "omnireduce": "block_sum"}[algorithm]
    text = rf"^register_bytes must be at least \d+ for two packets of a {name} from 3"
    with pytest.raises(ValueError, match=text):
        build(algorithm=algorithm, network={"register_bytes": 3050})
    build(algorithm="switchml", network={"register_bytes": 3050})


@pytest.mark.parametrize(
    ("algorithm", "kind", "n_bytes"),
    [
        ("fediac", "tally", 7000),
        ("switchml", "sum", 5950),
        ("omnireduce", "blocksum", 5950),
    ],
)
def test_a_clock_without_slots_is_refused_before_training(
    build: Any, algorithm: str, kind: str, n_bytes: int
) -> None:
    small = {"memory": "bounded", "register_bytes": n_bytes}
    with pytest.raises(
        ValueError, match=rf"^register_bytes must be at least \d+ for a {kind}"
    ):
        build(algorithm=algorithm, network=small)
    build(algorithm="topk", network=small)


def test_a_clock_without_slots_for_wide_sums_is_refused_before_training(
    build: Any,
) -> None:
    small = {"memory": "bounded", "register_bytes": 6800}
    build(algorithm="switchml", network=small)
    with refuses(
        "register_bytes must be at least 6816 for a sum from 3 clients, got 6800"
    ):
        build(algorithm="switchml", network=small, switchml={"lanes": "dense"})


def test_widths_that_cannot_hold_all_clients_are_refused_before_training(
    build: Any,
) -> None:
    text = "switchml.bits must leave room for 3 clients (at least 3), got 2"
    with refuses(text, ConfigError):
        build(algorithm="switchml", switchml={"bits": 2})


def test_without_tuning_the_width_is_what_was_given(build: Any) -> None:
    prepared = build(tuning="none", fediac={"bits": 9})
    assert prepared.make_compressor().bits == 9


def test_tuning_is_fediacs_own(build: Any) -> None:
    prepared = build(algorithm="switchml", tuning="none")
    assert prepared.make_compressor().bits == 12


def test_server_tuning_begins_with_averaging_and_goes_on_with_its_choice(
    build: Any,
) -> None:
    prepared = build(tuning="server")
    assert prepared.make_compressor() == FedAvg(3)
    for threshold in (1, 3):  # the settings have a threshold of 2
        settled = Settled({"threshold": threshold, "bits": 7})
        chosen = prepared.make_compressor(settled)
        assert chosen == FediAC(3, "20%", threshold, bits=7)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"algorithm": "libra"}, "libra"),
        ({"algorithm": "fedavg"}, "fedavg"),
        ({"tuning": "server"}, "tuning = 'server'"),
    ],
)
def test_a_switch_elsewhere_refuses_what_needs_a_server(
    tmp_path: Path, changes: dict[str, Any], what: str
) -> None:
    settings = make_settings(tmp_path, **changes)
    text = (
        f"--switch: {what} sends floats to a far server, and a switch adds integers "
        "alone; take one of fediac, switchml, omnireduce, or run without --switch"
    )
    with refuses(text, ConfigError):
        require_no_server(settings, n_clients=3, dim=DIM)


def test_libra_has_the_widths_that_are_set(build: Any) -> None:
    plain = build(algorithm="libra").make_compressor()
    assert (plain.bits, plain.narrow) == (32, False)
    table = {"bits": 10, "narrow": True}
    narrow = build(algorithm="libra", libra=table).make_compressor()
    assert (narrow.bits, narrow.narrow) == (10, True)


def test_cuda_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with refuses("device must be cpu on this machine (no CUDA), got cuda"):
        choose_device("cuda")
    assert choose_device("auto") == "cpu"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert [choose_device(name) for name in ("auto", "cuda", "cpu")] == [
        "cuda",
        "cuda",
        "cpu",
    ]


def test_the_seed_decides_weights_and_shares(build: Any) -> None:
    first, again, other = build(), build(), build(seed=2)
    weights = first.federation.model.parameters
    assert torch.equal(weights, again.federation.model.parameters)
    assert not torch.equal(weights, other.federation.model.parameters)
    assert first.partition.sha256 == again.partition.sha256
    assert first.partition.sha256 != other.partition.sha256
