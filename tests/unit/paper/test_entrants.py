from dataclasses import replace

import pytest

from fediac.compressors import FediAC
from fediac.core.quantize import level_limit
from fediac.errors import ConfigError
from fediac.paper.entrants import (
    CANDIDATES,
    MAIN,
    Entrant,
    check_names,
    decisive,
    find_known,
    vary_beta,
    vary_scale,
)
from fediac.paper.scenarios import find_scenario
from fediac.runs.algorithm import make_compressor
from fediac.runs.settings import RunSettings
from tests.support import refuses

IID = find_scenario("cifar10-iid").settings
NONIID = find_scenario("cifar10-noniid").settings


def test_the_main_entrants_are_every_system_of_the_paper_and_the_reference() -> None:
    assert [each.name for each in MAIN] == [
        "fediac",
        "fediac-tuned",
        "switchml",
        "libra",
        "omnireduce",
        "fedavg",
    ]
    widths = [each.apply(IID).of("fediac").bits for each in MAIN[:2]]
    assert widths == ["bound", "tuned"]


def test_candidates_are_those_the_paper_chose_from() -> None:
    chosen = {
        family: [entrant.apply(IID) for entrant in entrants]
        for family, entrants in CANDIDATES.items()
    }
    assert [each.of("fediac").threshold for each in chosen["fediac"]] == [1, 2, 3, 4]
    # And smaller ones, where the smallest of the paper's was the best.
    widths = [each.of("switchml").bits for each in chosen["switchml"]]
    assert widths == [6, 7, 8, 10, 12, 14]
    assert level_limit(bits=widths[0], n_clients=IID.clients.n_clients) == 1
    shares = ["0.1%", "0.5%", "1%", "5%"]
    smaller = ["0.005%", "0.01%", "0.02%", "0.05%"]
    assert [each.of("libra").n_sent for each in chosen["libra"]] == [*smaller, *shares]
    assert [each.of("omnireduce").n_sent for each in chosen["omnireduce"]] == shares
    for family, settings in chosen.items():
        assert {each.algorithm for each in settings} == {family.partition("-")[0]}


def test_narrow_pairs_are_a_family_of_their_own() -> None:
    for entrant in CANDIDATES["libra-narrow"]:
        libra = entrant.apply(IID).of("libra")
        share = str(libra.n_sent).removesuffix("%")
        assert entrant.name == f"libra-k{share}-bits{libra.bits}-narrow"
        assert libra.bits < 32
        assert libra == replace(
            IID.of("libra"), n_sent=libra.n_sent, bits=libra.bits, narrow=True
        )


def test_voting_for_the_largest_entries_is_a_family_of_its_own() -> None:
    settings = [entrant.apply(IID) for entrant in CANDIDATES["fediac-topk"]]
    assert {each.of("fediac").law for each in settings} == {"topk"}
    assert {each.of("fediac").bits for each in settings} == {"bound"}
    assert [each.of("fediac").threshold for each in settings] == [3, 4, 5, 6]


def test_votes_that_entries_share_are_a_family_of_their_own() -> None:
    grown, fixed = (
        [entrant.apply(NONIID).of("fediac") for entrant in CANDIDATES[family]]
        for family in ("fediac-shared", "fediac-shared-bits")
    )
    assert {each.law for each in grown + fixed} == {"topk"}
    assert {each.threshold for each in grown + fixed} == {3}
    assert {each.entries_per_vote for each in grown + fixed} == {16}
    assert {each.bits for each in grown} == {"adaptive"}
    assert [each.n_votes for each in grown] == ["0.5%", "1%", "2%", "5%"]
    assert [(each.n_votes, each.bits) for each in fixed] == [
        ("1%", 8),
        ("1%", 9),
        ("2%", 8),
        ("2%", 9),
    ]


def test_thresholds_go_up_and_down_with_votes_that_entries_share() -> None:
    swept = [entrant.apply(IID) for entrant in CANDIDATES["fediac-shared-votes"]]
    usual = CANDIDATES["fediac-shared"][2].apply(IID)
    settings = [
        (each.of("fediac").n_votes, each.of("fediac").threshold) for each in swept
    ]
    assert settings == [("2%", 2), ("5%", 4), ("10%", 5), ("10%", 8)]
    for each, (votes, threshold) in zip(swept, settings, strict=True):
        changed = usual.changed("fediac.n_votes", votes)
        assert each == changed.changed("fediac.threshold", threshold)


def test_residuals_that_fade_are_a_family_of_their_own() -> None:
    swept = [entrant.apply(IID) for entrant in CANDIDATES["fediac-shared-fade"]]
    usual = CANDIDATES["fediac-shared"][2].apply(IID)
    settings = [
        (each.of("fediac").n_votes, each.of("fediac").threshold) for each in swept
    ]
    assert settings == [("2%", 3), ("5%", 3), ("5%", 4), ("10%", 8)]
    for each, (votes, threshold) in zip(swept, settings, strict=True):
        changed = usual.changed("fediac.n_votes", votes)
        changed = changed.changed("fediac.threshold", threshold)
        assert each == changed.changed("fediac.fade", 0.1)


