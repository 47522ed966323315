"""Every error of this package that is not a plain ``ValueError``."""


class FediacError(Exception):
    """Base of all errors defined by this package."""


class ConfigError(FediacError):
    """A setting is unknown, missing or out of range."""


class UpdateError(FediacError, ValueError):
    """An update cannot be aggregated: not finite, wrong length or wrong dtype."""


class LocalProtocolError(FediacError):
    """Our own caller asked for what the protocol does not allow."""


class RemoteProtocolError(FediacError):
    """A peer's packet breaks the protocol; sockets drop it and count the reason."""
