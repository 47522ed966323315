"""What a process of the self-test is: ``python -m fediac.selftest.child PARENT ROLE``.

It dies with its parent, even where that is killed.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PR_SET_PDEATHSIG = 1


def say(event: str, **facts: Any) -> None:  # noqa: ANN401 - any fact
    """Tell the parent something, as a line of JSON."""
    sys.stdout.write(json.dumps({"event": event, **facts}, allow_nan=False) + "\n")
    sys.stdout.flush()


def die_with(parent: int) -> None:
    """See to it that this process ends when its parent does."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it is gone already
        sys.exit(1)


def _run_switch(words: Sequence[str]) -> None:
    from fediac.network.settings import make_settings
    from fediac.network.switch_command import run_switch

    listen, memory, max_jobs = words
    options = {"listen": listen, "memory": int(memory), "max_jobs": int(max_jobs)}
    run_switch(make_settings({}, options), as_json=True)


def _run_relay(words: Sequence[str]) -> None:
    from fediac.network.addresses import Endpoint
    from fediac.selftest.relay import Relay
    from fediac.selftest.weather import Faults, Weather

    target, seed, *shares = words
    allow_files(limit := 65_536)
    max_peers = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64
    faults = Faults(Weather(*map(float, shares)), int(seed))
    relay = Relay(
        Endpoint.parse(target, name="target"), faults, max_peers=min(max_peers, limit)
    )
    signal.set_wakeup_fd(relay.waker.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, lambda *_: None)
    say("listening", address=str(relay.endpoint))
    relay.run()
    say("stopped", **faults.counts)
    relay.close()


def _run_watched(words: Sequence[str]) -> None:
    from pathlib import Path

    from fediac.selftest.watched_switch import run_watched

    address, register_bytes, key_file = words
    run_watched(address, int(register_bytes), Path(key_file), say)


def _run_conductor(words: Sequence[str]) -> None:
    from fediac.selftest.roles import Job, conduct

    switch, listen, n_rounds, *job = words
    conduct(Job.read(job), switch, listen, int(n_rounds), say)


def _run_client(words: Sequence[str]) -> None:
    from fediac.selftest.roles import Job, take_part

    client, conductor, *job = words
    take_part(Job.read(job), int(client), conductor, say)


def allow_files(wanted: int) -> None:
    """Let this process open so many files, or as many as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


_ROLES: Mapping[str, Callable[[Sequence[str]], None]] = {
    "switch": _run_switch,
    "relay": _run_relay,
    "watched": _run_watched,
    "conductor": _run_conductor,
    "client": _run_client,
}


def main(words: Sequence[str]) -> None:
    """Be what the parent wants."""
    parent, role, *others = words
    die_with(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ROLES[role](others)


if __name__ == "__main__":
    main(sys.argv[1:])
