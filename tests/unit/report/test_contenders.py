"""Who is compared: seeds together, settings apart, and everybody's own look."""

from pathlib import Path

from fediac.report.contenders import N_STYLES, Contender, list_contenders
from fediac.report.reading import read_runs
from tests.runs import write_comparison, write_run


def contenders_in(folder: Path) -> list[Contender]:
    return list_contenders(read_runs([folder])[0])


def looks_in(folder: Path) -> dict[str, tuple[int, int]]:
    return {each.label: each.look for each in contenders_in(folder)}


def test_runs_that_differ_only_in_the_seed_are_one(tmp_path: Path) -> None:
    for seed in (3, 1, 2):
        write_run(tmp_path / f"run{seed}", "libra", seed=seed, n_rounds=seed + 1)
    write_run(tmp_path / "run4", "libra", seed=4, tuning="none", n_rounds=2)
    together, alone = contenders_in(tmp_path)
    assert [run.seed for run in together.runs] == [1, 2, 3]
    assert len(together.rounds) == 2 + 3 + 4
    assert [run.seed for run in alone.runs] == [4]


def test_two_runs_of_one_seed_are_two(tmp_path: Path) -> None:
    for name in "ab":
        write_run(tmp_path / name, "libra", n_rounds=2)
    assert [each.label for each in contenders_in(tmp_path)] == ["a", "b"]


def test_folders_of_seeds_are_called_by_what_is_above_them(tmp_path: Path) -> None:
    for name, tuning in (("plain", "local"), ("given", "none")):
        for seed in (1, 2):
            folder = tmp_path / name / f"seed{seed}"
            write_run(folder, "fediac", seed=seed, tuning=tuning, n_rounds=2)
    given, plain = contenders_in(tmp_path)
    assert (given.label, plain.label) == ("given", "plain")
    assert (given.name, plain.name) == ("fediac given", "fediac plain")


def test_an_algorithm_has_its_colour_on_every_page(tmp_path: Path) -> None:
    write_comparison(tmp_path / "all")
    every = looks_in(tmp_path / "all")
    alone = looks_in(tmp_path / "all" / "libra")
    assert alone["libra"] == every["libra"]
    assert len({colour for colour, _ in every.values()}) == len(every)
    assert {style for _, style in every.values()} == {0}


def test_a_setting_has_its_dashes_on_every_page(tmp_path: Path) -> None:
    for folder, names in (("pair", ("k1", "k5")), ("more", ("k1", "k5", "k9"))):
        for name in names:
            write_run(tmp_path / folder / f"libra-{name}", "libra", n_rounds=2)
    pair, more = looks_in(tmp_path / "pair"), looks_in(tmp_path / "more")
    assert len(set(more.values())) == 3  # these three do not collide
    assert pair.items() <= more.items()


def test_settings_of_one_algorithm_share_its_colour_and_no_dashes(
    tmp_path: Path,
) -> None:
    for number in range(N_STYLES):
        write_run(tmp_path / f"k{number}", "libra", n_rounds=2)
    looks = looks_in(tmp_path)
    assert len({colour for colour, _ in looks.values()}) == 1
    assert len({style for _, style in looks.values()}) == N_STYLES


def test_an_own_algorithm_has_none_of_the_catalogs_colours(tmp_path: Path) -> None:
    write_comparison(tmp_path / "all")
    taken = {colour for colour, _ in looks_in(tmp_path / "all").values()}
    folder = write_run(tmp_path / "own", "fediac", n_rounds=2)
    path = folder / "config.toml"
    text = path.read_text().replace('algorithm = "fediac"', 'algorithm = "own:Mine"')
    path.write_text(text)
    ((colour, style),) = looks_in(folder).values()
    assert colour not in taken
    assert style == 0
