import json
import math
import tomllib
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fediac.compressors import CATALOG, FedAvg, FediAC
from fediac.core.tuning import Candidate
from fediac.errors import ConfigError, FediacError, RunError, UpdateError
from fediac.runs.checkpoint import load_checkpoint
from fediac.runs.folder import MODEL
from fediac.runs.loop import run_experiment
from fediac.runs.observers import NoObserver
from fediac.runs.records import CHECKPOINT, CONFIG, Round, Summary
from fediac.runs.server_tuning import tune_on_server
from fediac.runs.settings import RunSettings, StopSettings, read_settings
from fediac.runs.stored import read_run
from fediac.sim import simulate_round
from fediac.transports import aggregate
from tests.support import refuses
from tests.tiny import make_settings, normed_model, read_lines, seeded


class Spy(NoObserver):
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, Any]] = []
        self.n_clients_done = 0
        self.rounds: list[int] = []
        self.doubts: list[str] = []

    def doubt(self, why: str) -> None:
        assert not self.rounds
        self.doubts.append(why)

    def start(
        self, settings: RunSettings, n_clients: int, before: Round | None
    ) -> None:
        assert settings.seed == 1
        self.starts.append((n_clients, before and before.number))

    def client_done(self) -> None:
        self.n_clients_done += 1

    def round_done(self, record: Round) -> None:
        self.rounds.append(record.number)


def run(folder: Path, *, resumes: bool = False, **changes: Any) -> Summary:
    settings = make_settings(folder.parent / "data", **changes)
    return run_experiment(settings, folder, resumes=resumes)


def test_votes_too_few_for_the_model_are_told_before_it_trains(tmp_path: Path) -> None:
    for votes, n_doubts in (("0.5%", 1), ("auto", 0)):
        spy = Spy()
        settings = make_settings(tmp_path / "data", fediac={"n_votes": votes})
        folder = tmp_path / f"run-{n_doubts}"
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once is enough
            run_experiment(settings, folder, resumes=False, observer=spy)
        assert len(spy.doubts) == n_doubts
        assert all(each.startswith("clients vote for ") for each in spy.doubts)
        assert spy.rounds
        over = Spy()
        run_experiment(settings, folder, resumes=True, observer=over)
        assert not over.doubts  # nothing is trained any more


@pytest.mark.parametrize("algorithm", CATALOG)
def test_every_algorithm_leaves_a_whole_run(tmp_path: Path, algorithm: str) -> None:
    folder = tmp_path / "run"
    summary = run(folder, algorithm=algorithm, stop={"rounds": 2})
    names = {CONFIG, "rounds.jsonl", "summary.json", MODEL, CHECKPOINT}
    assert {path.name for path in folder.iterdir()} == names
    written = json.loads((folder / "summary.json").read_text())
    assert written == json.loads(msgspec.json.encode(summary))
    assert (summary.rounds, summary.stopped) == (2, "2 rounds done")
    assert (summary.algorithm, summary.dataset) == (algorithm, "tiny")
    assert (summary.dim, summary.n_clients, summary.seed) == (475, 3, 1)
    assert summary.partition.n_used == 96
    found = read_run(folder)
    assert found is not None
    assert found.notes == ()
    assert found.last.number == 2


def test_the_settings_are_kept_resolved_with_seed_and_versions(tmp_path: Path) -> None:
    run(tmp_path / "run", train={"device": "auto"}, seed=9, stop={"rounds": 1})
    config = tmp_path / "run" / CONFIG
    document = tomllib.loads(config.read_text())
    assert document["seed"] == 9
    assert document["train"]["device"] in ("cpu", "cuda")
    assert document["train"]["lr"] == 0.1
    names = {"fediac", "numpy", "torch", "python", "machine", "kernels"}
    names |= {"torch_cpu"} if document["train"]["device"] == "cpu" else set()
    names |= {"model_sha256"}  # it is one of these tests
    assert names <= set(document["versions"]) <= names | {"commit"}
    # A run's own settings run it again.
    settings = read_settings(config)
    again = run_experiment(settings, tmp_path / "again", resumes=False)
    assert again.seed == 9
    assert read_lines(tmp_path / "again") == read_lines(tmp_path / "run")