def test_lean_is_the_preset_whatever_its_scenario_has() -> None:
    lean = CANDIDATES["fediac-lean"][0]
    assert lean.name == "fediac-lean"
    for settings in (IID, NONIID):
        changed = lean.apply(settings)
        compressor = make_compressor(changed, n_clients=20, dim=10**6)
        assert compressor == FediAC.lean(20)
        assert changed.train.statistics == "recalibrate"
        assert (
            replace(changed, train=settings.train, tables=settings.tables) == settings
        )


def test_beside_lean_one_setting_is_another() -> None:
    lean, *others = CANDIDATES["fediac-lean"]
    for other in others:
        assert len(set(other.changes) - set(lean.changes)) == 1


def test_votes_of_lean_that_follow_nothing_are_a_family_of_their_own() -> None:
    lean = CANDIDATES["fediac-lean"][0].apply(IID).of("fediac")
    for entrant in CANDIDATES["fediac-lean-fixed"]:
        settings = entrant.apply(IID)
        own = settings.of("fediac")
        assert settings.train.statistics == "recalibrate"
        assert (own.growth, own.rank_by) == (0.0, "peak")
        assert (own.law, own.bits, own.clip) == (lean.law, lean.bits, lean.clip)


@pytest.mark.parametrize("family", ["switchml-recal", "libra-recal"])
def test_baselines_have_the_statistics_of_lean(family: str) -> None:
    for entrant in CANDIDATES[family]:
        assert entrant.name.endswith("-recal")
        assert entrant.apply(IID).train.statistics == "recalibrate"


def test_only_what_an_entrant_changes_is_changed() -> None:
    entrant = CANDIDATES["switchml"][3]
    changed = entrant.apply(IID)
    expected = IID.changed("algorithm", "switchml").changed("switchml.bits", 10)
    assert changed == expected


@pytest.mark.parametrize(
    ("entrant", "settings", "name"),
    [
        (CANDIDATES["fediac"][2], IID, "fediac-tuned"),
        (CANDIDATES["fediac"][2], NONIID, "fediac-a3"),
        (CANDIDATES["switchml"][2], IID, "switchml"),
        (CANDIDATES["libra"][6], NONIID, "libra"),
        (vary_beta([0.5])[0], NONIID, "fediac-tuned"),
        (vary_beta([0.5])[1], IID, "libra-beta0.5"),
        # 15 % of 20 clients are 3, as the scenario has it; 10 % are one of the four.
        (vary_scale([20])[2], IID, "fediac-tuned"),
        (vary_scale([20])[1], IID, "fediac-a2"),
        (vary_scale([30])[1], IID, "fediac-n30-a10"),
    ],
)
def test_what_runs_already_is_not_run_under_another_name(
    entrant: Entrant, settings: RunSettings, name: str
) -> None:
    known = find_known(entrant, settings)
    assert known.name == name
    assert known.setting == entrant.setting
    assert known.is_called([entrant.name])
    assert known.is_called([name])
    assert not known.is_called(["", "other"])
    assert decisive(known.apply(settings)) == decisive(entrant.apply(settings))


def test_shares_of_clients_round_up() -> None:
    thresholds = [
        decisive(each.apply(IID))["fediac"]["threshold"] for each in vary_scale([30])
    ]
    assert thresholds == [2, 3, 5, 6]


def test_where_data_lie_and_when_a_run_stops_is_not_its_essence() -> None:
    other = replace(
        IID,
        data=replace(IID.data, folder="/elsewhere", download=True),
        train=replace(IID.train, device="cuda", n_at_once=3),
        stop=replace(IID.stop, rounds=7),
        save=replace(IID.save, checkpoint_every=3),
    ).changed("libra.n_sent", "7%")
    assert decisive(other) == decisive(IID)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.beta", 0.7),
        ("train.batch_size", 7),
        ("network.compute_s", 7.0),
        ("fediac.n_votes", "7%"),
        ("clients.n_clients", 7),
    ],
)
def test_what_decides_numbers_is_a_runs_essence(key: str, value: object) -> None:
    assert decisive(IID.changed(key, value)) != decisive(IID)


def test_an_unknown_entrant_is_named_with_the_nearest() -> None:
    check_names(["libra", "fediac"], MAIN, [])
    with refuses("unknown entrant 'switchm'; did you mean 'switchml'?", ConfigError):
        check_names(["libra", "switchm"], MAIN, [])
    message = (
        "--entrants: libra-k0.1 is run by sweeps; tables show it once it is stored"
    )
    with refuses(message, ConfigError):
        check_names(["libra-k0.1"], MAIN, CANDIDATES["libra"])
