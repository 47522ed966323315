"""simulate and motivation as a user runs them."""

import json
import re
from pathlib import Path

import pytest

from tests.integration.command import Command, Result

PNG = b"\x89PNG"
SMALL = ("--dim=20000", "--clients=3")


class TestSimulate:
    def test_json_has_rounds_phases_traffic_and_the_bottleneck(
        self, fediac: Command
    ) -> None:
        found = fediac.json("simulate", *SMALL, "--rounds=2", "--compute=0.5")
        assert len(found["rounds"]) == 2
        for each in found["rounds"]:
            assert [phase["name"] for phase in each["phases"]] == ["votes", "levels"]
            times = [p["upload_s"] + p["download_s"] for p in each["phases"]]
            assert each["round_s"] == pytest.approx(0.5 + sum(times), rel=1e-9)
            assert sum(each["shares_s"].values()) == pytest.approx(each["round_s"])
            assert len(each["clients"]) == 3
        assert found["payload_mib"] < found["wire_mib"]
        assert "of the round" in found["bottleneck"]

    def test_weights_are_added_before_all_else(self, fediac: Command) -> None:
        plain = fediac.json("simulate", *SMALL)
        weighted = fediac.json("simulate", *SMALL, "--weighted")
        assert (plain["weighted"], weighted["weighted"]) == (False, True)
        (only,) = weighted["rounds"]
        assert [each["name"] for each in only["phases"]] == [
            "weights",
            "votes",
            "levels",
        ]
        # 3 clients, 32 bits, up and down.
        more = weighted["payload_mib"] - plain["payload_mib"]
        assert more * 2**20 == pytest.approx(3 * 4 * 2)
        assert only["round_s"] > plain["rounds"][0]["round_s"]

    def test_a_switchml_round_has_the_papers_traffic(self, fediac: Command) -> None:
        found = fediac.json("simulate", "--algorithm=switchml", "--switch=slow")
        # d * 12 bits, up and down, 20 clients.
        assert found["payload_mib"] == pytest.approx(639.4, abs=0.05)
        (only,) = found["rounds"]
        assert only["switch"]["n_packets"] == 20 * (1 + 11_174)

    def test_the_first_phase_of_fediac_has_the_papers_traffic(
        self, fediac: Command
    ) -> None:
        options = ["--dim=11173962", "--clients=20", "--set=bits=10"]
        small = fediac.json("simulate", *options, "--chosen=1")["payload_mib"]
        # One level of 10 bits from each client, up and down, beside the votes.
        assert small == pytest.approx(53.3, abs=0.05)
        more = fediac.json("simulate", *options, "--chosen=5%")["payload_mib"]
        levels_mib = (558_699 - 1) * 10 * 2 * 20 / 8 / 2**20
        assert more - small == pytest.approx(levels_mib, rel=1e-9)

    def test_entries_that_share_votes_make_them_cheaper(self, fediac: Command) -> None:
        options = ["--clients=20", "--chosen=1", "--set=bits=10"]
        alone = fediac.json("simulate", *options)["payload_mib"]
        shared = fediac.json("simulate", *options, "--set=entries_per_vote=8")
        assert shared["payload_mib"] == pytest.approx(alone / 8, abs=0.001)
        assert shared["settings"]["entries_per_vote"] == 8

    def test_narrow_lanes_make_the_way_up_cheaper(self, fediac: Command) -> None:
        options = ["--clients=20", "--algorithm=switchml", "--set=bits=8"]
        same = fediac.json("simulate", *options)
        narrow = fediac.json("simulate", *options, "--set=lanes=dense")
        assert (same["settings"]["lanes"], narrow["settings"]["lanes"]) == (
            "same",
            "dense",
        )
        # Four bits up and eight down; packets up are half as many, answers in two.
        assert narrow["payload_mib"] == pytest.approx(0.75 * same["payload_mib"])
        (slow,), (fast,) = same["rounds"], narrow["rounds"]
        assert fast["round_s"] < 0.8 * slow["round_s"]

    def test_the_threshold_decides_how_much_is_agreed_on(self, fediac: Command) -> None:
        def chosen(*options: str) -> int:
            exchanges = fediac.json("simulate", *SMALL, *options)["exchanges"]
            found = {each["phase"]: each["items_up"] for each in exchanges}
            return int(found["levels"])

        one, two, all_of_them = (
            chosen(f"--set=threshold={each}") for each in ("1", "2", "100%")
        )
        assert one > two > all_of_them
        assert chosen() == one  # 15 % of 3 clients

    def test_more_votes_make_more_agree(self, fediac: Command) -> None:
        few, many = (
            fediac.json("simulate", *SMALL, f"--set=n_votes={each}")["payload_mib"]
            for each in ("1%", "10%")
        )
        assert few < many

    def test_a_users_own_algorithm_is_timed_by_what_it_says(
        self, fediac: Command
    ) -> None:
        name = "--algorithm=examples.own_compressor:RandomK"
        found = fediac.json("simulate", *SMALL, name)
        assert [each["items_up"] for each in found["exchanges"]] == [0, 1000]
        inside = fediac.json("simulate", *SMALL)
        name = "--algorithm=examples.own_momentum:momentum"
        around = fediac.json("simulate", *SMALL, name, "--memory=100000")
        assert around["exchanges"] == inside["exchanges"]
        assert around["measured_percent"] == inside["measured_percent"] == [82, 126]

    def test_what_real_rounds_took_is_said_beside_what_is_expected(
        self, fediac: Command
    ) -> None:
        sentence = (
            "That is for choices spread evenly: real rounds of 20 clients took 32 to "
            "99 % of such a payload."
        )
        libra = fediac("simulate", *SMALL, "--algorithm=libra")
        assert sentence in " ".join(libra.out.split())
        for options in (["--algorithm=switchml"], ["--chosen=100"]):
            result = fediac("simulate", *SMALL, *options)
            assert result.code == 0
            assert "spread evenly" not in result.out

    def test_the_same_seed_gives_the_same_document(self, fediac: Command) -> None:
        first = fediac.json("simulate", *SMALL, "--seed=3")
        assert fediac.json("simulate", *SMALL, "--seed=3") == first
        assert fediac.json("simulate", *SMALL, "--seed=4") != first

    def test_one_client_at_200_packets_a_second(self, fediac: Command) -> None:
        found = fediac.json(
            "simulate",
            *("--algorithm=switchml", "--clients=1", "--rates=200", "--compute=0"),
        )
        (only,) = found["rounds"]
        upload = sum(phase["upload_s"] for phase in only["phases"])
        # 55.875 s expected; sqrt(11,175) / 200 = 0.53 s is one standard deviation.
        assert upload == pytest.approx(55.9, abs=6 * 0.53)

    @pytest.mark.parametrize(
        "algorithm", ["fediac", "switchml", "omnireduce", "libra", "fedavg", "topk"]
    )
    @pytest.mark.parametrize("memory", ["unbounded", "100000"])
    def test_every_algorithm_is_timed_in_either_memory(
        self, fediac: Command, algorithm: str, memory: str
    ) -> None:
        name = f"--algorithm={algorithm}"
        found = fediac.json("simulate", *SMALL, name, f"--memory={memory}")
        (only,) = found["rounds"]
        assert only["round_s"] > 2.0
        # libra needs no server here: so few entries all have a register.
        far = algorithm in ("fedavg", "topk")
        assert (only["server"] is not None) == far

    def test_libra_needs_a_server_for_more_entries_than_registers(
        self, fediac: Command
    ) -> None:
        found = fediac.json("simulate", "--algorithm=libra", "--dim=1000000")
        assert found["rounds"][0]["server"] is not None

    def test_a_switch_that_is_too_slow_is_said_to_be(self, fediac: Command) -> None:
        result = fediac("simulate", *SMALL, "--switch=500", "--rates=1000")
        assert result.code == 0
        last = result.out.splitlines()[-1]
        assert last.startswith("Bottleneck: ")
        assert last.endswith("; the switch is overloaded (load 6.00).")

    def test_text_is_plain_and_names_phases_and_bytes(self, fediac: Command) -> None:
        result = fediac("simulate", *SMALL, "--rounds=2")
        assert result.code == 0
        assert result.out.isascii()
        assert "\x1b" not in result.out
        for words in (
            "local compute",
            "votes",
            "levels",
            "whole round",
            "2 rounds take",
            "MiB of payload",
            "Bottleneck: ",
        ):
            assert words in result.out

    def test_few_bytes_have_digits_that_say_something(self, fediac: Command) -> None:
        words = (
            *("--dim=3010", "--clients=10"),
            *("--set", "preset=lean", "--set", "n_votes=2%"),
        )
        text = " ".join(fediac("simulate", *words).out.split())
        payload, wire = re.findall(r"([\d.]+) MiB", text)
        assert 0.0 < float(payload) < float(wire) < 0.05
        assert "Note: clients vote for 61 of 3,010 parameters; so few" in text

    def test_one_of_a_kind_is_not_called_like_several(self, fediac: Command) -> None:
        result = fediac("simulate", "--dim=1", "--clients=1", "--algorithm=fedavg")
        assert result.out.startswith("fedavg, 1 parameter, 1 client, fast switch")
        text = " ".join(result.out.split())
        assert "The switch served 1 packet and worked" in text
        assert "at most 0 packets waited and 0 slots stood open at a time." in text

    def test_rates_come_from_files(self, fediac: Command, tmp_path: Path) -> None:
        slow, fast = tmp_path / "slow.csv", tmp_path / "fast.up"
        slow.write_text("packets_s\n5\n")
        fast.write_text("".join(f"{ms}\n" for ms in range(1000)))
        found = fediac.json("simulate", *SMALL, f"--rates={slow}", f"--rates={fast}")
        (only,) = found["rounds"]
        assert only["slowest_client"] in (0, 2)

    def test_a_picture_is_drawn(self, fediac: Command, tmp_path: Path) -> None:
        path = tmp_path / "round.png"
        result = fediac("simulate", *SMALL, "--plot", path, "--json")
        assert (result.code, result.err) == (0, f"wrote {path}\n")
        assert json.loads(result.out)["algorithm"] == "fediac"
        assert path.read_bytes()[:4] == PNG

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--clients=0"], "--clients must be at least 1, got 0"),
            (["--clients=1025"], "--clients must be in 1..1024, got 1025"),
            (["--clients=few"], "--clients must be a whole number, got 'few'"),
            (["--seed=-1"], "--seed must be at least 0, got -1"),
            (["--dim=0"], "--dim must be at least 1, got 0"),
            (["--compute=-1"], "--compute must be finite and at least 0, got -1.0"),
            (["--compute=nan"], "--compute must be finite and at least 0, got nan"),
            (["--rounds=0"], "--rounds must be at least 1, got 0"),
            (
                ["--rounds=1e18"],
                "--rounds must be at most 100,000 (all are kept in memory), "
                "got 1000000000000000000",
            ),
            (["--plot="], "--plot must name a file, got ''"),
            (["--chosen=0"], "--chosen must be in 1..20000 (dim), got 0"),
            (
                ["--algorithm=fediak"],
                "unknown algorithm 'fediak'; did you mean 'fediac'?",
            ),
            (
                ["--algorithm=switchml", "--chosen=5%"],
                "--chosen does not apply to switchml, whose clients agree on no "
                "entries",
            ),
            (
                ["--algorithm=topk", "--set=threshold=3"],
                "--set: unknown key 'threshold' in [topk]; there are n_sent, residual, "
                "fade",
            ),
            (
                ["--set=votes=3"],
                "--set: unknown key 'votes' in [fediac]; did you mean 'n_votes'?",
            ),
            (
                ["--set=lanes=wide"],
                '--set: fediac.lanes must be "same", "dense" or "words", got \'wide\'',
            ),
            (
                ["--set=threshold=4"],
                "threshold must be in 1..3 (clients in a round), got 4",
            ),
            (
                ["--set=bits=2"],
                "bits must leave room for 3 clients (at least 3), got 2",
            ),
            (
                ["--set=entries_per_vote=9"],
                "entries_per_vote must be 1 or a power of two in 8..4096, got 9",
            ),
            (
                ["--algorithm=examples.own_momentum:momentum", "--set=bits=3"],
                "--set is for algorithms of 'fediac list'; your own has its settings "
                "in its file, got bits=3",
            ),
            (["--memory=big"], "--memory must be a whole number, got 'big'"),
            (
                ["--memory=10"],
                "--memory must be at least 3200 for two packets of 1500 bytes "
                "from 3 clients, got 10",
            ),
            (
                ["--set=threshold=3", "--memory=9000"],
                "--memory must be at least 12288 for a tally from 3 clients, got 9000",
            ),
            (
                ["--plot=round.txt"],
                "round.txt: a picture must end in .png, .pdf, .svg",
            ),
            (["--plot=none/round.png"], "none/round.png: no such folder"),
        ],
    )
    def test_a_wrong_setting_is_one_line_and_exit_code_2(
        self, fediac: Command, options: list[str], message: str
    ) -> None:
        result = fediac("simulate", *SMALL, *options)
        assert result == Result(2, "", f"error: {message}\n")

    def test_a_bad_trace_is_one_line(self, fediac: Command, tmp_path: Path) -> None:
        path = tmp_path / "bad.up"
        path.write_text("5\n3\n")
        result = fediac("simulate", *SMALL, f"--rates={path}")
        assert result == Result(
            2,
            "",
            f"error: --rates must be a trace of packets, got {path}: line 2: times "
            "must not decrease, got 3 after 5\n",
        )

    def test_a_link_too_slow_for_the_clock_is_named(self, fediac: Command) -> None:
        result = fediac("simulate", *SMALL, "--rates=0.0001")
        assert result == Result(
            2,
            "",
            "error: --rates must let client 0 send 5 packets within 6 days, "
            "got 0.0001 packets/s\n",
        )


