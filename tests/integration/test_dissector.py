"""tools/fediac.lua in a real tshark: it reads what the wire package writes."""

import json
import math
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fediac.switch.counters import REASONS
from fediac.switch.pipeline import Switch
from fediac.wire.control import Ending
from fediac.wire.header import END, HEADER_BYTES, IP_UDP_BYTES, Flag, Kind, Reason
from fediac.wire.packet import Packet, decode, encode
from tests.packets import lanes, observed, send, votes

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "fediac.lua"
VECTORS: dict[str, dict[str, Any]] = {
    vector["name"]: vector
    for vector in json.loads((ROOT / "tests" / "vectors" / "packets.json").read_text())
}
DATA = {name: bytes.fromhex(vector["packet"]) for name, vector in VECTORS.items()}
by_name = pytest.mark.parametrize("name", VECTORS)

PORT = 50_000
OPENED = ("-o", f"fediac.port:{PORT}")
INFO_ONLY = ("-o", 'gui.column.format:"Info","%i"')

Layers = dict[str, Any]
Tshark = Callable[..., str]


def find_tshark() -> str:
    """Return tshark's path; skip where there is none, or fail if there must be."""
    path = shutil.which("tshark")
    if path is None and "tshark" in os.environ.get("FEDIAC_REQUIRE", "").split(","):
        pytest.fail("FEDIAC_REQUIRE names tshark, but it is not installed")
    if path is None:
        pytest.skip("tshark: it is not installed")
    return path


@pytest.fixture(scope="module")
def tshark(tmp_path_factory: pytest.TempPathFactory) -> Tshark:
    """Return what shows payloads of UDP, in a home without plugins or settings."""
    path = find_tshark()
    home = tmp_path_factory.mktemp("tshark")
    file = home / "packets.pcap"

    def show(
        payloads: Sequence[bytes], *options: str, port: int = PORT, snap: int = 65_535
    ) -> str:
        file.write_bytes(capture(payloads, port=port, snap=snap))
        command = [path, "-X", f"lua_script:{SCRIPT}", "-r", str(file), *options]
        shown = subprocess.run(
            command,
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Lua" not in shown.stderr
        assert "Lua Error" not in shown.stdout
        return shown.stdout

    return show


def capture(payloads: Sequence[bytes], *, port: int, snap: int) -> bytes:
    """Return a pcap file of UDP over IPv4 that kept ``snap`` bytes of each frame."""
    raw_ip = 101
    file = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, raw_ip)
    for payload in payloads:
        udp = struct.pack(">HHHH", 40_000, port, 8 + len(payload), 0) + payload
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0)
        frame = ip + bytes([10, 0, 0, 1, 10, 0, 0, 2]) + udp
        file += struct.pack("<IIII", 0, 0, len(frame[:snap]), len(frame)) + frame[:snap]
    return file


def layers_of(shown: str) -> list[Layers]:
    """Return the layers of each packet in tshark's JSON."""
    return [each["_source"]["layers"] for each in json.loads(shown)]


def leaves(tree: Layers) -> dict[str, str]:
    """Return fediac's fields and what experts say, without the tree around them."""
    found: dict[str, str] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found |= leaves(value)
        elif name.startswith("fediac.") or name == "_ws.expert.message":
            found[name.removeprefix("fediac.")] = value
    return found


def fields_shown(shown: str) -> list[dict[str, str]]:
    """Return the fields of each packet; none where it is not taken for fediac's."""
    return [leaves(layers.get("fediac", {})) for layers in layers_of(shown)]


def number(text: str) -> int:
    """Return a whole number, or a claim, as any version of tshark writes it."""
    claims = {"False": 0, "True": 1}
    return claims[text] if text in claims else int(text, 0)


