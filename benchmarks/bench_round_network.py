"""A round of ResNet-18 over real links of 100 Mbit/s, from update to mean.

    sudo .venv/bin/python -m benchmarks.bench_round_network

Eight client processes, each in a network namespace whose link a token bucket holds to
the rate, up and down; the switch, or the server, has no limit of its own. Compression,
opening the session and joining it are included. Each line is the median of rounds after
two that are thrown away, and of the last client to have the mean.

* fediac, switch: through `fediac switch`, over UDP.
* fediac, server: the same exchanges over TCP, to a parameter server in NumPy.
* all-reduce: the whole update in float32, by gloo (torch.distributed).

Without root there are no such links: it says so and does nothing.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.links import HUB, INTERFACE, Links, limited_links, why_not

import fediac

N_WARM_UPS = 2


@dataclass
class Line:
    """What a line of the table says."""

    seconds: float
    mib: float
    n_resent: int


class Clients:
    """The processes, which are told lines and answer with lines."""

    def __init__(self, processes: Sequence["subprocess.Popen[str]"]) -> None:
        self.processes = processes
        self.hear()

    def tell(self, told: dict[str, Any]) -> None:
        for each in self.processes:
            assert each.stdin is not None
            each.stdin.write(json.dumps(told) + "\n")
            each.stdin.flush()

    def hear(self) -> list[dict[str, Any]]:
        said = []
        for each in self.processes:
            assert each.stdout is not None
            line = each.stdout.readline()
            if not line:
                raise SystemExit(f"a client has ended: exit code {each.wait()}")
            said.append(json.loads(line))
        return said


@contextmanager
def process(command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    """Start a process; in the end it is no more."""
    started = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def first_line(started: "subprocess.Popen[str]") -> str:
    assert started.stdout is not None
    return started.stdout.readline()


def measure(clients: Clients, told: dict[str, Any], n_rounds: int) -> list[Line]:
    """Return how rounds went, without the first ones."""
    lines = []
    for number in range(1, n_rounds + N_WARM_UPS + 1):
        start = time.perf_counter()
        clients.tell(told | {"round": number})
        said = clients.hear()
        seconds = time.perf_counter() - start
        lines.append(_line(seconds, said))
    return lines[N_WARM_UPS:]


def measure_switch(
    clients: Clients, elsewhere: "SwitchInHub", settings: str, n_rounds: int
) -> list[Line]:
    """Return how rounds through the switch went; each opens a session of its own."""
    lines = []
    for number in range(1, n_rounds + N_WARM_UPS + 1):
        start = time.perf_counter()
        session = elsewhere.open(len(clients.processes))
        clients.tell(
            {
                "by": "switch",
                "settings": settings,
                "round": number,
                "port": elsewhere.port,
                "session": session,
            }
        )
        said = clients.hear()
        lines.append(_line(time.perf_counter() - start, said))
    return lines[N_WARM_UPS:]


def _line(seconds: float, said: Sequence[dict[str, Any]]) -> Line:
    if len({each["sum"] for each in said}) != 1:
        raise SystemExit("clients have different means")
    return Line(
        seconds,
        sum(each["bytes"] for each in said) / len(said) / 2**20,
        sum(each["resent"] for each in said),
    )


class SwitchInHub:
    """A switch in the hub's namespace, and what opens sessions there."""

    def __init__(self, links: Links, stack: ExitStack) -> None:
        command = [sys.executable, "-m", "fediac", "switch", "--insecure", "--json"]
        listen = ["--listen", f"{HUB}:0"]
        started = stack.enter_context(
            process(links.inside(links.hub, [*command, *listen]))
        )
        said = json.loads(first_line(started))
        found = re.search(r":(\d+)$", said["address"])
        assert found
        self.port = int(found[1])
        opener = [
            sys.executable,
            "-m",
            "benchmarks.session_opener",
            f"{HUB}:{found[1]}",
        ]
        self.opener = stack.enter_context(process(links.inside(links.hub, opener)))

    def open(self, n_clients: int) -> int:
        """Return the number of a session that is open."""
        assert self.opener.stdin is not None
        self.opener.stdin.write(f"{n_clients}\n")
        self.opener.stdin.flush()
        return int(first_line(self.opener))


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_round_network")
    parser.add_argument("--clients", type=int, default=8, help="how many")
    parser.add_argument("--rate", default="100mbit", help="of each link")
    parser.add_argument("--rounds", type=int, default=5, help="that are measured")
    given = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"rounds over links of {given.rate}: not measured, {reason}")
        return
    with ExitStack() as stack:
        links = stack.enter_context(limited_links(given.clients, given.rate))
        found = run_all(links, stack, given.clients, given.rounds)
    show(found, given.clients, given.rate)


def run_all(
    links: Links, stack: ExitStack, n_clients: int, n_rounds: int
) -> dict[str, list[Line]]:
    """Return what was measured, by the name of its line."""
    switch = SwitchInHub(links, stack)
    module = "benchmarks.round_client"
    clients = Clients(
        [
            stack.enter_context(
                process(
                    links.inside(
                        name,
                        [
                            *("env", f"GLOO_SOCKET_IFNAME={INTERFACE}"),
                            *(sys.executable, "-m", module),
                            *(str(i), str(n_clients), HUB),
                        ],
                    )
                )
            )
            for i, name in enumerate(links.clients)
        ]
    )
    found: dict[str, list[Line]] = {}
    for settings in ("shared votes", "paper"):
        found[f"fediac {settings}, switch"] = measure_switch(
            clients, switch, settings, n_rounds
        )
        server = [sys.executable, "-m", "benchmarks.parameter_server"]
        with process(
            links.inside(links.hub, [*server, HUB, str(n_clients)])
        ) as started:
            port = int(first_line(started))
            told = {"by": "server", "settings": settings, "port": port}
            found[f"fediac {settings}, server"] = measure(clients, told, n_rounds)
    store = f"tcp://{Links.address(0)}:29500"
    clients.tell({"by": "gloo", "store": store})
    clients.hear()
    found["all-reduce"] = measure(clients, {"by": "gloo"}, n_rounds)
    return found


def show(found: dict[str, list[Line]], n_clients: int, rate: str) -> None:
    """Print a table."""
    print(
        f"ResNet-18, {n_clients} clients, links of {rate}; fediac {fediac.__version__}"
    )
    print(f"{'':24}{'s/round':>9}{'all-reduce':>12}{'MiB/client':>12}{'resent':>8}")
    dense = statistics.median(each.seconds for each in found["all-reduce"])
    for name, lines in found.items():
        seconds = statistics.median(each.seconds for each in lines)
        n_resent = sum(each.n_resent for each in lines)
        ratio = f"/ {dense / seconds:.1f}"
        print(f"{name:24}{seconds:9.3f}{ratio:>12}{lines[-1].mib:12.2f}{n_resent:8}")


if __name__ == "__main__":
    main()