ANY_RATES = (
    "--rates must be paper, nyumets, uniform, packets per second such as 700 or "
    "200-2800, or a file, got "
)
ONLY_FILES = "--rates must all be files where there are several, got "
RANGE = "--rates must be a range with 0 < lowest <= highest <= 536870912, got "


@pytest.mark.parametrize(
    "command",
    [("simulate", "--dim=2000"), ("motivation", "--sizes=1000")],
    ids=["simulate", "motivation"],
)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rates=-3"], "--rates must be finite and above 0, got -3"),
        (["--rates=nan"], "--rates must be finite and above 0, got nan"),
        (["--rates=inf"], "--rates must be finite and above 0, got inf"),
        (["--rates=0"], "--rates must be finite and above 0, got 0"),
        (
            ["--rates=0.0000000001"],
            "--rates must not all be below 2.32831e-10 packets/s, got at most 1e-10",
        ),
        (
            ["--rates=1e9"],
            "--rates must add up to at most 536870912 packets, got 1e+09",
        ),
        (["--rates=0-5"], f"{RANGE}'0-5'"),
        (["--rates=400-300"], f"{RANGE}'400-300'"),
        (["--rates=1-1e9"], f"{RANGE}'1-1e9'"),
        (["--rates="], f"{ANY_RATES}''"),
        (["--rates=papr"], f"{ANY_RATES}'papr'"),
        (["--rates=missing.csv"], f"{ANY_RATES}'missing.csv'"),
        (["--rates=/"], f"{ANY_RATES}'/'"),
        (["--rates=paper", "--rates=uniform"], f"{ONLY_FILES}'paper'"),
        (["--rates=700", "--rates=800"], f"{ONLY_FILES}'700'"),
        (["--rates=/", "--rates="], f"{ONLY_FILES}'/'"),
        (["--switch=0"], "--switch must be at least 0.04 packets per second, got 0"),
        (
            ["--switch=0.01"],
            "--switch must be at least 0.04 packets per second, got 0.01",
        ),
        (["--switch=-1"], "--switch must be at least 0.04 packets per second, got -1"),
        *(
            (
                [f"--switch={text}"],
                f"--switch must be fast, slow or packets per second, got {text!r}",
            )
            for text in ("quick", "", "nan", "inf")
        ),
    ],
)
def test_wrong_rates_and_switches_name_the_option_the_rule_and_the_value(
    fediac: Command, command: tuple[str, str], options: list[str], message: str
) -> None:
    result = fediac(*command, "--clients=3", *options)
    assert result == Result(2, "", f"error: {message}\n")