def header_of(data: bytes) -> dict[str, int]:
    """Return what the wire package reads in a packet, by the dissector's names."""
    packet = decode(data)
    both = "count" if Flag.ANSWER in packet.flags else "threshold"
    same = "kind session exchange client packet aux n_items bits_up bits part tag"
    flags = {
        f"flags.{str(flag.name).lower()}": int(flag in packet.flags) for flag in Flag
    }
    return {
        "magic": 0xFED1,
        "version": 2,
        **{name: int(getattr(packet, name)) for name in same.split()},
        both: getattr(packet, both),
        "flags": int(packet.flags),
        **flags,
    }


@pytest.fixture(scope="module")
def golden(tshark: Tshark) -> dict[str, dict[str, str]]:
    shown = fields_shown(tshark([*DATA.values()], "-T", "json"))
    return dict(zip(DATA, shown, strict=True))


@by_name
def test_every_field_of_a_golden_packet_is_shown(
    name: str, golden: dict[str, dict[str, str]]
) -> None:
    expected = header_of(DATA[name])
    assert {each: number(golden[name][each]) for each in expected} == expected
    fields = VECTORS[name]["fields"] | {"kind": Kind[VECTORS[name]["fields"]["kind"]]}
    assert fields.items() <= expected.items()


@by_name
def test_payloads_of_golden_packets_are_as_long_as_their_items(
    name: str, golden: dict[str, dict[str, str]]
) -> None:
    body = VECTORS[name]["body"]
    assert golden[name].get("payload", "").replace(":", "") == body
    assert number(golden[name]["payload_bytes"]) == len(body) // 2
    assert "_ws.expert.message" not in golden[name]


MEANINGS = {
    "wait: two are in": {},
    "wait before range 1444 can be read: two are in": {"next_packet": 1},
    "observer reads range 1444 of an indexed sum": {"size": 254_200},
    "error: the exchange is a tally, threshold 3": {
        "reason": Reason.SETTINGS,
        "held.kind": Kind.TALLY,
        "held.threshold": 3,
    },
    "error: the exchange is a sum of 6 and 10 bits": {
        "reason": Reason.SETTINGS,
        "held.kind": Kind.SUM,
        "held.bits_up": 6,
        "held.bits": 10,
    },
    "error: the exchange is a narrow indexed sum of 8 bits": {
        "reason": Reason.SETTINGS,
        "held.kind": Kind.INDEXED_SUM,
        "held.narrow": 1,
        "held.bits": 8,
    },
    "error: the packet of the others has 12 items": {
        "reason": Reason.ITEMS,
        "held.n_items": 12,
    },
    "error: the indexed sum has 16 addresses": {"reason": Reason.ITEMS, "size": 16},
    "five lanes of 12 bits": {},
    "announcement of block 40": {"next_block": 40},
    "announcement of a client without blocks": {"next_block": END},
    "block 40, the client's last": {"next_block": END},
    "totals of block 40, block 45 follows": {"next_block": 45},
    "last pairs of a client": {"size": 254_200},
    "narrow pairs of 4 + 8 bits": {"size": 16},
    "it is opened with the cookie": {
        "cookie": 0x1122334455667788,
        "job": 7,
        "epoch": 3,
        "lease_ms": 10_000,
        "silence_ms": 30_000,
        "room": 1408,
        "n_clients": 20,
        "n_observers": 1,
        "is_renewal": 0,
    },
    "its lease goes on": {
        "cookie": 0x1122334455667788,
        "job": 7,
        "epoch": 3,
        "lease_ms": 10_000,
        "silence_ms": 30_000,
        "room": 1408,
        "n_clients": 20,
        "n_observers": 1,
        "is_renewal": 1,
    },
    "it runs": {"register_bytes": 1 << 18, "credit": 195},
    "it is closed": {"cookie": 0x1122334455667788, "job": 7, "epoch": 3},
    "nothing is left of it": {},
    "an observer joins with a cookie": {
        "cookie": 0x8877665544332211,
        "counter": 2,
        "room": 64,
    },
    "a cookie": {"cookie": 0x8877665544332211},
    "a client is welcome": {
        "register_bytes": 1 << 18,
        "silence_ms": 30_000,
        "room": 1408,
        "credit": 195,
        "n_clients": 20,
        "n_observers": 1,
        "counter": 1,
    },
    "a client is alive": {},
    "aborted: the lease is over": {"ending": Ending.LEASE},
    "how does it do, with the cookie": {"cookie": 0x1122334455667788},
    "it does well": {
        "uptime_ms": 61_000,
        "packets_in": 2_000_000,
        "packets_out": 2_000_100,
        "unsent": 1,
        "n_jobs": 2,
        "max_jobs": 4,
        "n_members": 18,
        "register_bytes": 1 << 20,
        "used_bytes": 360_000,
        **{f"drops.{reason}": place for place, reason in enumerate(REASONS, 1)},
    },
    "error: key": {"reason": Reason.KEY},
    "error: member": {"reason": Reason.MEMBER, "held": 20, "given": 23},
}


