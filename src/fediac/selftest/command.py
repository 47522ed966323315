"""`fediac selftest`: what it runs, says and ends with."""

import secrets
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fediac.console import FAILED, write_json
from fediac.errors import RunError, SessionError
from fediac.network.key_file import VARIABLE
from fediac.selftest.apart import Plan, run_apart
from fediac.selftest.network import network
from fediac.selftest.processes import Crew, crew
from fediac.selftest.results import Trial, document, say_trial
from fediac.selftest.roles import Job
from fediac.selftest.settings import SelftestSettings
from fediac.selftest.together import remote_switch, run_together
from fediac.selftest.under_attack import attack

_KEY_BYTES = 32
_MOST_SHOWN = 20


def run_selftest(settings: SelftestSettings, *, as_json: bool) -> None:
    """Run a self-test, say what came of it, and exit with 1 if something differs."""
    trials: dict[str, Trial] = {}
    with _telling() as teller:
        for name in settings.algorithms:
            trials[name] = try_algorithm(name, settings, teller)
            if not as_json:
                teller.clear()
                sys.stdout.write(say_trial(name, trials[name]) + "\n")
                sys.stdout.flush()
        attacked = None
        if settings.attacks:
            attacked = attack(settings.seed, settings.child, teller.tell)
    if as_json:
        write_json(document(trials, attacked))
    elif attacked is not None:
        sys.stdout.write(attacked.line() + "\n")
    differences = [each for trial in trials.values() for each in trial.differences]
    differences += attacked.differences if attacked is not None else []
    _say_differences(differences)
    if differences or not all(trial.is_equal for trial in trials.values()):
        sys.exit(FAILED)


def _say_differences(differences: Sequence[str]) -> None:
    for line in differences[:_MOST_SHOWN]:
        sys.stderr.write(f"differs: {line}\n")
    if len(differences) > _MOST_SHOWN:
        sys.stderr.write(f"and {len(differences) - _MOST_SHOWN:,} more\n")


def try_algorithm(name: str, settings: SelftestSettings, teller: "Teller") -> Trial:
    """Return what came of an algorithm's rounds."""
    trial = Trial()
    try:
        with _crew(settings) as (made, key):
            teller.tell(f"{name}: starting")
            with network(made, settings, trial) as net:
                if settings.is_apart:
                    plan = _plan(name, settings, made)
                    run_apart(plan, made, net, trial, teller.tell)
                else:
                    switch = remote_switch(net.address, key)
                    run_together(name, settings, switch, trial, teller.tell)
    except (RunError, SessionError) as error:
        trial.differences.append(f"{name}: {error}")
    return trial


def _plan(name: str, settings: SelftestSettings, made: Crew) -> Plan:
    folder = made.folder / "job"
    folder.mkdir()
    job = Job(
        name,
        settings.n_clients,
        settings.dim,
        settings.seed,
        folder,
        is_rough=settings.n_kills > 0,
    )
    return Plan(job, settings.n_rounds, settings.n_kills)


@contextmanager
def _crew(settings: SelftestSettings) -> Iterator[tuple[Crew, bytes]]:
    """Start processes that have a key in common, which nobody else has."""
    key = secrets.token_bytes(_KEY_BYTES)
    with (
        tempfile.TemporaryDirectory(prefix="fediac-selftest-") as folder,
        crew(Path(folder), {VARIABLE: key.hex()}, settings.child) as made,
    ):
        yield made, key


class Teller:
    """Says on standard error how far it is: one line that changes, on a terminal."""

    def __init__(self) -> None:
        self._is_live = sys.stderr.isatty()

    def tell(self, text: str) -> None:
        """Say what happens now."""
        if self._is_live:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Leave nothing of it."""
        self.tell("")


@contextmanager
def _telling() -> Iterator[Teller]:
    teller = Teller()
    try:
        yield teller
    finally:
        teller.clear()
