"""`fediac switch status`: asks a running switch how it does."""

import secrets
import socket
import sys
import time

from fediac.console import write_json
from fediac.errors import RemoteProtocolError, StartError, say_reason
from fediac.network.addresses import Endpoint
from fediac.network.readings import Reading, read_report
from fediac.switch.keys import Keyring
from fediac.wire.control import Control, Cookie, Refusal, read_control
from fediac.wire.header import Reason
from fediac.wire.packet import decode, encode
from fediac.wire.status import Report, Status
from fediac.wire.tag import is_tag_right, tagged

NO_ANSWER, WRONG_KEY = 7, 8
"""Exit codes of who was not told."""

_TRY_S = 0.25
_MAX_BYTES = 0xFFFF


def show_status(
    endpoint: Endpoint, keys: Keyring, *, timeout_s: float, as_json: bool
) -> None:
    """Print how a switch does.

    Raises:
        StartError: It does not answer in time, or wants another key.
    """
    reading = ask_status(endpoint, keys, timeout_s=timeout_s)
    if as_json:
        document = reading.document()
        del document["jobs"]  # the packet has no room for them
        write_json({"address": str(endpoint), **document})
        return
    sys.stdout.write(
        f"{endpoint} has been up for {reading.uptime_s:,.0f} s: "
        f"{reading.packets_in:,} packets in, {reading.packets_out:,} out\n"
        f"{reading.line()}, {reading.n_members} members\n"
    )


def ask_status(endpoint: Endpoint, keys: Keyring, *, timeout_s: float) -> Reading:
    """Return what a switch says of itself; see `show_status`."""
    number = secrets.randbits(64)
    key = next(iter(keys.status_keys(number)))
    try:
        family, address = endpoint.resolve(socket.SOCK_DGRAM)
        with socket.socket(family, socket.SOCK_DGRAM) as asking:
            asking.connect(address)
            return _ask(asking, number, key, timeout_s)
    except OSError as error:
        raise StartError(
            f"no switch answers at {endpoint}: {say_reason(error)}", NO_ANSWER
        ) from error


def _ask(asking: socket.socket, number: int, key: bytes, timeout_s: float) -> Reading:
    """Ask, and again when nothing comes, until the time is over."""
    end_s = time.monotonic() + timeout_s
    question = Status(number)
    while (left_s := end_s - time.monotonic()) > 0:
        asking.send(tagged(encode(question.write()), key))
        asking.settimeout(min(_TRY_S, left_s))
        try:
            answer = _read_answer(asking, number, key)
        except TimeoutError:
            continue
        match answer:
            case Cookie():
                question = Status(number, answer.cookie)
            case Report():
                return read_report(answer)
            case Refusal(reason=Reason.KEY):
                raise StartError("the switch wants a key, or another one", WRONG_KEY)
    raise TimeoutError(None, f"nothing came within {timeout_s:g} s")


def _read_answer(asking: socket.socket, number: int, key: bytes) -> Control | None:
    """Return the next answer, None for anything else."""
    data = asking.recv(_MAX_BYTES)
    public = Keyring().session_key(0, number)
    try:
        packet = decode(data)
        is_ours = packet.session == number
        keys = (key, public) if packet.part == Reason.KEY else (key,)
        if not is_ours or not any(is_tag_right(data, each) for each in keys):
            return None
        return read_control(packet)
    except RemoteProtocolError:
        return None