@pytest.mark.parametrize("name", MEANINGS)
def test_aux_means_what_the_kind_says(
    name: str, golden: dict[str, dict[str, str]]
) -> None:
    always = {*header_of(DATA[name]), "payload", "payload_bytes"}
    meant = {each: text for each, text in golden[name].items() if each not in always}
    assert {each: number(text) for each, text in meant.items()} == MEANINGS[name]


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("votes of 12 entries", 1.0),
        ("observer's packet of the tally", 0.0),
        ("peak", 0.5),
        ("largest peak of three clients", math.pi),
    ],
)
def test_a_peak_is_shown_as_a_number(
    name: str, peak: float, golden: dict[str, dict[str, str]]
) -> None:
    # Six digits are shown, so half a unit of the last of them may be missing.
    assert float(golden[name]["peak"]) == pytest.approx(peak, rel=5e-6)


LINES = {
    "votes of 12 entries": (
        "TALLY client 3 packet 2 of exchange 0, 12 votes, threshold 3"
    ),
    "gia of three clients": (
        "TALLY to everyone packet 2 of exchange 0, gia of 12, 3 clients"
    ),
    "observer's packet of the tally": (
        "TALLY observer 20 packet 2 of exchange 0, 0 votes, threshold 3"
    ),
    "peak": "MAX client 0 packet 0 of exchange 1, peak 0.5",
    "ten lanes of 6 bits whose sums take 10": (
        "SUM client 1 packet 11639 of exchange 2, 10 lanes of 6 bits"
    ),
    "second part of twenty clients' sums of 10 bits": (
        "SUM to everyone packet 11639 part 1 of exchange 2, 2 lanes of 10 bits, "
        "20 clients"
    ),
    "announcement of block 40": (
        "BLOCK SUM client 5 packet 0 of exchange 1, first block 40"
    ),
    "totals of block 45, no block follows": (
        "BLOCK SUM to everyone packet 45 of exchange 1, 1 level, next block END, "
        "20 clients"
    ),
    "narrow pairs of 4 + 8 bits": (
        "INDEXED SUM client 2 packet 0 of exchange 3, 2 pairs of 4 + 8 bits, last"
    ),
    "observer reads range 1444 of an indexed sum": (
        "INDEXED SUM observer 20 range 1444 of exchange 65533, size 254200"
    ),
    "totals in the last range of an indexed sum": (
        "INDEXED SUM to everyone range 1444 of exchange 65533, 1 pair of 32 + 32 bits, "
        "20 clients"
    ),
    "wait: two are in": "WAIT to client 3 packet 2 of exchange 0: 2 are in",
    "wait before range 1444 can be read: two are in": (
        "WAIT to client 20 range 1444 of exchange 65533: 2 are in, packet 1 is next"
    ),
    "error: the exchange is a tally, threshold 3": (
        "ERROR to client 3 packet 2 of exchange 0: settings differ, the switch has "
        "tally, threshold 3"
    ),
    "error: the exchange is a sum of 6 and 10 bits": (
        "ERROR to client 1 packet 11639 of exchange 2: settings differ, the switch has "
        "sum, lanes of 6 bits, sums of 10"
    ),
    "error: the exchange is a narrow indexed sum of 8 bits": (
        "ERROR to client 2 packet 0 of exchange 3: settings differ, the switch has "
        "indexed sum, narrow indices, levels of 8 bits"
    ),
    "error: the packet of the others has 12 items": (
        "ERROR to client 3 packet 2 of exchange 0: items differ, the switch has "
        "12 items"
    ),
    "error: the indexed sum has 16 addresses": (
        "ERROR to client 2 packet 0 of exchange 3: items differ, the switch has size 16"
    ),
    "a session is opened": (
        "OPEN coordinator: job 7 epoch 3, 20 clients, 1 observer, payload 1408"
    ),
    "its lease goes on": (
        "OPEN coordinator: job 7 epoch 3, 20 clients, 1 observer, payload 1408, "
        "lease only, with cookie"
    ),
    "it runs": "OPENED to the coordinator: 262144 register bytes, credit 195",
    "it is closed": "CLOSE coordinator: job 7 epoch 3, with cookie",
    "nothing is left of it": "CLOSED to the coordinator",
    "a client joins with 64 bytes of payload": "JOIN client 4: join 1, payload 64",
    "an observer joins with a cookie": (
        "JOIN observer 20: join 2, payload 64, with cookie"
    ),
    "a cookie": "COOKIE to client 4",
    "a client is welcome": (
        "WELCOME to client 4: join 1, 20 clients, 1 observer, payload 1408, credit 195"
    ),
    "an observer is alive": "ALIVE observer 20",
    "so is the switch": "ALIVE to client 4",
    "aborted: clients 1 and 9 are silent": (
        "ABORT to everyone: members are silent: 1, 9"
    ),
    "aborted: the lease is over": "ABORT to everyone: the coordinator is silent",
    "how does it do, with the cookie": (
        "STATUS anybody: how does the switch do, with cookie"
    ),
    "it does well": "REPORT to who asked: 2 of 4 jobs, 18 members",
    "error: unknown session": "ERROR to client 4: unknown session",
    "error: jobs": (
        "ERROR to the coordinator: too many jobs, the switch has 4, the packet had 5"
    ),
}


