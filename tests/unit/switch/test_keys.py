"""Keys and cookies: compared in constant time, never shown."""

import hmac
import inspect
from typing import Any

import numpy as np
import pytest

from fediac.sessions.coordinator import CoordinatorSettings
from fediac.sessions.member import Seat
from fediac.sessions.messages import Start, Word
from fediac.sessions.replay import Compressing
from fediac.switch import control, keys
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.keys import Keyring, cookie_of, is_cookie_right
from fediac.wire import tag
from fediac.wire.tag import check_tags, is_tag_right, session_key, tagged
from tests.planes import PLANES, data_plane

KEY = b"a key that nobody should ever see"
SECRET = b"sixteen bytes of"
RECIPE = Compressing(lambda n: n, 1)  # type: ignore[arg-type, return-value] # unused


def test_secrets_are_compared_in_constant_time() -> None:
    for function in (tag.is_tag_right, keys.is_cookie_right):
        assert "hmac.compare_digest(" in inspect.getsource(function)
    source = inspect.getsource(control)
    assert source.count("is_cookie_right(") == source.count("cookie_of(self._secret")
    assert ".cookie ==" not in source
    assert ".cookie !=" not in source


@pytest.mark.parametrize("plane", PLANES)
def test_every_bit_of_a_tag_counts(plane: str) -> None:
    key = session_key(KEY, 5)
    packet = tagged(bytes(range(90)), key)
    assert is_tag_right(packet, key)
    with data_plane(plane):
        for bit in range(64):
            damaged = bytearray(packet)
            damaged[32 + bit // 8] ^= 1 << bit % 8
            rows = np.frombuffer(bytes(damaged), np.uint8).reshape(1, -1).copy()
            lengths = np.array([90], dtype=np.int32)
            assert not check_tags(rows, lengths, key)[0]
            assert not is_tag_right(bytes(damaged), key)


def test_every_bit_of_a_cookie_counts() -> None:
    proof = cookie_of(SECRET, b"an address", 7, 1)
    assert is_cookie_right(proof, proof)
    for bit in range(64):
        assert not is_cookie_right(proof ^ 1 << bit, proof)
    assert hmac.compare_digest(b"", b"")


@pytest.mark.parametrize(
    "holder",
    [
        Keyring(KEY, {3: KEY}),
        Seat(1, 0, 64, KEY),
        Start(1, 1, (0, 1), 64, KEY),
        Word(1, 1, start=Start(1, 1, (0, 1), 64, KEY)),
        CoordinatorSettings(1, RECIPE, lambda last: last + 1, KEY),
        ControlPlane(Limits(1 << 16), Keyring(KEY), SECRET),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_has_a_key_does_not_show_it(holder: Any) -> None:
    shown = repr(holder) + str(holder)
    assert "nobody should" not in shown
    assert KEY.hex() not in shown
    assert "sixteen" not in shown