def test_everybody_who_wrote_a_part_of_a_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n_rounds, commit in ((1, "first"), (2, "second"), (3, "second")):
        monkeypatch.setenv("FEDIAC_COMMIT", commit)
        settings = make_settings(tmp_path / "data", stop={"rounds": n_rounds})
        run_experiment(settings, tmp_path / "run", resumes=n_rounds > 1)
    versions = tomllib.loads((tmp_path / "run" / CONFIG).read_text())["versions"]
    assert versions["commit"] == "second"
    assert [each["commit"] for each in versions["earlier"]] == ["first"]


def test_the_final_model_loads_into_the_users_own(tmp_path: Path) -> None:
    name = "tests.tiny:normed_model"
    run(tmp_path / "run", model={"name": name}, stop={"rounds": 1})
    weights = load_file(tmp_path / "run" / MODEL)
    module = seeded(normed_model)
    assert set(weights) == set(module.state_dict())
    module.load_state_dict(weights)
    checkpoint = load_checkpoint(tmp_path / "run", device="cpu")
    assert checkpoint is not None
    last = list(module.parameters())[-1]
    assert torch.equal(last, checkpoint.progress.parameters[-3:])
    assert not bool((weights["1.running_mean"] == 0.0).all())


@pytest.mark.parametrize(
    ("stop", "n_rounds", "reason"),
    [
        ({"rounds": 2}, 2, "2 rounds done"),
        ({"rounds": 1}, 1, "1 round done"),
        # A round takes the 0.1 s of its training and a little more.
        ({"rounds": 50, "simulated_s": 0.15}, 2, "0.15 simulated seconds over"),
        ({"rounds": 50, "real_s": 1e-6}, 1, "1e-06 seconds over"),
        ({"rounds": 50, "target": 0.01}, 1, "accuracy reached 0.01"),
    ],
)
def test_a_run_ends_with_the_first_stop_it_reaches(
    tmp_path: Path, stop: dict[str, Any], n_rounds: int, reason: str
) -> None:
    summary = run(tmp_path / "run", stop=stop)
    assert summary.stopped == reason
    assert len(read_lines(tmp_path / "run")) == summary.rounds == n_rounds


@pytest.mark.parametrize("switches", [["1e2", "fast"], ["fast", "1e2"]])
def test_the_clocks_of_all_switches_stop_a_run(
    tmp_path: Path, switches: list[str]
) -> None:
    network = {"switches": switches}
    run(tmp_path / "run", network=network, stop={"rounds": 9, "simulated_s": 0.15})
    times = [line["time_s"] for line in read_lines(tmp_path / "run")]
    assert list(times[0]) == switches
    # The slow switch is over 0.15 s after the first round already.
    assert [time["1e2"] >= 0.15 for time in times] == [True, True]
    assert [time["fast"] >= 0.15 for time in times] == [False, True]


def test_a_run_that_keeps_no_model_leaves_what_it_measured(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "data", stop={"rounds": 2})
    kept = run_experiment(settings, tmp_path / "kept", resumes=False)
    lean = run_experiment(settings, tmp_path / "lean", resumes=False, keeps_model=False)
    names = {CONFIG, "rounds.jsonl", "summary.json"}
    assert {path.name for path in (tmp_path / "lean").iterdir()} == names
    assert read_lines(tmp_path / "lean") == read_lines(tmp_path / "kept")
    assert lean.accuracy == kept.accuracy


def test_a_checkpoint_on_the_way_is_gone_when_no_model_is_kept(tmp_path: Path) -> None:
    settings = make_settings(
        tmp_path / "data", stop={"rounds": 3}, save={"checkpoint_every": 2}
    )
    run_experiment(settings, tmp_path / "run", resumes=False, keeps_model=False)
    assert not (tmp_path / "run" / CHECKPOINT).exists()


class StopAfter(Spy):
    """A user who presses Ctrl-C in the round after this one."""

    def __init__(self, n_rounds: int) -> None:
        super().__init__()
        self._n_rounds = n_rounds

    def client_done(self) -> None:
        if len(self.rounds) == self._n_rounds:
            raise KeyboardInterrupt


def test_an_interrupted_run_loses_no_round_between_checkpoints(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"stop": {"rounds": 4}, "save": {"checkpoint_every": 9}}
    settings = make_settings(tmp_path / "data", **changes)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(settings, tmp_path / "run", resumes=False, observer=StopAfter(3))
    spy = Spy()
    run_experiment(settings, tmp_path / "run", resumes=True, observer=spy)
    assert spy.starts == [(3, 3)]
    assert spy.rounds == [4]
    run_experiment(settings, tmp_path / "whole", resumes=False)
    assert read_lines(tmp_path / "run") == read_lines(tmp_path / "whole")