def test_the_info_column_tells_a_round(tshark: Tshark) -> None:
    shown = tshark([DATA[name] for name in LINES], *INFO_ONLY)
    assert shown.splitlines() == [*LINES.values()]


WORDS = {
    "votes of 12 entries": {"Kind: tally (1)", "Flags: 0x00 (none)"},
    "block 40 is the first of all": {
        "Client: 65535 (everyone)",
        "Flags: 0x09 (answer, announce)",
        "Next block: 40",
    },
    "block 40, the client's last": {"Next block: 4294967295 (END: no block follows)"},
    "error: the packet of the others has 12 items": {"Reason: items differ (2)"},
    "aborted: clients 1 and 9 are silent": {
        "Ending: members are silent (1)",
        "Missing member: 1",
        "Missing member: 9",
    },
    **{
        name: {f"Reason: {words} ({int(reason)})"}
        for name, reason, words in (
            ("error: unknown session", Reason.UNKNOWN_SESSION, "unknown session"),
            ("error: version", Reason.VERSION, "another version"),
            ("error: key", Reason.KEY, "wrong key"),
            ("error: jobs", Reason.JOBS, "too many jobs"),
            ("error: memory", Reason.MEMORY, "too little memory"),
            ("error: members", Reason.MEMBERS, "too many members"),
            ("error: payload", Reason.PAYLOAD, "wrong payload"),
            ("error: epoch", Reason.EPOCH, "an older epoch"),
            ("error: session", Reason.SESSION, "an older session"),
            ("error: member", Reason.MEMBER, "no such member"),
        )
    },
    "votes of 12 entries, tagged": {"Tag: 0x429098473b6bd8a9", "Payload: 2 bytes"},
}


@pytest.mark.parametrize("name", WORDS)
def test_numbers_are_told_in_words(name: str, tshark: Tshark) -> None:
    shown = tshark([DATA[name]], "-O", "fediac")
    assert WORDS[name] <= {line.strip() for line in shown.splitlines()}


