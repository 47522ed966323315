"""A deployment behind TLS: SuperNodes know the server by its certificate.

Votes and levels go over a switch with a key, which the ServerApp alone has; clients are
told the keys of sessions over Flower's connections.
"""

import datetime
import ipaddress
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from examples.flower import run_local

from tests.flower.test_daemons import rows
from tests.switches import KEY, running_switch

N_NODES = 2


def make_certificate(
    folder: Path, name: str, issuer: tuple[Any, Any] | None = None
) -> tuple[Any, Any]:
    """Write NAME.crt and NAME.key, signed by an issuer or by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    signed_by, by = (subject, key) if issuer is None else (issuer[0].subject, issuer[1])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(issuer is None, None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(by, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / f"{name}.crt").write_bytes(made.public_bytes(pem))
    (folder / f"{name}.key").write_bytes(
        key.private_bytes(
            pem,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return made, key


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def start_superlink(stack: ExitStack, out: Path) -> int:
    """Start a SuperLink behind TLS; return its port once it answers there."""
    port = run_local.free_port()
    command = [str(run_local.BIN / "flower-superlink")]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--ssl-ca-certfile", str(out / "ca.crt")]
    command += ["--ssl-certfile", str(out / "server.crt")]
    command += ["--ssl-keyfile", str(out / "server.key")]
    process = stack.enter_context(run_local.daemon("superlink", command, out))
    known = ssl.create_default_context(cafile=str(out / "ca.crt"))
    until_s = time.monotonic() + run_local.START_S
    while True:
        assert process.poll() is None
        assert time.monotonic() < until_s
        try:
            with urlopen(f"https://127.0.0.1:{port}/health", timeout=5, context=known):
                break
        except (URLError, OSError):
            time.sleep(0.1)
    (out / "flwr").mkdir(exist_ok=True)
    config = f'[superlink.local]\naddress = "127.0.0.1:{port}"\n'
    config += f'root-certificates = "{out / "ca.crt"}"\n'
    (out / "flwr" / "config.toml").write_text(config)
    return port


def supernode(number: int, port: int, out: Path, authority: str) -> list[str]:
    command = run_local.supernode(number, port, out)
    command.remove("--insecure")
    return [*command, "--root-certificates", str(out / f"{authority}.crt")]


def test_rounds_over_tls_with_a_key_that_clients_do_not_have(
    stack: ExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = make_certificate(tmp_path, "ca")
    make_certificate(tmp_path, "server", authority)
    make_certificate(tmp_path, "other")
    key_file = tmp_path / "switch.key"
    key_file.write_text(KEY.hex())
    key_file.chmod(0o600)
    switch = stack.enter_context(running_switch("--key-file", str(key_file)))
    with monkeypatch.context() as patch:
        patch.setenv("FEDIAC_KEY", KEY.hex())  # of the ServerApp, which it starts
        port = start_superlink(stack, tmp_path)
    nodes = [supernode(i, port, tmp_path, "ca") for i in range(N_NODES)]
    nodes.append(supernode(N_NODES, port, tmp_path, "other"))
    for number, command in enumerate(nodes):
        stack.enter_context(run_local.daemon(f"node{number}", command, tmp_path))
    config = {
        "num-server-rounds": 2,
        "min-nodes": N_NODES,
        "page": str(tmp_path / "page.html"),
        "fediac.switch": str(switch.endpoint),
        "fediac.key_over": "tls",
    }
    done = subprocess.run(
        run_local.flwr_run(tmp_path, config),
        cwd=tmp_path,
        env=run_local.environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # That is so even if the run failed.
    assert (tmp_path / "page.html").exists(), done.stdout + done.stderr
    rounds = rows(tmp_path / "page.html")
    assert [each[2] for each in rounds] == [str(N_NODES)] * 2, done.stdout
    assert "yes" in [each[-1] for each in rounds], done.stdout  # over the switch
    # Who does not know the server's certificate takes no part.
    assert not list(tmp_path.glob(f"node{N_NODES}/*/holdings"))
    assert "certificate" in (tmp_path / f"node{N_NODES}.log").read_text().lower()
    kept = [each.read_bytes() for each in tmp_path.glob("node*/*/*")]
    assert kept
    assert not any(KEY in each or KEY.hex().encode() in each for each in kept)
