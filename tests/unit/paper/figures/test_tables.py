from dataclasses import replace

from fediac.core.powerlaw import PowerLaw
from fediac.paper.figures.numbers import (
    accuracy_numbers,
    noniid_numbers,
    scale_numbers,
)
from fediac.paper.figures.tables import (
    tabulate_accuracy,
    tabulate_noniid,
    tabulate_scale,
    tabulate_theory,
)
from fediac.paper.theory.stored import Compared, Measurement, RoundCheck
from fediac.runs.settings import RunSettings
from tests.unit.paper.made_up import make_run


def test_accuracy_has_the_last_round_of_every_line() -> None:
    runs = [make_run([0.3, 0.4], seed=1), make_run([0.3, 0.5], seed=2)]
    runs.append(make_run([0.3], entrant="libra", round_s=40.0))
    assert tabulate_accuracy(accuracy_numbers(runs, until_s=21.0)).as_markdown() == (
        "| scenario | switch | entrant | seeds | rounds | s | accuracy, % |  |\n"
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| cifar10-iid | fast | libra | 1 | 0 |  | none in time |  |\n"
        "| cifar10-iid | fast | fediac | 2 | 2 | 20 | 45.00 (40.00 to 50.00) "
        "| stopped before 21 s |\n"
        "| cifar10-iid | slow | libra | 1 | 0 |  | none in time |  |\n"
        "| cifar10-iid | slow | fediac | 2 | 1 | 11 | 30.00 |  |\n"
    )


def test_noniid_has_a_line_for_every_point() -> None:
    data = {"partition": "dirichlet", "beta": 0.3}
    runs = [
        make_run([0.3, 0.4], data=data),
        make_run([0.3, 0.4, 0.5], seed=2, round_s=8.0, data=data),
        make_run([0.3], entrant="libra", round_s=90.0, data=data),
    ]
    assert tabulate_noniid(noniid_numbers(runs)).as_markdown() == (
        "| scenario | switch | algorithm | beta | seeds | s | rounds | accuracy, % |\n"
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |\n"
        "| cifar10-iid | fast | fediac | 0.3 | 2 | 20 | 2 | 40.00 |\n"
        "| cifar10-iid | fast | libra | 0.3 | 1 | 20 | 0 | none in time |\n"
        "| cifar10-iid | slow | fediac | 0.3 | 2 | 22 | 2 | 40.00 |\n"
        "| cifar10-iid | slow | libra | 0.3 | 1 | 22 | 0 | none in time |\n"
    )


def test_scale_has_the_threshold_as_a_count_and_a_share() -> None:
    run = make_run([0.3], clients={"n_clients": 30}, fediac={"threshold": "15%"})
    assert tabulate_scale(scale_numbers([run])).as_markdown() == (
        "| scenario | clients | threshold | seeds | s | rounds | accuracy, % |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| cifar10-iid | 30 | 5 (15 %) | 1 | 11 | 1 | 30.00 |\n"
    )


def test_theory_has_what_was_promised_beside_what_was_measured() -> None:
    law = PowerLaw(alpha=-0.5, phi=0.1, peak=0.2)
    check = RoundCheck(
        round_number=5,
        n_clients=2,
        bits=9,
        peak=0.2,
        accuracy=0.5,
        fits=(law, law),
        law=law,
        chosen=Compared(1234.4, 2000.0, 1500.2, 1499.0),
        gamma=Compared(0.25, 0.5, 0.75, 1.2344),
        bins=(),
    )
    found = Measurement(
        RunSettings(), 10_000, 500, 2, (check, replace(check, round_number=6))
    )
    assert tabulate_theory(found).as_markdown() == (
        "| round | number | the paper's formula | ranked alike | own ranks | measured "
        "|\n"
        "| --- | --- | ---: | ---: | ---: | ---: |\n"
        "| 5 | entries agreed on | 1,234 | 2,000 | 1,500 | 1,499 |\n"
        "| 5 | gamma | 0.250 | 0.500 | 0.750 | 1.234 |\n"
        "| 6 | entries agreed on | 1,234 | 2,000 | 1,500 | 1,499 |\n"
        "| 6 | gamma | 0.250 | 0.500 | 0.750 | 1.234 |\n"
    )
