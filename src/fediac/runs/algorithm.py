"""Settings -> the algorithm of a round, for its number of clients and entries."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from fediac.compressors import (
    Compressor,
    FedAvg,
    FediAC,
    Weighted,
    find,
)
from fediac.compressors.catalog import served_by_switch
from fediac.compressors.forecast import (
    AsksIndexedSum,
    AsksSum,
    asks_of,
    check_dim,
    sends_to_server,
    tally_threshold,
)
from fediac.compressors.settings import setting_fields
from fediac.errors import ArgumentError, ConfigError
from fediac.names import is_own
from fediac.plan.networks import bounded_memory
from fediac.plugins import make_own
from fediac.runs.settings import RunSettings, parse_settings
from fediac.runs.settings.algorithm_tables import table_type
from fediac.runs.settings.presets import fill_table
from fediac.runs.settings.toml_tables import apply_overrides
from fediac.runs.settled import NOTHING, Settled, is_tuned_by_server
from fediac.switch import Switch
from fediac.switch.registers import Layout
from fediac.transports.capacity import require_capacity


def make_compressor(
    settings: RunSettings, *, n_clients: int, dim: int, settled: Settled = NOTHING
) -> Compressor:
    """Return the algorithm of the next round.

    Args:
        settings: All settings; the algorithm's own table is used.
        n_clients: Clients in a round.
        dim: Entries in an update.
        settled: What earlier rounds have settled.

    Raises:
        FediacError: The algorithm cannot have its settings.
    """
    name = settings.algorithm
    if is_own(name):
        return make_own(name, n_clients=n_clients, dim=dim)
    if is_tuned_by_server(settings) and not settled.numbers:
        return FedAvg(n_clients)
    values = {**asdict(settings.of(name)), **settled.numbers}
    if settled.hot is not None:
        values["hot"] = settled.hot
    with _called_like_settings(name):
        compressor: Compressor = find(name)(n_clients, **values)
        check_dim(compressor, dim)
    return compressor


def make_named(
    name: str, overrides: Sequence[str], *, n_clients: int, dim: int
) -> Compressor:
    """Return an algorithm with its default settings but for some.

    Args:
        name: In the catalog, or ``module:name`` of the user's own.
        overrides: ``key=value`` each, as in its table; a user's own has none.
        n_clients: Clients in a round.
        dim: Entries in an update.

    Raises:
        FediacError: There is no such algorithm, or it cannot have these settings.
    """
    if is_own(name):
        if overrides:
            raise ConfigError(
                "--set is for algorithms of 'fediac list'; your own has its settings "
                f"in its file, got {overrides[0]}"
            )
        return make_own(name, n_clients=n_clients, dim=dim)
    algorithm = find(name)
    given = fill_table(name, apply_overrides({}, overrides), source="--set")
    kind = table_type(algorithm)
    table = parse_settings(kind, given, source="--set", name=name)
    compressor: Compressor = algorithm(n_clients, **asdict(table))
    return compressor


def check_algorithm(
    settings: RunSettings, *, n_clients: int, dim: int, switch: Switch
) -> None:
    """Refuse an algorithm that a run cannot have, before anything is trained.

    Args:
        settings: The run's.
        n_clients: Clients in a round.
        dim: Entries in an update.
        switch: Adds up.

    Raises:
        FediacError, ValueError: Its settings do not fit each other, the model, the
            clients or the switch.
    """
    first = make_compressor(settings, n_clients=n_clients, dim=dim)
    _check_tuning(settings, first)
    if is_tuned_by_server(settings):  # what it will set is not known, but the rest is
        later = Settled({"threshold": 1, "bits": "bound"})
        make_compressor(settings, n_clients=n_clients, dim=dim, settled=later)
    if settings.clients.weights == "examples":
        first = Weighted(first)
    number, register_bytes = settings.clients.n_clients, switch.register_bytes
    layout = Layout(number, switch.payload_bytes, register_bytes)
    with _called_like_settings(settings.algorithm):
        require_capacity(first, layout)
    if settings.network.memory == "bounded":
        _require_windows(first, register_bytes, number)


def require_no_server(settings: RunSettings, *, n_clients: int, dim: int) -> None:
    """Refuse what sends to a far server, which a switch elsewhere has none of.

    Raises:
        ConfigError: The algorithm does.
    """
    name = settings.algorithm
    compressor = make_compressor(settings, n_clients=n_clients, dim=dim)
    if not sends_to_server(compressor, dim):
        return
    what = "tuning = 'server'" if is_tuned_by_server(settings) else name
    raise ConfigError(
        f"--switch: {what} sends floats to a far server, and a switch adds integers "
        f"alone; take one of {', '.join(served_by_switch())}, or run without --switch"
    )


def _check_tuning(settings: RunSettings, compressor: Compressor) -> None:
    """Refuse FediAC without a width where nobody may choose one."""
    if settings.tuning != "none" or settings.algorithm != "fediac":
        return
    if isinstance(compressor, FediAC) and compressor.known_bits is None:
        raise ConfigError(
            "fediac.bits must be a number or 'coarse' when tuning is 'none', "
            f"got {compressor.bits!r}; give one, or let tuning be 'local'"
        )


def _require_windows(
    compressor: Compressor, register_bytes: int, n_clients: int
) -> None:
    """Refuse registers with no slot for a window of packets, if that is timed."""
    memory = bounded_memory(register_bytes, n_clients, tally_threshold(compressor))
    for asked in asks_of(compressor):
        if isinstance(asked, AsksIndexedSum):  # has registers, not slots
            continue
        widths = asked.known_widths if isinstance(asked, AsksSum) else None
        memory.window_of(asked.kind, widths)


@contextmanager
def _called_like_settings(algorithm: str) -> Iterator[None]:
    """Call arguments of an algorithm what its table calls them: fediac.n_votes."""
    try:
        yield
    except ArgumentError as error:
        if is_own(algorithm):
            raise
        names = {each.name for each in setting_fields(find(algorithm))}
        if error.argument not in names:
            raise
        called = error.called(f"{algorithm}.{error.argument}")
        raise ConfigError(str(called)) from error
