"""What a switch says of itself: as a line, as JSON, as a page's numbers."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fediac.number_words import digits, mib
from fediac.switch.control import ControlPlane
from fediac.switch.counters import REASONS
from fediac.wire.status import Report

_S = 1_000_000
"""Microseconds in a second."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class JobReading:
    """A job that has a session.

    Attributes:
        job: Its number, in words: no page's numbers have 64 bits.
        session: The session's, as dissectors show it.
        n_members: Its members.
        n_joined: Those that have joined.
        packets_in: Packets of members that reached its registers.
        slots_done: Slots of its registers that were completed.
        used_bytes: Register bytes that hold something.
    """

    job: str
    session: str
    n_members: int
    n_joined: int
    packets_in: int
    slots_done: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A switch's counters at one time.

    Attributes:
        uptime_s: How long it has been running.
        packets_in: Datagrams that arrived.
        packets_out: Datagrams that were sent.
        packets_per_s: Datagrams that arrived in a second, since the last reading.
        unsent: Datagrams that the machine refused to send.
        n_jobs: Jobs with a session.
        max_jobs: Jobs that it takes.
        n_members: Members that have joined.
        register_bytes: Memory for all jobs.
        used_bytes: Register bytes that hold something.
        drops: Reason -> packets dropped, for the reasons that occurred.
        jobs: Those with a session; unknown where another machine is asked.
        overrun: Datagrams that came while the receive buffer was full, likewise.
    """

    uptime_s: float
    packets_in: int
    packets_out: int
    packets_per_s: float
    unsent: int
    n_jobs: int
    max_jobs: int
    n_members: int
    register_bytes: int
    used_bytes: int
    drops: Mapping[str, int]
    jobs: tuple[JobReading, ...] = ()
    overrun: int = 0

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)

    def line(self) -> str:
        """Return it as one line."""
        parts = [
            f"{self.packets_per_s:,.0f} packets/s",
            f"{self.n_jobs} of {self.max_jobs} jobs",
            f"{digits(self.used_bytes / _MIB)} of {mib(self.register_bytes / _MIB)} of "
            "registers",
        ]
        if self.unsent:
            parts.append(f"{self.unsent:,} not sent")
        if self.overrun:
            parts.append(f"{self.overrun:,} found the receive buffer full")
        return ", ".join([*parts, say_drops(self.drops)])


def say_drops(drops: Mapping[str, int]) -> str:
    """Return how many packets were dropped, and why."""
    reasons = [f"{reason} {count:,}" for reason, count in sorted(drops.items())]
    return f"dropped: {', '.join(reasons) or 'none'}"


def read_plane(plane: ControlPlane, now_us: int, last: Reading | None) -> Reading:
    """Return the counters of a switch, and its rate since the last reading."""
    traffic = plane.traffic
    uptime_s = (now_us - traffic.started_us) / _S
    n_before, before_s = (last.packets_in, last.uptime_s) if last else (0, 0.0)
    passed_s = uptime_s - before_s
    jobs = tuple(_read_jobs(plane))
    return Reading(
        uptime_s=uptime_s,
        packets_in=traffic.packets_in,
        packets_out=traffic.packets_out,
        packets_per_s=(traffic.packets_in - n_before) / passed_s if passed_s else 0.0,
        unsent=traffic.unsent,
        n_jobs=len(jobs),
        max_jobs=plane.limits.max_jobs,
        n_members=sum(each.n_joined for each in jobs),
        register_bytes=plane.limits.register_bytes,
        used_bytes=sum(each.used_bytes for each in jobs),
        drops=dict(+plane.all_drops),
        jobs=jobs,
        overrun=traffic.overrun,
    )


def _read_jobs(plane: ControlPlane) -> list[JobReading]:
    readings = []
    for session in plane.sessions:
        counters = session.switch.counters
        readings.append(
            JobReading(
                job=str(session.asked.job),
                session=f"{session.asked.session:#018x}",
                n_members=session.n_members,
                n_joined=len(session.members),
                packets_in=counters.packets_in,
                slots_done=counters.aggregations,
                used_bytes=session.switch.used_bytes,
            )
        )
    return readings


def read_report(report: Report) -> Reading:
    """Return what a switch reported; its rate is that since it began."""
    uptime_s = report.uptime_ms / 1000
    drops = dict(zip(REASONS, report.drops, strict=True))
    return Reading(
        uptime_s=uptime_s,
        packets_in=report.packets_in,
        packets_out=report.packets_out,
        packets_per_s=report.packets_in / uptime_s if uptime_s else 0.0,
        unsent=report.unsent,
        n_jobs=report.n_jobs,
        max_jobs=report.max_jobs,
        n_members=report.n_members,
        register_bytes=report.register_bytes,
        used_bytes=report.used_bytes,
        drops={reason: count for reason, count in drops.items() if count},
    )