def test_a_watcher_is_told_of_clients_and_rounds(tmp_path: Path) -> None:
    settings = make_settings(tmp_path / "data", clients={"n_participants": 2})
    spy = Spy()
    run_experiment(settings, tmp_path / "run", resumes=False, observer=spy)
    assert spy.starts == [(2, None)]
    assert spy.n_clients_done == 6
    assert spy.rounds == [1, 2, 3]
    more = replace(settings, stop=StopSettings(rounds=4))
    spy = Spy()
    run_experiment(more, tmp_path / "run", resumes=True, observer=spy)
    assert spy.starts == [(2, 3)]
    assert spy.rounds == [4]


def test_a_run_that_is_longer_than_asked_says_how_long_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(folder, stop={"rounds": 2})
    summary = run(folder, resumes=True, stop={"rounds": 1})
    assert (summary.rounds, summary.stopped) == (2, "2 rounds done")


@pytest.mark.parametrize("resumes", [False, True])
def test_a_run_that_failed_in_its_first_round_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, resumes: bool
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("the clock stood still")

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("fediac.runs.loop.simulate_round", fail)
        with refuses("the clock stood still"):
            run(folder, stop={"rounds": 1})
    assert (folder / "rounds.jsonl").read_bytes() == b""
    summary = run(folder, resumes=resumes, train={"lr": 0.2}, stop={"rounds": 1})
    assert summary.rounds == 1


def test_a_settings_file_of_ones_own_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text("mine")
    with pytest.raises(ConfigError, match="holds a run already"):
        run(tmp_path, stop={"rounds": 1})
    assert (tmp_path / CONFIG).read_text() == "mine"


def test_a_folder_with_a_run_is_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(folder, stop={"rounds": 1})
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with refuses(
        f"{folder}: holds a run already; add --resume to go on with it, or give "
        "another --out",
        ConfigError,
    ):
        run(folder, stop={"rounds": 1})
    with refuses(
        f"{folder / CONFIG}: train.lr was 0.1, got 0.2; going on needs the same "
        "settings, but for [stop] and [save]",
        ConfigError,
    ):
        run(folder, resumes=True, train={"lr": 0.2})
    with refuses(
        f"{folder / CONFIG}: seed was 1, got 2; going on needs the same settings, but "
        "for [stop] and [save]",
        ConfigError,
    ):
        run(folder, resumes=True, seed=2)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_settings_that_cannot_be_run_leave_no_folder(tmp_path: Path) -> None:
    for changes in (
        {"model": {"name": "resnet"}},
        {"fediac": {"threshold": 9}},
        {"network": {"rates": ["fast"]}},
    ):
        with pytest.raises((FediacError, ValueError)):
            run(tmp_path / "run", **changes)
        assert not (tmp_path / "run").exists()


def test_a_run_whose_settings_are_lost_cannot_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(folder, stop={"rounds": 1})
    (folder / CONFIG).unlink()
    with pytest.raises(ConfigError, match=r"config\.toml: no such file"):
        run(folder, resumes=True, stop={"rounds": 2})


