"""A whole deployment on this machine: SuperLink, four SuperNodes, a switch, a run.

One SuperNode is killed on the way and comes back later: the run goes on without it, and
it goes on with its residual. A page about the run is left in the end.

    python run_local.py --out out

Everything listens on the loopback alone, on ports that are free; whatever was started
is stopped by its process id.
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from urllib.error import URLError
from urllib.request import urlopen

APP = Path(__file__).parent
BIN = Path(sys.executable).parent
N_NODES = 4
START_S = 60.0
AWAY_S = 10.0
"""How long the node that is killed stays away."""


def free_port() -> int:
    """Return a TCP port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def environment(out: Path) -> dict[str, str]:
    """Return the environment of all processes: Flower keeps its files in ``out``."""
    return os.environ | {
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "FLWR_HOME": str(out / "flwr"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
    }


@contextmanager
def daemon(
    name: str, command: list[str], out: Path
) -> Iterator["subprocess.Popen[str]"]:
    """Run a process, which writes to ``out``; end it and its children in the end."""
    with (out / f"{name}.log").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=out,
            env=environment(out),
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        end(process)


def end(process: "subprocess.Popen[str]", how: int = signal.SIGTERM) -> None:
    """End a process that was started here, and its children: its own group."""
    for number in (how, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break
    process.wait(10)


def wait_for_health(port: int, process: "subprocess.Popen[str]") -> None:
    """Return once a SuperLink answers."""
    until_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until_s:
        try:
            with urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.1)  # there is nothing else that says so
    raise SystemExit("the SuperLink did not start; see superlink.log")


def start_superlink(stack: ExitStack, out: Path, *extra: str) -> int:
    """Start a SuperLink; return its port, for SuperNodes and for commands."""
    port = free_port()
    command = [str(BIN / "flower-superlink"), "--insecure", "--host", "127.0.0.1"]
    command += ["--port", str(port), *extra]
    process = stack.enter_context(daemon("superlink", command, out))
    wait_for_health(port, process)
    (out / "flwr").mkdir(exist_ok=True)
    config = f'[superlink.local]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    (out / "flwr" / "config.toml").write_text(config)
    return port


def start_switch(stack: ExitStack, out: Path) -> str:
    """Start a switch; return its address once it answers."""
    address = f"127.0.0.1:{free_port()}"
    fediac = str(BIN / "fediac")
    command = [fediac, "switch", "--listen", address]
    stack.enter_context(daemon("switch", command, out))
    asked = [fediac, "switch", "status", address]
    until_s = time.monotonic() + START_S
    while subprocess.run(asked, capture_output=True, timeout=START_S).returncode:
        if time.monotonic() > until_s:
            raise SystemExit("the switch did not start; see switch.log")
    return address


def supernode(number: int, port: int, out: Path) -> list[str]:
    """Return the command of a SuperNode; its residual is in a folder of its own."""
    config = (
        f"partition-id={number} num-partitions={N_NODES} "
        f'fediac-folder="{out / f"node{number}"}"'
    )
    return [
        str(BIN / "flower-supernode"),
        "--insecure",
        "--superlink",
        f"127.0.0.1:{port}",
        "--port",
        str(free_port()),
        "--node-config",
        config,
    ]


def flwr_run(out: Path, config: Mapping[str, object], *extra: str) -> list[str]:
    """Return the command that runs the app and shows its log."""
    shown = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
    app = out / "app"
    shutil.copytree(APP / "fediacexample", app / "fediacexample", dirs_exist_ok=True)
    shutil.copy(APP / "pyproject.toml", app)
    command = [str(BIN / "flwr"), "run", str(app), "local", "--stream"]
    return [*command, "--run-config", shown, *extra]


def run(out: Path, n_rounds: int) -> int:
    """Start everything, run the app, kill and revive a node; return the exit code.

    The node is killed once it has trained, which its folder shows at once: the run's
    log is fetched every few seconds, and tells of a round when others are over.
    """
    page = out / "report.html"
    page.unlink(missing_ok=True)  # flwr run exits with 0 even if the run failed
    with ExitStack() as stack:
        port = start_superlink(stack, out)
        address = start_switch(stack, out)
        nodes = [
            stack.enter_context(daemon(f"node{i}", supernode(i, port, out), out))
            for i in range(N_NODES)
        ]
        config = {
            "num-server-rounds": n_rounds,
            "min-nodes": N_NODES - 1,
            "fediac.enough": N_NODES - 1,
            "fediac.grace_s": 5.0,
            "page": str(page),
            "fediac.switch": address,
            "fediac.folder": str(out / "server"),
        }
        app = stack.enter_context(following(flwr_run(out, config), out))
        is_over = Event()

        def kill_and_revive() -> None:
            while not list(out.glob("node3/*/holdings")):
                if is_over.wait(0.05):
                    return
            print(f"run_local: kill SuperNode 3 ({nodes[3].pid})", flush=True)
            end(nodes[3], signal.SIGKILL)
            if not is_over.wait(AWAY_S):
                print("run_local: SuperNode 3 comes back", flush=True)
                stack.enter_context(daemon("node3", supernode(3, port, out), out))

        trouble = Thread(target=kill_and_revive)
        trouble.start()
        try:
            for line in app.stdout or ():
                print(line, end="", flush=True)
            code = app.wait(30)
        finally:
            is_over.set()
            trouble.join()
    print(f"run_local: the page is {page}" if page.exists() else "run_local: no page")
    return code if page.exists() else 1


@contextmanager
def following(command: list[str], out: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a command whose output is read while it runs."""
    with subprocess.Popen(
        command,
        cwd=out,
        env=environment(out),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            end(process)


def main() -> int:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    return run(out, given.rounds)


if __name__ == "__main__":
    sys.exit(main())
