"""`fediac switch`: a process from its settings, what it says, and how it ends."""

import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, TextIO

from fediac.errors import ConfigError
from fediac.network.key_file import find_keys, is_read_by_group
from fediac.network.readings import Reading, say_drops
from fediac.network.settings import SwitchSettings
from fediac.network.sockets import SwitchSocket, open_socket
from fediac.network.switch_process import SwitchProcess
from fediac.number_words import mib
from fediac.switch.control import ControlPlane, Limits
from fediac.switch.keys import Keyring

_SECRET_BYTES = 16
_MIB = 1 << 20


def run_switch(settings: SwitchSettings, *, as_json: bool) -> None:
    """Run a switch until SIGTERM or SIGINT.

    Args:
        settings: How it is started.
        as_json: Whether it speaks in lines of JSON.

    Raises:
        StartError: It cannot begin.
        ConfigError: Without a key it listens where others reach it.
    """
    keys = find_keys(settings.key_file, os.environ)
    speaker = Speaker(sys.stdout, as_json=as_json)
    if settings.key_file is not None and is_read_by_group(settings.key_file):
        speaker.warn(f"{settings.key_file}: its group can use this file, too")
    with ExitStack() as stack:
        opened = open_socket(settings.listen)
        stack.enter_context(opened.socket)
        _check_reach(settings, opened, keys)
        limits = Limits(
            register_bytes=settings.memory,
            max_jobs=settings.max_jobs,
            buffer_packets=opened.buffer_packets,
        )
        plane = ControlPlane(limits, keys, secrets.token_bytes(_SECRET_BYTES))
        process = SwitchProcess(opened, plane)
        stack.enter_context(_stopping_at_signals(process))
        page = None
        if settings.http is not None:
            from fediac.network.http_page import serve_page

            page = str(stack.enter_context(serve_page(settings.http, process)))
        speaker.begin(opened, limits, has_key=_has_key(keys), page=page)
        process.run(speaker.show)
        speaker.end(process.reading)


def _has_key(keys: Keyring) -> bool:
    return keys.default is not None or bool(keys.of_jobs)


def _check_reach(settings: SwitchSettings, opened: SwitchSocket, keys: Keyring) -> None:
    """Refuse to serve others than this machine where anybody may open sessions."""
    if keys.default is None and not opened.is_local and not settings.insecure:
        raise ConfigError(
            f"{settings.listen} can be reached from other machines: give --key-file "
            "with a key for all jobs, or --insecure to let anybody open sessions"
        )


class Speaker:
    """Says what a switch does: a line that changes on a terminal, or lines of JSON.

    Args:
        out: Where to.
        as_json: Whether as JSON.
    """

    def __init__(self, out: TextIO, *, as_json: bool) -> None:
        self._out, self._as_json = out, as_json
        self._is_live = not as_json and out.isatty()

    def begin(
        self, opened: SwitchSocket, limits: Limits, *, has_key: bool, page: str | None
    ) -> None:
        """Say where it listens, at once: others may wait for that."""
        if self._as_json:
            self._tell(
                "listening",
                address=str(opened.endpoint),
                register_bytes=limits.register_bytes,
                max_jobs=limits.max_jobs,
                buffer_bytes=opened.buffer_bytes,
                buffer_packets=opened.buffer_packets,
                has_key=has_key,
                page=page,
            )
            return
        self._say(f"listening on {opened.endpoint} (UDP)")
        self._say(
            f"{mib(limits.register_bytes / _MIB)} of registers for at most "
            f"{limits.max_jobs} jobs; receive buffer of "
            f"{mib(opened.buffer_bytes / _MIB)}, {opened.buffer_packets:,} packets"
        )
        if not has_key:
            self._say("no key: whoever reaches this address may open sessions")
        if page is not None:
            self._say(f"status page http://{page}/ and metrics http://{page}/metrics")

    def show(self, reading: Reading) -> None:
        """Show the newest counters."""
        if self._as_json:
            self._tell("reading", **reading.document())
        elif self._is_live:
            # What does not fit on a line of the terminal would not be written over.
            room = shutil.get_terminal_size().columns - 1
            line = reading.line()
            if len(line) > room:
                line = line[: room - 1] + "\N{HORIZONTAL ELLIPSIS}"
            self._write(f"\r\x1b[2K{line}")

    def warn(self, text: str) -> None:
        """Say what its user should know."""
        sys.stderr.write(f"warning: {text}\n")

    def end(self, reading: Reading) -> None:
        """Say what it did."""
        if self._as_json:
            self._tell("stopped", **reading.document())
            return
        self._write("\n" if self._is_live else "")
        self._say(
            f"stopped after {reading.uptime_s:,.0f} s: {reading.packets_in:,} packets "
            f"in, {reading.packets_out:,} out, {say_drops(reading.drops)}"
        )

    def _tell(self, event: str, **facts: Any) -> None:  # noqa: ANN401 - any fact
        self._say(json.dumps({"event": event, **facts}, allow_nan=False))

    def _say(self, line: str) -> None:
        self._write(line + "\n")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()


@contextmanager
def _stopping_at_signals(process: SwitchProcess) -> Iterator[None]:
    """Let SIGTERM and SIGINT end a process cleanly, inside the block."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        process.stop()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, stop) for number in numbers]
    # A loop in C runs no Python handlers: a byte there makes it come back.
    fd = signal.set_wakeup_fd(process.wake_fd, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
