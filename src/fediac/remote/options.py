"""What commands say about a switch elsewhere -> the switch."""

import os

from fediac.errors import ArgumentError, ConfigError
from fediac.network.key_file import VARIABLE, parse_key
from fediac.remote.client_processes import ClientProcesses
from fediac.remote.switch import WAIT_S, RemoteSwitch


def remote_switch(
    address: str | None, *, wait_s: float | None = None, processes: bool = False
) -> RemoteSwitch | None:
    """Return the switch at an address; None: none was named.

    Its key is in the environment, where no list of processes shows it.

    Args:
        address: ``HOST:PORT``.
        wait_s: How long to wait for a switch that does not answer; None: `WAIT_S`.
        processes: Give every client a process of its own.

    Raises:
        FediacError: The address or the key is none, or what is said about a switch is
            said without one.
    """
    if address is None:
        if processes:
            raise ConfigError("--processes needs --switch HOST:PORT, got none")
        if wait_s is not None:
            raise ConfigError(f"--wait {wait_s:g} needs --switch HOST:PORT, got none")
        return None
    written = os.environ.get(VARIABLE)
    key = parse_key(written, VARIABLE) if written else None
    try:
        kind = ClientProcesses if processes else RemoteSwitch
        return kind(address, key=key, wait_s=WAIT_S if wait_s is None else wait_s)
    except ArgumentError as error:
        raise ConfigError(str(error.called("--switch"))) from None