class TestMotivation:
    def test_json_has_every_algorithm_at_every_size(self, fediac: Command) -> None:
        found = fediac.json("motivation", "--sizes=1000,20000", "--clients=3")
        points = {(each["algorithm"], each["dim"]) for each in found["points"]}
        assert len(points) == len(found["points"]) == 6 * 2
        times = {(p["algorithm"], p["dim"]): p["round_s"] for p in found["points"]}
        assert times["fedavg", 20_000] > times["fedavg", 1000]

    def test_a_picture_is_drawn(self, fediac: Command, tmp_path: Path) -> None:
        path = tmp_path / "sizes.svg"
        result = fediac("motivation", "--sizes=1000,20000", "--plot", path)
        assert (result.code, result.err) == (0, f"wrote {path}\n")
        assert "20,000" in result.out
        picture = path.read_text()
        assert picture.startswith("<?xml")
        shown = "Seconds a round against the model&#x27;s parameters; every algorithm "
        assert f'<desc id="desc">{shown}' in picture
        fediac("motivation", "--sizes=1000,20000", "--plot", path)
        assert path.read_text() == picture

    def test_more_clients_than_a_switch_can_tell_apart_are_refused_at_once(
        self, fediac: Command
    ) -> None:
        result = fediac("motivation", "--clients=1025")
        assert result == Result(
            2, "", "error: --clients must be in 1..1024, got 1025\n"
        )

    def test_a_size_that_is_no_number_is_refused(self, fediac: Command) -> None:
        result = fediac("motivation", "--sizes=1e5,big")
        assert result == Result(
            2, "", "error: --sizes must be a whole number, got 'big'\n"
        )


@pytest.mark.parametrize("command", ["simulate", "motivation"])
def test_help_teaches_by_example(fediac: Command, command: str) -> None:
    result = fediac(command, "--help")
    assert result.code == 0
    assert "Examples:" in result.out
