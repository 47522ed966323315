"""Network namespaces, one a client, whose links are held to a rate: needs root.

A bridge in a namespace of its own joins them. Each client's link is a veth with a token
bucket on both of its ends, so that what it sends and what it gets take their time.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

_NETWORK = "10.77.0"
HUB = f"{_NETWORK}.1"
"""Where the switch, or the server, is: at the bridge, with no limit of its own."""

INTERFACE = "link0"
"""What a client's end is called."""


@dataclass(frozen=True)
class Links:
    """Namespaces by name."""

    hub: str
    clients: tuple[str, ...]

    @staticmethod
    def address(client: int) -> str:
        """Return a client's address."""
        return f"{_NETWORK}.{10 + client}"

    @staticmethod
    def inside(namespace: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one in a namespace."""
        return ["ip", "netns", "exec", namespace, *command]


def why_not() -> str:
    """Return why there can be no such links here; empty: there can."""
    if os.name != "posix" or os.geteuid() != 0:
        return "needs root, for network namespaces"
    missing = [each for each in ("ip", "tc") if shutil.which(each) is None]
    if missing:
        return f"needs {' and '.join(missing)} (iproute2)"
    made = subprocess.run(
        ["unshare", "--net", "true"], capture_output=True, text=True, check=False
    )
    return "" if made.returncode == 0 else "this machine allows no network namespaces"


def _do(line: str) -> None:
    done = subprocess.run(line.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{line}: {done.stderr.strip()}")


@contextmanager
def limited_links(n_clients: int, rate: str) -> Iterator[Links]:
    """Make the namespaces, and remove them in the end.

    Args:
        n_clients: How many.
        rate: As ``tc`` writes it: 100mbit.
    """
    own = os.getpid()
    hub = f"fediac-hub-{own}"
    names = tuple(f"fediac-{i}-{own}" for i in range(n_clients))
    with ExitStack() as stack:
        for name in (hub, *names):
            _do(f"ip netns add {name}")
            stack.callback(_do, f"ip netns del {name}")
            _do(f"ip -n {name} link set lo up")
        _do(f"ip -n {hub} link add bridge type bridge")
        _do(f"ip -n {hub} addr add {HUB}/24 dev bridge")
        _do(f"ip -n {hub} link set bridge up")
        for i, name in enumerate(names):
            _do(
                f"ip -n {hub} link add port{i} type veth peer name {INTERFACE} "
                f"netns {name}"
            )
            _do(f"ip -n {hub} link set port{i} master bridge up")
            _do(f"ip -n {name} addr add {Links.address(i)}/24 dev {INTERFACE}")
            _do(f"ip -n {name} link set {INTERFACE} up")
            for where, device in ((hub, f"port{i}"), (name, INTERFACE)):
                _do(
                    f"tc -n {where} qdisc add dev {device} root tbf rate {rate} "
                    "burst 32kb latency 50ms"
                )
        yield Links(hub, names)
