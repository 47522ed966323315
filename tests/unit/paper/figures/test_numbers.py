from dataclasses import replace

import pytest

from fediac.errors import RunError
from fediac.paper.figures.numbers import (
    accuracy_numbers,
    list_switches,
    noniid_numbers,
    scale_numbers,
)
from fediac.runs.stored import Run
from tests.unit.paper.made_up import make_run, with_times

DIRICHLET = {"partition": "dirichlet"}


def test_a_line_has_a_point_for_every_round_in_time() -> None:
    rows = accuracy_numbers([make_run([0.3, 0.4, 0.5])], until_s=25.0)
    assert rows[0] == {
        "scenario": "cifar10-iid",
        "switch": "fast",
        "entrant": "fediac",
        "seeds": [1],
        "until_s": 25.0,
        "ends_early": False,
        "points": [
            {
                "round": 1,
                "time_s": 10.0,
                "accuracy": 0.3,
                "lowest": 0.3,
                "highest": 0.3,
            },
            {
                "round": 2,
                "time_s": 20.0,
                "accuracy": 0.4,
                "lowest": 0.4,
                "highest": 0.4,
            },
        ],
        "target": 0.63,
    }
    assert [row["switch"] for row in rows] == ["fast", "slow"]
    assert rows[1]["points"][1]["time_s"] == 22.0


def test_a_round_that_ends_just_in_time_counts() -> None:
    rows = accuracy_numbers([make_run([0.3, 0.4])], until_s=20.0)
    assert [len(row["points"]) for row in rows] == [2, 1]
    assert [row["ends_early"] for row in rows] == [False, False]


def test_a_run_that_stops_before_the_axis_ends_early() -> None:
    rows = accuracy_numbers([make_run([0.3, 0.4])], until_s=21.0)
    assert [row["ends_early"] for row in rows] == [True, False]


def test_several_seeds_give_mean_and_range_of_common_rounds() -> None:
    seeds = [
        make_run([0.2, 0.5, 0.6], seed=1),
        make_run([0.4, 0.6], seed=2, round_s=14.0),
    ]
    row = accuracy_numbers(seeds, until_s=100.0)[0]
    assert row["seeds"] == [1, 2]
    assert row["points"] == [
        {
            "round": 1,
            "time_s": 12.0,
            "accuracy": pytest.approx(0.3),
            "lowest": 0.2,
            "highest": 0.4,
        },
        {
            "round": 2,
            "time_s": 24.0,
            "accuracy": 0.55,
            "lowest": 0.5,
            "highest": 0.6,
        },
    ]


def test_only_entrants_of_the_comparison_are_drawn_ours_last() -> None:
    names = ("fediac", "fediac-tuned", "libra-k5", "libra", "fediac-n30-a10", "fedavg")
    runs = [make_run([0.3], entrant=name) for name in names]
    rows = [
        row for row in accuracy_numbers(runs, until_s=9.0) if row["switch"] == "fast"
    ]
    assert [row["entrant"] for row in rows] == [
        "fedavg",
        "libra",
        "fediac-tuned",
        "fediac",
    ]


def test_scenarios_come_in_the_order_of_the_tables() -> None:
    names = ("my-own", "cifar100-iid", "unipen62", "cifar10-noniid")
    runs = [make_run([0.3], scenario=name) for name in names]
    rows = accuracy_numbers(runs, until_s=9.0)
    assert [row["scenario"] for row in rows[::2]] == [
        "cifar10-noniid",
        "unipen62",
        "cifar100-iid",
        "my-own",
    ]
    assert [row["target"] for row in rows[::2]] == [0.64, None, 0.45, None]


def test_a_target_that_fedavg_fixes_is_the_mean_over_seeds() -> None:
    runs = [
        make_run([0.5] * 49 + [0.8], scenario="unipen62", entrant="fedavg", seed=1),
        make_run([0.7] * 50, scenario="unipen62", entrant="fedavg", seed=2),
        make_run([0.3], scenario="unipen62", seed=3),
    ]
    rows = accuracy_numbers(runs, until_s=9.0)
    assert [row["target"] for row in rows] == pytest.approx([0.73] * 4)


def make_betas(**changes: float) -> list[Run]:
    """Return runs of both algorithms, longer ones for a larger beta."""
    return [
        make_run(
            [0.1, 0.2, 0.3, 0.4, 0.5][: 3 + place],
            scenario="cifar10-noniid",
            entrant=f"{name}-beta{beta:g}",
            data=DIRICHLET | {"beta": beta},
            **changes,  # type: ignore[arg-type] # numbers that make_run takes
        )
        for name in ("fediac", "libra")
        for place, beta in enumerate((5.0, 0.3))
    ]


