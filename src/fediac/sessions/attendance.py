"""A member that runs a round: exchanges out of the generator, answers into it."""

from collections.abc import Callable, Iterable

from fediac.core.exchange import Answer
from fediac.errors import FediacError
from fediac.sessions.member import Member
from fediac.sessions.messages import Step
from fediac.sessions.replay import Replay


class Attendance:
    """One round in one session.

    Args:
        member: Its place in the session.
        run: The round.
        keep: Called with all answers so far, before the next step's first packet.
    """

    def __init__(
        self, member: Member, run: Replay, keep: Callable[[tuple[Step, ...]], None]
    ) -> None:
        self.member = member
        self.run = run
        self.steps: tuple[Step, ...] = ()
        self._keep = keep
        self._answers: list[Answer] = []
        self._ask()

    @property
    def is_done(self) -> bool:
        """Whether the round has its outcome."""
        return self.run.outcome is not None

    def receive(self, datagrams: Iterable[bytes], now_us: int) -> None:
        """Take what the switch sends, and go on as far as that leads."""
        self.member.receive(datagrams, now_us)
        try:
            self._go_on()
        except FediacError as error:
            self.member.give_up(str(error))

    def _go_on(self) -> None:
        while (answer := self.member.take_answer()) is not None:
            self._answers.append(answer)
            if len(self._answers) == len(self.run.asked):
                step, self._answers = tuple(self._answers), []
                self.steps = (*self.steps, step)
                self.run.feed(step)
                if self.run.outcome is None:
                    self._keep(self.steps)
            self._ask()

    def _ask(self) -> None:
        if self.run.asked:
            self.member.ask(self.run.asked[len(self._answers)])
