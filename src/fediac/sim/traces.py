"""Where rates come from: Mahimahi files, per-second rates, and the traces shipped here.

A Mahimahi file has one line for each packet of 1,500 bytes that could be sent: the time
in milliseconds. A csv file has one line for each second: packets a second, or Mbit/s
under the header ``mbit_s``.
"""

import gzip
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path

import numpy as np

from fediac.errors import TraceError
from fediac.sim.rates import PAPER_RATES, Rates, Uplink, trace_uplinks

PACKET_BITS = 8 * 1500
HEADERS = {"packets_s": 1.0, "mbit_s": 1e6 / PACKET_BITS}
"""Header of a csv column -> packets per unit of that column."""

MAX_TRACE_S = 10_000_000
"""The longest Mahimahi file, four months; a longer one is taken for another format."""


def load_trace(path: Path) -> Rates:
    """Return the rates in a file: per second if its name ends in .csv, else Mahimahi.

    Raises:
        TraceError: The file cannot be read or is no trace; the message says where.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text file"
        raise TraceError(f"{path}: {reason.lower()}") from error
    lines = text.splitlines()
    if not any(line.strip() for line in lines):
        raise TraceError(f"{path}: file is empty")
    parse = parse_rates if path.suffix.lower() == ".csv" else parse_mahimahi
    try:
        return parse(lines)
    except ValueError as error:
        raise TraceError(f"{path}: {error}") from error


def parse_rates(lines: Sequence[str]) -> Rates:
    """Return the rates in lines of a csv file with one column."""
    header = lines[0].strip().lower()
    factor = HEADERS.get(header)
    start = 0 if factor is None else 1
    rates = [
        _parse_rate(line, number)
        for number, line in enumerate(lines[start:], start=start + 1)
        if line.strip()
    ]
    return Rates(np.array(rates) * (1.0 if factor is None else factor))


def parse_mahimahi(lines: Sequence[str]) -> Rates:
    """Return the packets in each second of a Mahimahi file.

    It starts again after its last time. What is behind the last whole second counts
    with that second, so that the mean rate stays; a file below a second has one rate.
    """
    times: list[int] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        time = _parse_time(line, number)
        if times and time < times[-1]:
            raise ValueError(
                f"line {number}: times must not decrease, got {time} after {times[-1]}"
            )
        times.append(time)
    n_whole, rest_ms = divmod(times[-1], 1000)
    if n_whole > MAX_TRACE_S:
        raise ValueError(
            f"times must be below {MAX_TRACE_S} s, got {times[-1]} ms at the end"
        )
    if not times[-1]:
        raise ValueError("times must end above 0 ms, where the trace starts again")
    counts = np.bincount(np.array(times) // 1000, minlength=n_whole + 1).astype(float)
    last = max(0, n_whole - 1)
    lasts_ms = rest_ms + (1000 if n_whole else 0)
    counts[last] = counts[last:].sum() * 1000 / lasts_ms
    return Rates(counts[: last + 1])


@lru_cache(maxsize=1)
def shipped_traces() -> dict[str, Rates]:
    """Return the traces that come with the package, by name.

    They are recordings of NYU-METS on subway trains and buses in New York City, see
    data/ATTRIBUTION.md: open data under the ODbL 1.0.
    """
    file = resources.files("fediac.sim") / "data" / "nyumets.csv.gz"
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()[1:]
    rates: dict[str, list[float]] = {}
    for line in lines:
        name, mbit = line.split(",")
        rates.setdefault(name, []).append(float(mbit))
    return {
        name: Rates(np.array(values) * HEADERS["mbit_s"])
        for name, values in rates.items()
    }


def paper_uplinks(n_clients: int, *, seed: int) -> tuple[Uplink, ...]:
    """Return uplinks on the shipped traces, clipped to the paper's rates (Sec. V-A).

    The paper names traces of 200 to 2,800 packets a second that are not published.
    """
    traces = [rates.clipped(*PAPER_RATES) for rates in shipped_traces().values()]
    return trace_uplinks(n_clients, traces, seed=seed)


def _parse_rate(line: str, number: int) -> float:
    try:
        rate = float(line)
    except ValueError:
        names = " or ".join(HEADERS)
        raise ValueError(
            f"line {number}: rate must be a number (a header {names}), "
            f"got {line.strip()!r}"
        ) from None
    if not 0.0 <= rate < np.inf:
        raise ValueError(
            f"line {number}: rate must be finite and at least 0, got {line.strip()}"
        )
    return rate


def _parse_time(line: str, number: int) -> int:
    written = line.strip()
    if not (written.isascii() and written.isdecimal()):
        raise ValueError(
            f"line {number}: time must be whole milliseconds, got {written!r}"
        )
    return int(written)