def test_final_is_the_last_round_within_the_time_that_all_runs_have() -> None:
    rows = noniid_numbers(make_betas())
    assert [(row["switch"], row["algorithm"], row["beta"]) for row in rows] == [
        (switch, algorithm, beta)
        for switch in ("fast", "slow")
        for algorithm in ("fediac", "libra")
        for beta in (0.3, 5.0)
    ]
    # Runs with beta 5 end after three rounds, a tenth later on the slow switch.
    ends = [row["within_s"] for row in rows]
    assert ends == pytest.approx([30.0] * 4 + [33.0] * 4)
    assert [row["accuracy"] for row in rows] == [0.3] * 8
    assert [row["rounds"] for row in rows] == [[3]] * 8


def test_final_is_never_later_than_asked_for() -> None:
    rows = noniid_numbers(make_betas(), until_s=15.0)
    assert {row["within_s"] for row in rows} == {15.0}
    assert {row["accuracy"] for row in rows} == {0.1}


def test_a_run_without_a_round_in_time_has_no_final_accuracy() -> None:
    slow = make_run([0.3], entrant="libra", round_s=50.0, data=DIRICHLET)
    rows = noniid_numbers([*make_betas(), slow])
    found = [row for row in rows if row["beta"] == 0.5]
    assert [row["accuracy"] for row in found] == [None, None]
    assert [row["rounds"] for row in found] == [[0], [0]]


def test_final_of_several_seeds_has_a_range() -> None:
    runs = [
        make_run([0.2, value], seed=seed, data=DIRICHLET)
        for seed, value in ((1, 0.3), (2, 0.6))
    ]
    row = noniid_numbers(runs, until_s=20.0)[0]
    assert (row["seeds"], row["lowest"], row["highest"]) == ([1, 2], 0.3, 0.6)
    assert row["accuracy"] == pytest.approx(0.45)


def test_other_algorithms_and_partitions_are_left_out() -> None:
    runs = [
        make_run([0.3], entrant="switchml", data=DIRICHLET),
        make_run([0.3], data={"partition": "iid"}),
    ]
    assert noniid_numbers(runs) == []


def test_two_runs_for_one_point_are_refused() -> None:
    runs = [
        make_run([0.3], entrant=name, data=DIRICHLET)
        for name in ("fediac", "fediac-tuned")
    ]
    with pytest.raises(RunError) as caught:
        noniid_numbers(runs)
    assert str(caught.value) == (
        "cifar10-iid/fediac and cifar10-iid/fediac-tuned with seed 1 would be the same "
        "point of the figure; leave one out"
    )


def test_thresholds_are_shares_of_the_clients_however_they_are_given() -> None:
    runs = [
        make_run(
            [0.3],
            entrant=f"fediac-n{n}",
            scenario=scenario,
            clients={"n_clients": n},
            fediac={"threshold": threshold},
        )
        for n, threshold, scenario in (
            (30, "5%", "digits-iid"),
            (20, 3, "digits-iid"),
            (20, "10%", "cifar10-iid"),
        )
    ]
    runs.append(make_run([0.3], entrant="libra"))
    rows = scale_numbers(runs)
    keys = ("switch", "scenario", "n_clients", "share", "threshold")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        ("slow", "cifar10-iid", 20, 10.0, 2),
        ("slow", "digits-iid", 20, 15.0, 3),
        ("slow", "digits-iid", 30, 5.0, 2),
    ]


def test_the_clock_is_the_first_there_is_if_there_is_no_slow_one() -> None:
    run = make_run([0.3])
    fast = with_times(run.last, {"83000": 12.0, "fast": 10.0})
    rows = scale_numbers([replace(run, rounds=(fast,))])
    assert [row["switch"] for row in rows] == ["fast"]


def test_switches_are_those_that_all_runs_have_the_fast_one_first() -> None:
    run = make_run([0.3])
    slow_first = with_times(run.last, {"slow": 2.0, "fast": 1.0})
    assert list_switches([replace(run, rounds=(slow_first,))]) == ["fast", "slow"]
    times = {"83000": 1.0, "slow": 2.0}
    other = replace(run, rounds=(with_times(run.last, times),))
    assert list_switches([other]) == ["slow", "83000"]
    assert list_switches([run, other]) == ["slow"]
    assert list_switches([]) == []
