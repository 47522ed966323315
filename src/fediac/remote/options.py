"""What commands say about a switch elsewhere -> the switch."""

import os

from fediac.errors import ArgumentError, ConfigError
from fediac.network.key_file import VARIABLE, parse_key
from fediac.remote.switch import RemoteSwitch


def remote_switch(address: str | None, *, wait_s: float) -> RemoteSwitch | None:
    """Return the switch at an address; None: none was named.

    Its key is in the environment, where no list of processes shows it.

    Raises:
        FediacError: The address or the key is none.
    """
    if address is None:
        return None
    written = os.environ.get(VARIABLE)
    key = parse_key(written, VARIABLE) if written else None
    try:
        return RemoteSwitch(address, key=key, wait_s=wait_s)
    except ArgumentError as error:
        raise ConfigError(str(error.called("--switch"))) from None
