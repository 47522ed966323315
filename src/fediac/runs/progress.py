"""How a run shows itself while it goes on: bars in a terminal, silence elsewhere."""

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from fediac.names import short_name
from fediac.number_words import mib, seconds
from fediac.runs.records import Round
from fediac.runs.settings import RunSettings


class ProgressBars:
    """Bars for rounds and for the clients of a round, on standard error.

    Nothing is shown when standard error is not a terminal.
    """

    def __init__(self, *, is_quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            # What a user prints meanwhile goes above the bars; into a file, if that is
            # where it was to go.
            redirect_stdout=sys.stdout.isatty(),
            disable=is_quiet or not sys.stderr.isatty(),
        )
        self._clients = self._rounds = self._bars.add_task("", visible=False, note="")

    def __enter__(self) -> "ProgressBars":
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def start(
        self, settings: RunSettings, n_clients: int, before: Round | None
    ) -> None:
        """Show the bars of one run."""
        for task in self._bars.task_ids:
            self._bars.remove_task(task)
        done = 0 if before is None else before.number
        self._rounds = self._bars.add_task(
            f"{short_name(settings.algorithm)}: rounds",
            total=settings.stop.n_rounds,
            completed=done,
            note="",
        )
        self._clients = self._bars.add_task(
            f"{short_name(settings.algorithm)}: clients", total=n_clients, note=""
        )

    def say(self, text: str) -> None:
        """Write a line on standard error, above the bars if there are some."""
        self._bars.console.print(text, soft_wrap=True, markup=False, highlight=False)

    def client_done(self) -> None:
        """Move the bar of clients."""
        self._bars.advance(self._clients)

    def round_done(self, record: Round) -> None:
        """Move the bar of rounds and say how good the model is."""
        time_s = next(iter(record.time_s.values()))
        note = (
            f"accuracy {100 * record.accuracy:.1f} %  "
            f"{mib(record.payload_mib)}  {seconds(time_s)} simulated"
        )
        if record.votes and not record.chosen:
            note += "  nothing agreed on"
        self._bars.update(self._rounds, completed=record.number, note=note)
        self._bars.reset(self._clients)
