"""How a run shows itself while it goes on: in a terminal or a notebook, or not."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from fediac.names import ACCURACY, short_name
from fediac.number_words import mib, seconds
from fediac.runs.notebook import NotebookLine
from fediac.runs.pace import Pace, say_left
from fediac.runs.records import Round
from fediac.runs.settings import RunSettings

_CONTROL_C = 3
"""Columns for the ^C that a terminal writes behind the last line: one that it breaks
would stay there when the bars go."""


@dataclass(frozen=True, slots=True)
class _Line:
    """What ``say`` says now, cut where a terminal is narrow."""

    say: Callable[[], str]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[Text]:
        """Yield it."""
        text = Text(self.say())
        text.truncate(max(1, options.max_width - _CONTROL_C), overflow="ellipsis")
        yield text


class _Bars(Progress):
    """Bars, and a line below them."""

    line: RenderableType = ""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield what is shown now."""
        yield self.make_tasks_table(self.tasks)
        yield self.line


class ProgressBars:
    """Bars for rounds and for the clients of a round, on standard error.

    In a notebook they are a line below the cell. Elsewhere, where standard error is not
    a terminal, nothing is shown.

    Args:
        is_quiet: Show nothing anywhere.
        metric: What says how good a model is.
    """

    def __init__(self, *, is_quiet: bool = False, metric: str = ACCURACY) -> None:
        self._metric = metric
        self._notebook = NotebookLine(is_quiet=is_quiet)
        self._bars = _Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            # A notebook is no terminal that could move its cursor.
            console=Console(stderr=True, force_jupyter=False),
            transient=True,
            # What a user prints meanwhile goes above the bars; into a file, if that is
            # where it was to go.
            redirect_stdout=sys.stdout.isatty(),
            disable=is_quiet or not sys.stderr.isatty(),
        )
        self._clients = self._rounds = self._bars.add_task("", visible=False)
        self._bars.line = _Line(self._say_line)
        self._pace, self._facts, self._name = Pace(0), "", ""
        self._total: int | None = None

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
        name, self._total = short_name(settings.algorithm), settings.stop.n_rounds
        self._pace, self._facts = Pace(done), ""
        self._name = name
        self._rounds = self._bars.add_task(
            f"{name}: rounds", total=self._total, completed=done
        )
        self._clients = self._bars.add_task(f"{name}: clients", total=n_clients)

    def say(self, text: str) -> None:
        """Write a line on standard error, above the bars if there are some."""
        self._bars.console.print(text, soft_wrap=True, markup=False, highlight=False)

    def doubt(self, why: str) -> None:
        """Say it, on standard error."""
        self.say(f"note: {self._name}: {why}.")

    def client_done(self) -> None:
        """Move the bar of clients."""
        self._bars.advance(self._clients)
        self._notebook.show(self._say_all)

    def round_done(self, record: Round) -> None:
        """Move the bar of rounds and say how good the model is."""
        time_s = next(iter(record.time_s.values()))
        self._facts = (
            f"{self._metric} {100 * record.accuracy:.1f} %  "
            f"{mib(record.payload_mib)}  {seconds(time_s)} simulated"
        )
        if record.votes and not record.chosen:
            self._facts += "  nothing agreed on"
        self._pace.reach(record.number)
        self._bars.update(self._rounds, completed=record.number)
        self._bars.reset(self._clients)
        self._notebook.show(self._say_all, is_due=record.number == self._total)

    def _say_line(self) -> str:
        """Return how much time is left, and how good the model is."""
        left = say_left(self._pace.left_s(self._total))
        return f"{left}  {self._facts}".rstrip()

    def _say_all(self) -> str:
        """Return all of it in one line, for a notebook, where the last one stays."""
        rounds, clients = self._bars.tasks
        done = f"{rounds.description} {rounds.completed:g}"
        if rounds.completed == self._total:
            return f"{done}  {self._facts}"
        total = "?" if self._total is None else self._total
        of = f"clients {clients.completed:g}/{clients.total:g}"
        return f"{done}/{total}  {of}  {self._say_line()}"
