"""Processes of a self-test: started, asked, killed, and gone in the end.

A process says what it has to say in lines of JSON; what it complains about goes into a
file. None outlives the block that started it, whatever happens there, nor this process.
"""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO

from fediac.errors import RunError

_STOP_S = 10.0
"""How long a process may take to end when it is asked to."""

_START_S = 60.0
"""How long it may take to begin, on a busy machine."""


Heard = queue.Queue[tuple["Child", dict[str, Any]]]
"""What several processes have said."""


class Child:
    """A process of the self-test.

    Args:
        name: What it is called, for people and for its log.
        command: What it runs.
        folder: Where its log is.
        environment: What it is told beside that; keys, say.
        into: Gets all that it says, with this child; None: `wait_for` does.

    Attributes:
        last: Event -> the newest line about it.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        into: Heard | None = None,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self.last: dict[str, dict[str, Any]] = {}
        with self.log.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is for us, who tell it to stop
            )
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._into = into
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        out = _pipe(self._process.stdout)
        for line in out:
            said: dict[str, Any] = json.loads(line)
            self.last[said["event"]] = said
            if self._into is not None:
                self._into.put((self, said))
            else:
                self._lines.put(said)
        self._lines.put(None)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self.exit_code is None

    @property
    def exit_code(self) -> int | None:
        """What it ended with; None: it has not."""
        return self._process.poll()

    def wait_for(self, event: str, timeout_s: float = _START_S) -> dict[str, Any]:
        """Return the next line about an event; those before it are passed over.

        Raises:
            RunError: It ended, or said nothing in time.
        """
        while True:
            try:
                said = self._lines.get(timeout=timeout_s)
            except queue.Empty:
                raise RunError(
                    f"{self.name} said nothing for {timeout_s:g} s while {event!r} was "
                    f"awaited; its log: {self.say_log()}"
                ) from None
            if said is None:
                self._lines.put(None)
                raise RunError(self._say_end())
            if said["event"] == event:
                return said

    def _say_end(self) -> str:
        return f"{self.name} ended with {self._process.wait()}: {self.say_log()}"

    def require_well(self) -> None:
        """Raise unless it has ended as it should.

        Raises:
            RunError: It has not, and this is what its log says.
        """
        if self._process.wait(_STOP_S):
            raise RunError(self._say_end())

    def tell(self, line: str) -> None:
        """Give it a line to read; one that is gone does not hear it."""
        to = _pipe(self._process.stdin)
        try:
            to.write(line + "\n")
            to.flush()
        except BrokenPipeError:
            return

    def say_log(self) -> str:
        """Return the end of what it complained about, in one line."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "nothing in its log"

    def kill(self) -> None:
        """Kill it: it can do nothing more."""
        self._process.kill()
        self._end()

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Ask it to end, and see to it that it does."""
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            # What was not written when it died is lost.
            try:
                _pipe(pipe).close()
            except BrokenPipeError:
                continue


def _pipe(pipe: Any) -> TextIO:  # noqa: ANN401 - IO[Any] | None of subprocess
    if pipe is None:
        raise RunError("the process has no pipe")
    opened: TextIO = pipe
    return opened


class Crew:
    """All processes of a self-test.

    Args:
        folder: Where their logs are.
        environment: What all are told.
        module: What they run; see `fediac.selftest.child`.

    Attributes:
        environment: That of all.
    """

    def __init__(
        self, folder: Path, environment: Mapping[str, str], module: str
    ) -> None:
        self.folder = folder
        self.environment, self._module = environment, module
        self._children: list[Child] = []

    def start(
        self,
        name: str,
        *words: str,
        into: Heard | None = None,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Child:
        """Start a process; what it says goes where it is told."""
        self._children = [each for each in self._children if each.is_alive]
        command = [sys.executable, "-m", self._module, str(os.getpid()), *words]
        told = {**self.environment, **environment}
        child = Child(name, command, self.folder, told, into=into)
        self._children.append(child)
        return child

    def end(self) -> None:
        """Kill those that are left."""
        for child in reversed(self._children):
            child.kill()


@contextmanager
def crew(folder: Path, environment: Mapping[str, str], module: str) -> Iterator[Crew]:
    """Start processes inside the block; none is left behind it."""
    made = Crew(folder, environment, module)
    try:
        yield made
    finally:
        made.end()
