"""Charts by round: a few high errors leave room for the others."""

from pathlib import Path

from fediac.report.contenders import list_contenders
from fediac.report.figures.charts import LineChart
from fediac.report.figures.figure import Figure
from fediac.report.figures.lines import gamma_by_round
from fediac.report.reading import read_runs
from tests.runs import read_rounds, write_rounds, write_run

EDGE = "are drawn at the upper edge."


def _draw(folder: Path, *errors: list[float]) -> Figure:
    """Return the chart of runs with these errors, one list a run."""
    for index, values in enumerate(errors):
        run = write_run(folder / str(index), "fediac", n_rounds=len(values))
        rounds = read_rounds(run)
        for each, value in zip(rounds, values, strict=True):
            each["gamma"] = value
        write_rounds(run, rounds)
    figure = gamma_by_round(list_contenders(read_runs([folder])[0]))
    assert figure is not None
    return figure


def test_one_high_error_is_drawn_at_the_edge(tmp_path: Path) -> None:
    figure = _draw(tmp_path, [12.0, 0.5, 0.5], [0.0, 0.0, 0.0])
    (variant,) = figure.variants
    assert isinstance(variant.chart, LineChart)
    assert variant.chart.y.scale.high == 2.0
    (line, _) = variant.chart.series
    assert variant.chart.path(line) == "M0.00 0.00L500.00 750.00L1000.00 750.00"
    assert figure.caption.endswith(f" Values above 2 {EDGE}")


def test_numbers_of_a_high_error_stay_true(tmp_path: Path) -> None:
    figure = _draw(tmp_path, [12.0, 0.5, 0.5])
    (variant,) = figure.variants
    assert isinstance(variant.chart, LineChart)
    assert variant.chart.data()["series"][0]["y"] == [12.0, 0.5, 0.5]
    assert "between 0.5000 and 12.00;" in variant.chart.description
    assert figure.table.rows[0].cells[2] == "12.00"


def test_errors_that_fit_are_drawn_where_they_are(tmp_path: Path) -> None:
    figure = _draw(tmp_path, [1.9, 0.5, 0.5])
    assert figure.variants[0].chart.data()["y"]["high"] == 2.0
    assert EDGE not in figure.caption


def test_run_with_high_errors_in_most_rounds_is_shown(tmp_path: Path) -> None:
    figure = _draw(tmp_path, [40.0, 8.0, 7.0, 8.0], [0.5, 0.5, 0.5, 0.5])
    assert figure.variants[0].chart.data()["y"]["high"] == 12.0
    assert figure.caption.endswith(f" Values above 12 {EDGE}")
