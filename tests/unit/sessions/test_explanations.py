"""What a switch says, in words."""

from typing import Any

import pytest

from fediac.sessions.explanations import (
    say_ending,
    say_ending_before,
    say_held,
    say_refusal,
    say_version,
)
from fediac.wire.control import Abort, Ending, Refusal
from fediac.wire.header import Flag, Kind, Reason
from fediac.wire.packet import Packet


@pytest.mark.parametrize(
    ("abort", "text"),
    [
        (Abort(1, Ending.SILENT, (3,)), "member 3 silent for longer than 2.5 s"),
        (Abort(1, Ending.SILENT, (3, 9)), "members 3, 9 silent for longer than 2.5 s"),
        (Abort(1, Ending.LEASE), "its coordinator was silent for too long"),
        (Abort(1, Ending.REPLACED), "its coordinator has opened a newer one"),
        (Abort(1, Ending.CLOSED), "it was closed"),
    ],
)
def test_every_ending_has_words(abort: Abort, text: str) -> None:
    assert say_ending(abort, 2500) == text


def test_there_are_words_for_every_ending_there_is() -> None:
    assert all(say_ending(Abort(1, ending, (0,)), 1000) for ending in Ending)


@pytest.mark.parametrize(
    ("abort", "text"),
    [
        (Abort(1, Ending.SILENT, (3,)), "member 3 never joined"),
        (
            Abort(1, Ending.SILENT, (3, 4, 9)),
            "member 3 never joined; members 4, 9 silent for too long",
        ),
        (Abort(1, Ending.SILENT, (9,)), "member 9 silent for too long"),
        (Abort(1, Ending.LEASE), "its coordinator was silent for too long"),
        (Abort(1, Ending.CLOSED), "it was closed"),
    ],
)
def test_who_has_not_joined_knows_no_time(abort: Abort, text: str) -> None:
    assert say_ending_before(abort, 3) == text


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (Reason.VERSION, "the switch speaks version 5 of the protocol, not 8"),
        (
            Reason.MEMORY,
            "a job has 5 register bytes on this switch, and the session takes at "
            "least 8",
        ),
        (
            Reason.EPOCH,
            "the coordinator has been started again since: epoch 5 is newer than 8",
        ),
        (Reason.KEY, "the switch has another key for this job"),
    ],
)
def test_a_refusal_names_both_values(reason: Reason, text: str) -> None:
    assert say_refusal(Refusal(1, 0, reason, 5, 8)) == text


def test_there_are_words_for_every_reason_of_a_refusal() -> None:
    refusals = [each for each in Reason if each > Reason.ITEMS]
    texts = {say_refusal(Refusal(1, 0, each, 5, 8)) for each in refusals}
    assert len(texts) == len(refusals)
    assert not any("reason" in text for text in texts)


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({"n_items": Kind.TALLY, "aux": 3}, "a tally with threshold 3"),
        ({"n_items": Kind.SUM, "aux": 6 << 8 | 10}, "a sum of 6 bits up and 10 down"),
        ({"n_items": Kind.BLOCK_SUM}, "a block sum"),
        ({"n_items": 99}, "a kind 99"),
    ],
)
def test_settings_that_differ_are_told_in_words(
    fields: dict[str, Any], held: str
) -> None:
    error = Packet(
        Kind.ERROR, 1, 2, 0, packet=4, part=Reason.SETTINGS, flags=Flag.ANSWER, **fields
    )
    assert say_held(error, None) == (
        f"exchange 2, packet 4: the others have {held}; are all members' settings the "
        "same?"
    )


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({"n_items": 12}, "12 items"),
        ({"n_items": 1}, "1 item"),
        ({"aux": 16}, "16 addresses"),
    ],
)
def test_items_that_differ_are_told_in_words(fields: dict[str, Any], held: str) -> None:
    error = Packet(Kind.ERROR, 1, 0, 0, part=Reason.ITEMS, flags=Flag.ANSWER, **fields)
    assert f"the others have {held};" in say_held(error, None)


@pytest.mark.parametrize(
    ("own", "error", "text"),
    [
        (
            Packet(Kind.TALLY, 1, 2, 0, packet=4, threshold=2),
            {"n_items": Kind.TALLY, "aux": 3, "part": Reason.SETTINGS},
            "the others have a tally with threshold 3, this one a tally with "
            "threshold 2;",
        ),
        (
            Packet(Kind.SUM, 1, 2, 0, packet=4, bits_up=4, bits=8),
            {"n_items": Kind.MAX, "part": Reason.SETTINGS},
            "the others have a max, this one a sum of 4 bits up and 8 down;",
        ),
        (
            Packet(Kind.TALLY, 1, 2, 0, packet=4, threshold=2, n_items=9),
            {"n_items": 12, "part": Reason.ITEMS},
            "the others have 12 items, this one 9;",
        ),
    ],
)
def test_what_the_packet_had_instead_is_told_as_well(
    own: Packet, error: dict[str, Any], text: str
) -> None:
    said = Packet(Kind.ERROR, 1, 2, 0, packet=4, flags=Flag.ANSWER, **error)
    assert text in say_held(said, own)


def test_versions_are_told_both() -> None:
    assert say_version(3) == "the switch speaks version 3 of the protocol, not 2"
