"""A switch that tells the process that started it what is in its memory.

It is the one of `fediac switch`: the same socket, loop and control plane. A thread
beside them answers when it is asked. It reads while the switch is at rest, since who
asks has waited for everything sent before to be done.
"""

import hashlib
import os
import secrets
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fediac.network.addresses import Endpoint
from fediac.network.key_file import find_keys
from fediac.network.sockets import open_socket
from fediac.network.switch_process import SwitchProcess
from fediac.switch.control import ControlPlane, Limits

_SECRET_BYTES = 16


def run_watched(
    address: str, register_bytes: int, key_file: Path, say: Callable[..., None]
) -> None:
    """Run a switch until SIGTERM; say what it holds whenever a line comes in."""
    keys = find_keys(key_file, {})
    opened = open_socket(Endpoint.parse(address, name="address"))
    limits = Limits(register_bytes, buffer_packets=opened.buffer_packets)
    plane = ControlPlane(limits, keys, secrets.token_bytes(_SECRET_BYTES))
    process = SwitchProcess(opened, plane)

    def answer() -> None:
        for _ in sys.stdin:
            say("state", **describe(plane))

    threading.Thread(target=answer, daemon=True).start()
    signal.set_wakeup_fd(process.wake_fd, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: process.stop())
    say("listening", address=str(opened.endpoint))
    process.run(lambda _: None)
    say("stopped", **process.reading.document())
    opened.socket.close()
    os._exit(0)  # the thread waits for a line that will not come


def describe(plane: ControlPlane) -> dict[str, Any]:
    """Return what a switch holds: registers, members, addresses, and when it heard."""
    sessions = {str(each.asked.session): each for each in plane.sessions}
    return {
        "sessions": {name: repr(each.asked) for name, each in sessions.items()},
        "registers": {
            name: hashlib.blake2b(each.switch.snapshot()).hexdigest()
            for name, each in sessions.items()
        },
        "members": {
            name: {client: member.counter for client, member in each.members.items()}
            for name, each in sessions.items()
        },
        "addresses": {
            name: [member.address.hex() for member in each.members.values()]
            + [each.coordinator.hex()]
            for name, each in sessions.items()
        },
        "heard": {
            name: [*each.heard_us.tolist(), each.lease_until_us]
            for name, each in sessions.items()
        },
    }