def test_a_run_from_before_a_setting_existed_goes_on_with_its_default(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    run(folder, stop={"rounds": 1})
    config = folder / CONFIG
    lines = config.read_text().splitlines(keepends=True)
    older = [line for line in lines if not line.startswith("entries_per_vote")]
    assert len(older) == len(lines) - 1
    config.write_text("".join(older))
    with refuses(
        f"{config}: fediac.entries_per_vote was 1, got 8; going on needs the same "
        "settings, but for [stop] and [save]",
        ConfigError,
    ):
        run(folder, resumes=True, fediac={"entries_per_vote": 8}, stop={"rounds": 2})
    assert run(folder, resumes=True, stop={"rounds": 2}).rounds == 2


def test_a_run_that_ended_without_a_checkpoint_is_not_begun_again(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    run(folder, stop={"rounds": 2})
    (folder / CHECKPOINT).unlink()
    before = read_lines(folder)
    with refuses(
        f"{folder}: holds a run that has ended and no checkpoint to go on from; give "
        "another --out",
        ConfigError,
    ):
        run(folder, resumes=True, stop={"rounds": 5})
    assert read_lines(folder) == before


def test_a_run_does_not_go_on_from_a_checkpoint_with_one_bit_changed(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    run(folder, stop={"rounds": 2})
    path = folder / CHECKPOINT
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # the sign or the last bits of one weight
    path.write_bytes(content)
    before = {each.name: each.read_bytes() for each in folder.iterdir()}
    with refuses(
        f"{path}: is damaged, its content does not have the digest that is in it; put "
        f"a copy of it back, or delete {folder} to begin anew",
        RunError,
    ):
        run(folder, resumes=True, stop={"rounds": 4})
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == before


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "run", stop={"rounds": 1})
    run(tmp_path / "other", model={"name": "tests.tiny:normed_model"})
    (tmp_path / "other" / CHECKPOINT).replace(tmp_path / "run" / CHECKPOINT)
    with refuses(f"{tmp_path / 'run'}: the checkpoint is of another model", RunError):
        run(tmp_path / "run", resumes=True, stop={"rounds": 5})


@pytest.mark.parametrize("n_before", [0, 1])
def test_every_clock_goes_on_where_the_last_round_ended(
    tmp_path: Path, n_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def spy(*arguments: Any, start_s: float, **others: Any) -> Any:
        starts.append(start_s)
        return simulate_round(*arguments, start_s=start_s, **others)

    network = {"switches": ["fast", "1e2"]}
    if n_before:
        run(tmp_path / "run", network=network, stop={"rounds": n_before})
    monkeypatch.setattr("fediac.runs.loop.simulate_round", spy)
    resumes = bool(n_before)
    run(tmp_path / "run", resumes=resumes, network=network, stop={"rounds": 3})
    ends = [line["time_s"] for line in read_lines(tmp_path / "run")]
    begins = [{"fast": 0.0, "1e2": 0.0}, *ends[:-1]]
    assert starts == [begin[each] for begin in begins[n_before:] for each in begin]


def test_rounds_have_the_threshold_and_the_width_that_the_server_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = Candidate(3, 9, 10.0, 100.0, 0.5)
    others = Candidate(1, 12, 10.0, 200.0, 0.5)
    used = []

    def spy(updates: Any, compressor: Any, **settings: Any) -> Any:
        used.append(compressor)
        return aggregate(updates, compressor, **settings)

    monkeypatch.setattr(
        "fediac.runs.settled.tune_on_server", lambda *_, **__: [chosen, others]
    )
    monkeypatch.setattr("fediac.training.federation.aggregate_vectors", spy)
    run(tmp_path / "run", tuning="server", stop={"rounds": 3})
    # The settings have a threshold of 2.
    assert used == [FedAvg(3), *2 * [FediAC(3, "20%", 3, bits=9)]]
    assert read_lines(tmp_path / "run")[0]["tuned"] == {"threshold": 3, "bits": 9}


def test_server_tuning_shows_in_the_first_line(tmp_path: Path) -> None:
    run(tmp_path / "run", tuning="server", stop={"rounds": 2})
    first, second = read_lines(tmp_path / "run")
    assert first["traffic"]["payload"]["up"] == {"server": 3 * 475 * 4}
    assert first["bits"] == 0
    assert set(first["tuned"]) == {"threshold", "bits"}
    assert second["bits"] == first["tuned"]["bits"]
    assert "tuned" not in second
    assert set(second["traffic"]["payload"]["up"]) == {"votes", "levels"}


def test_a_server_tries_the_votes_that_clients_will_cast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(*arguments: Any, **others: Any) -> Any:
        seen.append(others["entries_per_vote"])
        return tune_on_server(*arguments, **others)

    monkeypatch.setattr("fediac.runs.settled.tune_on_server", spy)
    given: dict[str, Any] = {"fediac": {"entries_per_vote": 8}, "tuning": "server"}
    run(tmp_path / "run", stop={"rounds": 2}, **given)
    assert seen == [8]
    # 475 entries are 60 groups of 8: as many bits from each of 3 clients.
    second = read_lines(tmp_path / "run")[1]
    assert second["traffic"]["payload"]["up"]["votes"] == 3 * 60 / 8


def test_a_server_that_finds_no_setting_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fediac.runs.settled.tune_on_server", lambda *_, **__: [])
    with refuses(
        "no threshold has gamma below 1 on the first round's updates", FediacError
    ):
        run(tmp_path / "run", tuning="server")


def test_diverged_training_names_client_and_round_and_can_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train = {"lr": 1e30, "steps": 1}
    with pytest.raises(UpdateError, match=r"^client 0, round \d+: update has \d+"):
        run(folder, train=train, stop={"rounds": 30})
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    checkpoint = load_checkpoint(folder, device="cpu")
    assert checkpoint is not None
    assert checkpoint.progress.round_number == len(lines) >= 1
    assert json.loads(lines[-1])["loss"] is None or math.isfinite(
        json.loads(lines[-1])["loss"]
    )
    with pytest.raises(UpdateError, match=r"^client 0, round "):
        run(folder, resumes=True, train=train, stop={"rounds": 30})


def test_updates_of_the_first_rounds_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    clients = {"n_participants": 2}
    run(folder, save={"updates": 2}, clients=clients, stop={"rounds": 3})
    names = sorted(each.name for each in folder.glob("updates-*"))
    assert names == ["updates-1.npy", "updates-2.npy"]
    assert np.load(folder / "updates-2.npy").shape == (2, 475)
    first = (folder / "updates-1.npy").read_bytes()
    run(tmp_path / "again", save={"updates": 1}, clients=clients, stop={"rounds": 1})
    assert (tmp_path / "again" / "updates-1.npy").read_bytes() == first


@pytest.mark.parametrize("memory", ["unbounded", "bounded"])
def test_switches_may_have_little_memory(tmp_path: Path, memory: str) -> None:
    network = {"memory": memory, "register_bytes": 1 << 16}
    summary = run(
        tmp_path / "run",
        network=network,
        clients={"n_participants": 1},
        fediac={"threshold": "100%"},
        stop={"rounds": 1},
    )
    assert summary.rounds == 1


def test_clients_count_by_their_examples_if_asked_to(tmp_path: Path) -> None:
    unequal = {"partition": "dirichlet", "beta": 0.5, "min_size": 8}
    plain, weighted = (
        run(
            tmp_path / name,
            data=unequal,
            clients={"n_clients": 3, "weights": name},
            stop={"rounds": 2},
        )
        for name in ("equal", "examples")
    )
    assert weighted.partition == plain.partition
    assert weighted.partition.min_size < weighted.partition.max_size
    first, second = (
        [*read_lines(tmp_path / name)[0]["traffic"]["payload"]["up"].items()]
        for name in ("equal", "examples")
    )
    # Three clients, 32 bits each, before the votes.
    assert second[0] == ("weights", 12.0)
    assert second[1] == first[0]
    assert load_file(tmp_path / "examples" / MODEL).keys()
    accuracies = [each["train_loss"] for each in read_lines(tmp_path / "examples")]
    assert accuracies != [each["train_loss"] for each in read_lines(tmp_path / "equal")]


def test_a_weighted_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"clients": {"n_clients": 3, "weights": "examples"}}
    run(tmp_path / "whole", stop={"rounds": 3}, **changes)
    run(tmp_path / "broken", stop={"rounds": 1}, **changes)
    run(tmp_path / "broken", stop={"rounds": 3}, resumes=True, **changes)
    assert read_lines(tmp_path / "broken") == read_lines(tmp_path / "whole")


def test_a_server_tunes_on_what_clients_contribute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def spy(updates: Any, **settings: Any) -> list[Candidate]:
        seen.extend(float(each.abs().max()) for each in updates)
        return tune_on_server(updates, **settings)

    monkeypatch.setattr("fediac.runs.settled.tune_on_server", spy)
    unequal = {"partition": "dirichlet", "beta": 0.5, "min_size": 8}
    for name in ("equal", "examples"):
        run(
            tmp_path / name,
            data=unequal,
            tuning="server",
            clients={"n_clients": 3, "weights": name},
            stop={"rounds": 1},
        )
    sizes = [
        each["size"]
        for each in json.loads((tmp_path / "equal" / "summary.json").read_text())[
            "partition"
        ]["clients"]
    ]
    factors = [size * 3 / sum(sizes) for size in sizes]
    assert seen[3:] == pytest.approx(
        [peak * factor for peak, factor in zip(seen[:3], factors, strict=True)]
    )