OF_A_LENGTH = [name for name, data in DATA.items() if decode(data).kind != Kind.ABORT]
"""All but aborts, whose length follows from who is missing."""


def say_bytes(n_bytes: int) -> str:
    return "1 byte" if n_bytes == 1 else f"{n_bytes} bytes"


@pytest.fixture(scope="module")
def misfits(tshark: Tshark) -> dict[tuple[str, int], str]:
    """What experts say of golden packets a byte too short and a byte too long."""
    changed = {(name, -1): DATA[name][:-1] for name in OF_A_LENGTH}
    changed |= {(name, 1): DATA[name] + b"\0" for name in OF_A_LENGTH}
    shown = fields_shown(tshark([*changed.values()], "-T", "json"))
    said = [fields.get("_ws.expert.message", "") for fields in shown]
    return dict(zip(changed, said, strict=True))


@pytest.mark.parametrize("name", OF_A_LENGTH)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_byte_too_few_or_too_many_is_marked(
    name: str, change: int, misfits: dict[tuple[str, int], str]
) -> None:
    length = len(DATA[name]) - HEADER_BYTES
    must = f"payload must have {say_bytes(length)}, got {length + change}"
    is_whole = length + change >= 0
    said = misfits[name, change]
    assert said == (must if is_whole else "header must have 40 bytes, got 39")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("02", "2 members and end in one, got 1 in 1 byte"),
        ("020200", "2 members and end in one, got 2 in 3 bytes"),
    ],
)
def test_an_abort_that_does_not_name_its_members_is_marked(
    body: str, said: str, tshark: Tshark
) -> None:
    head = DATA["aborted: clients 1 and 9 are silent"][:HEADER_BYTES]
    (fields,) = fields_shown(tshark([head + bytes.fromhex(body)], "-T", "json"))
    must = "payload must have a bit for each of "
    assert fields["_ws.expert.message"] == must + said


STRANGE = {
    "magic": (b"\x00\xd1\x02\x01", "magic must be 0xfed1, got 0x00d1"),
    "version": (b"\xfe\xd1\x03\x01", "version must be 2, got 3"),
    "kind": (b"\xfe\xd1\x02\x06", "kind must be one of fediac's, got 6"),
}


@pytest.mark.parametrize("field", STRANGE)
def test_on_its_port_another_protocol_is_marked(field: str, tshark: Tshark) -> None:
    start, message = STRANGE[field]
    packet = start + DATA["peak"][4:]
    (shown,) = fields_shown(tshark([packet], "-T", "json", *OPENED))
    assert shown["_ws.expert.message"] == message


@pytest.mark.parametrize("field", ["magic", "version"])
def test_elsewhere_another_protocol_is_left_alone(field: str, tshark: Tshark) -> None:
    packet = STRANGE[field][0] + DATA["peak"][4:]
    (layers,) = layers_of(tshark([packet], "-T", "json"))
    assert "fediac" not in layers
    assert layers["data"]["data.data"].replace(":", "") == packet.hex()


def test_names_are_still_asked_for_by_dns(tshark: Tshark) -> None:
    query = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0)
    query += b"\x06fediac\x07example\x00" + struct.pack(">HH", 1, 1)
    (layers,) = layers_of(tshark([query], "-T", "json", *OPENED, port=53))
    assert "dns" in layers
    assert "fediac" not in layers


def random_bytes(seed: int, lengths: Sequence[int]) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return [rng.bytes(length) for length in lengths]


def test_random_bytes_on_its_port_are_marked(tshark: Tshark) -> None:
    payloads = random_bytes(1, range(1, 200))
    shown = fields_shown(tshark(payloads, "-T", "json", *OPENED))
    said = [fields["_ws.expert.message"].partition(",")[0] for fields in shown]
    short, foreign = "header must have 40 bytes", "magic must be 0xfed1"
    assert said == [short] * 39 + [foreign] * 160


