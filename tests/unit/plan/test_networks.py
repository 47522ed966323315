"""Networks in words: switches, rates and memory."""

from pathlib import Path

import pytest

from fediac.plan.networks import (
    NetworkDescription,
    make_network,
    make_uplinks,
    parse_switch,
)
from fediac.sim import Network
from fediac.switch.registers import Layout
from fediac.wire.header import Kind
from tests.support import refuses


def network_with(memory: int | None) -> Network:
    setting = NetworkDescription(register_bytes=memory)
    return make_network(setting, n_clients=4, threshold=3, seed=1)


def test_switches_have_names_or_rates() -> None:
    assert parse_switch("fast").mean_s == pytest.approx(3.03e-7, rel=1e-6)
    assert parse_switch(" slow ").mean_s == pytest.approx(3.03e-6, rel=1e-6)
    assert parse_switch("1e6").mean_s == pytest.approx(1e-6, rel=1e-6)
    assert parse_switch("250000").mean_s == pytest.approx(4e-6, rel=1e-6)
    with refuses("switch must be fast, slow or packets per second, got 'quick'"):
        parse_switch("quick")


def test_rates_have_names_numbers_or_files(tmp_path: Path) -> None:
    def means(*rates: str) -> list[float]:
        return [uplink.rates.mean for uplink in make_uplinks(rates, 3, seed=1)]

    assert means("700") == [700.0] * 3
    assert means("2.5e2") == [250.0] * 3
    assert all(300.0 <= mean <= 400.0 for mean in means("300-400"))
    assert all(200.0 <= mean <= 2800.0 for mean in means("uniform"))
    assert all(200.0 < mean < 2800.0 for mean in means("paper"))
    assert means("nyumets") != means("paper")
    (tmp_path / "a.csv").write_text("10\n30\n")
    (tmp_path / "b.up").write_text("1\n2\n3\n")
    files = [str(tmp_path / "a.csv"), str(tmp_path / "b.up")]
    assert means(*files) == [20.0, 1000.0, 20.0]
    assert means(files[1]) == [1000.0] * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-5", "rates must be finite and above 0, got -5"),
        ("nan", "rates must be finite and above 0, got nan"),
        ("0", "rates must be finite and above 0, got 0"),
        ("1e999", "rates must be finite and above 0, got 1e999"),
        (
            "1e300",
            "rates must add up to at most 536870912 packets, got 1e+300",
        ),
        (
            "400-300",
            "rates must be a range with 0 < lowest <= highest <= 536870912, "
            "got '400-300'",
        ),
        (
            "some",
            "rates must be paper, nyumets, uniform, packets per second such as 700 or "
            "200-2800, or a file, got 'some'",
        ),
    ],
)
def test_other_rates_are_refused(text: str, message: str) -> None:
    with refuses(message):
        make_uplinks([text], 2, seed=1)


def test_no_rates_at_all_are_refused() -> None:
    with refuses("rates must name at least one rate or file, got none"):
        make_uplinks([], 2, seed=1)


def test_slowest_switch_can_be_made() -> None:
    assert parse_switch("0.04").mean_s == pytest.approx(25.0, rel=1e-6)
    with refuses("switch must be at least 0.04 packets per second, got 0.0399"):
        parse_switch("0.0399")


@pytest.mark.parametrize("text", ["1e300", "1e999", "1.1e12", "1000000000001"])
def test_fastest_switch_is_told(text: str) -> None:
    assert parse_switch("1e+12").mean_s == pytest.approx(1e-12, rel=1e-3)
    with refuses(
        "switch must be at most 1,000,000,000,000 packets per second (one per tick of "
        f"the clock), got {text}"
    ):
        parse_switch(text)


def test_bytes_of_memory_become_slots() -> None:
    network = network_with(1 << 20)
    layout = Layout(4, 1500, 1 << 20)
    assert network.memory is not None
    assert network.memory.window_of("sum") == layout.n_slots(Kind.SUM) // 2
    assert network.memory.window_of("tally") == layout.n_slots(Kind.TALLY, 3) // 2
    blocks = (layout.n_slots(Kind.BLOCK_SUM) + 1) // 3
    assert network.memory.window_of("blocksum") == blocks
    assert network_with(None).memory is None


def test_wide_sums_have_slots_of_their_own_length() -> None:
    memory, layout = network_with(1 << 20).memory, Layout(4, 1500, 1 << 20)
    assert memory is not None
    wide = layout.n_slots(Kind.SUM, widths=(4, 8)) // 2
    assert memory.window_of("sum", (4, 8)) == wide < memory.window_of("sum") * 0.6
    small = network_with(9000).memory
    assert small is not None
    assert small.window_of("sum") == 1
    with refuses(
        "register_bytes must be at least 12256 for a sum from 4 clients, got 9000"
    ):
        small.window_of("sum", (4, 8))


def test_memory_without_a_slot_is_refused_where_it_is_needed() -> None:
    small = network_with(9000)
    assert small.memory is not None
    assert small.memory.window_of("sum") == 1
    needed = 12288
    with refuses(
        f"register_bytes must be at least {needed} for a tally from 4 clients, got 9000"
    ):
        small.memory.window_of("tally")
    for n_bytes, n_kinds in ((needed - 1, 0), (needed, 1)):
        network = network_with(n_bytes)
        assert network.memory is not None
        assert isinstance(network.memory.n_slots, dict)
        assert network.memory.n_slots.get("tally", 0) == n_kinds
