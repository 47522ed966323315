import socket

import pytest

from fediac.network.addresses import (
    ADDRESS_BYTES,
    Endpoint,
    SocketAddress,
    is_loopback,
    pack_address,
    unpack_address,
)
from tests.support import refuses


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:4900", "127.0.0.1", 4900),
        ("[::1]:0", "::1", 0),
        (" localhost:65535 ", "localhost", 65535),
    ],
)
def test_an_endpoint_is_read_and_written(text: str, host: str, port: int) -> None:
    endpoint = Endpoint.parse(text, name="listen")
    assert endpoint == Endpoint(host, port)
    assert str(endpoint) == text.strip()


@pytest.mark.parametrize(
    "text", ["", "127.0.0.1", ":4900", "::1:4900", "host:", "host:65536", "host:1e3"]
)
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with refuses(
        f"listen must be HOST:PORT, such as 127.0.0.1:4900 or [::1]:4900, got {text!r}"
    ):
        Endpoint.parse(text, name="listen")


def test_a_port_alone_has_the_default_host() -> None:
    endpoint = Endpoint.parse(":9100", name="http", default_host="127.0.0.1")
    assert endpoint == Endpoint("127.0.0.1", 9100)


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, ("192.0.2.7", 4900)),
        (socket.AF_INET6, ("2001:db8::7", 4900, 0, 0)),
        (socket.AF_INET6, ("fe80::1", 4900, 0, 3)),
    ],
)
def test_an_address_survives_its_bytes(
    family: socket.AddressFamily, address: SocketAddress
) -> None:
    packed = pack_address(address)
    assert len(packed) == ADDRESS_BYTES
    assert unpack_address(packed, family) == address


def test_the_name_of_an_interface_is_left_out() -> None:
    with_name = pack_address(("fe80::1%eth0", 4900, 0, 3))
    assert with_name == pack_address(("fe80::1", 4900, 0, 3))


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_what_only_this_machine_reaches(
    host: str, *, expected: bool
) -> None:
    assert is_loopback((host, 1)) == expected


@pytest.mark.parametrize("text", [":x", "x", "127.0.0.1:99999"])
def test_where_a_port_will_do_it_is_said(text: str) -> None:
    with refuses(
        "http must be PORT or HOST:PORT, such as 127.0.0.1:4900 or [::1]:4900, "
        f"got {text!r}"
    ):
        Endpoint.parse(text, name="http", default_host="127.0.0.1")