def test_random_bytes_elsewhere_are_left_alone(tshark: Tshark) -> None:
    starts = [b"\xfe\xd1\x02"[:length] for length in range(4)]
    payloads = [*starts, *random_bytes(3, range(1, 100))]
    shown = layers_of(tshark(payloads, "-T", "json"))
    assert len(shown) == len(payloads)
    assert not any("fediac" in layers for layers in shown)


def test_an_empty_datagram_on_its_port_is_no_packet(tshark: Tshark) -> None:
    (layers,) = layers_of(tshark([b""], "-T", "json", *OPENED))
    assert "fediac" not in layers


def test_random_headers_are_read_as_the_wire_package_reads_them(
    tshark: Tshark,
) -> None:
    kinds = [*Kind] * 40
    packets = [
        b"\xfe\xd1\x02" + bytes([kind]) + data
        for kind, data in zip(
            kinds, random_bytes(2, range(36, 36 + len(kinds))), strict=True
        )
    ]
    shown = fields_shown(tshark(packets, "-T", "json", *OPENED))
    for packet, fields in zip(packets, shown, strict=True):
        expected = header_of(packet)
        assert {name: number(fields[name]) for name in expected} == expected


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 65_536, 65_537, 2**31, 2**32 - 1])
def test_narrow_pairs_have_the_bits_of_their_largest_index(
    size: int, tshark: Tshark
) -> None:
    n_index = max(1, len(f"{max(0, size - 1):b}"))
    packet = Packet(
        kind=Kind.INDEXED_SUM,
        session=1,
        exchange=0,
        client=0,
        n_items=8,
        aux=size,
        bits=3,
        flags=Flag.NARROW,
        body=bytes(n_index + 3),
    )
    longer = replace(packet, body=bytes(n_index + 4))
    shown = fields_shown(tshark([encode(packet), encode(longer)], "-T", "json"))
    assert "_ws.expert.message" not in shown[0]
    assert "_ws.expert.message" in shown[1]


@pytest.mark.parametrize("kept", [1, 4, 39])
def test_a_header_that_a_capture_did_not_keep_is_no_fault(
    kept: int, tshark: Tshark
) -> None:
    packet, snap = DATA["votes of 12 entries"], IP_UDP_BYTES + kept
    shown = tshark([packet], "-T", "json", *OPENED, snap=snap)
    assert "fediac" in layers_of(shown)[0]
    assert "_ws.expert.message" not in shown
    info = tshark([packet], *INFO_ONLY, *OPENED, snap=snap)
    assert info == "header cut off by the capture\n"


@pytest.mark.parametrize("kept", [40, 41])
def test_a_payload_that_a_capture_did_not_keep_is_no_fault(
    kept: int, tshark: Tshark
) -> None:
    packet, snap = DATA["votes of 12 entries"], IP_UDP_BYTES + kept
    (shown,) = fields_shown(tshark([packet], "-T", "json", snap=snap))
    assert "_ws.expert.message" not in shown
    assert number(shown["n_items"]) == 12
    assert number(shown["payload_bytes"]) == 2


def packets_of_a_round() -> list[bytes]:
    """Return what a capture at the switch has of the round in docs/protocol.md.

    The first votes of client 1 and its second part of the sums are lost behind it.
    """
    switch = Switch()
    job = switch.open(2, n_observers=1)
    tally = [votes(job, client, "1" * 11_264, threshold=2) for client in (0, 1)]
    sums = [
        lanes(job, client, [127] * 1_408, bits=8, bits_down=16, exchange=1)
        for client in (0, 1)
    ]
    sent = [tally[0], observed(tally[0], 2), tally[0], tally[1]]
    sent += [sums[0], observed(sums[0], 2), sums[1], sums[1]]
    seen = []
    for packet in sent:
        seen += [packet, *(answer for _, answer in send(switch, packet))]
    return [encode(packet) for packet in seen]


def test_the_round_in_the_docs_is_what_tshark_tells(tshark: Tshark) -> None:
    told = tshark(packets_of_a_round(), *INFO_ONLY)
    docs = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
    shown = docs.partition("-r round.pcap\n")[2].partition("```")[0]
    assert shown.splitlines() == told.splitlines()
