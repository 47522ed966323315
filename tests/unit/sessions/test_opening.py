"""A coordinator's request: which refusals it believes, and when."""

import pytest

from fediac.sessions.opening import Opening
from fediac.wire.control import Control, Cookie, Open, Opened, Refusal, read_control
from fediac.wire.header import EVERYONE, Kind, Reason
from fediac.wire.packet import decode, encode
from fediac.wire.tag import session_key, tagged

KEY = b"the key of a job"
ASKED = Open(
    100,
    job=7,
    epoch=1,
    n_clients=2,
    n_observers=1,
    payload_bytes=64,
    lease_ms=1000,
    silence_ms=500,
)
WRONG_KEY = Refusal(100, EVERYONE, Reason.KEY)
PATIENCE_US = 5_000_000


def opening(key: bytes | None = KEY) -> Opening:
    return Opening(ASKED, key, patience_us=PATIENCE_US, now_us=0)


def hear(opening: Opening, said: Control, key: bytes | None, *, at: int = 0) -> None:
    made = tagged(encode(said.write()), session_key(key, 100))
    opening.receive([made], at)


@pytest.mark.parametrize("key", [KEY, None])
def test_a_request_that_was_damaged_on_its_way_is_no_wrong_key(
    key: bytes | None,
) -> None:
    asking = opening(key)
    for _ in range(2):
        hear(asking, WRONG_KEY, None)
    assert not asking.is_over
    hear(asking, Cookie(100, EVERYONE, 12), key)
    for _ in range(9):
        hear(asking, WRONG_KEY, None)
    hear(asking, Opened(100, 1 << 16, 4), key)
    assert asking.opened == Opened(100, 1 << 16, 4)
    assert asking.ended is None


@pytest.mark.parametrize("key", [KEY, None])
def test_a_wrong_key_is_believed_when_it_is_said_three_times(key: bytes | None) -> None:
    asking = opening(key)
    for _ in range(3):
        assert asking.ended is None
        hear(asking, WRONG_KEY, None)
    assert asking.ended is not None
    assert asking.ended.why == "the switch has another key for this job"
    assert asking.ended.is_final


def test_a_refusal_explains_a_silence() -> None:
    asking = opening()
    hear(asking, Refusal(100, EVERYONE, Reason.VERSION, 3, 2), None)
    assert asking.send(PATIENCE_US) == []
    assert asking.ended is not None
    assert asking.ended.why == "the switch speaks version 3 of the protocol, not 2"


def test_what_no_key_covers_is_not_believed() -> None:
    asking = opening()
    hear(asking, Opened(100, 1 << 16, 4), None)
    hear(asking, Refusal(100, EVERYONE, Reason.JOBS, 1, 2), None)
    assert (asking.opened, asking.ended) == (None, None)
    (sent,) = asking.send(0)
    assert decode(sent).kind == Kind.OPEN
    assert read_control(decode(sent)) == ASKED
