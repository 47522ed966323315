"""Every error of this package that is not a plain ``ValueError``."""


class FediacError(Exception):
    """Base of all errors defined by this package."""


class ConfigError(FediacError):
    """A setting is unknown, missing or out of range."""


class DatasetError(FediacError):
    """A data file is missing, cut short, damaged or not what it should hold."""


class RunError(FediacError):
    """A run's folder is missing, or a file in it is cut short or damaged."""


class UpdateError(FediacError, ValueError):
    """An update cannot be aggregated: not finite, wrong length or wrong dtype."""


class LocalProtocolError(FediacError):
    """Our own caller asked for what the protocol does not allow."""


class RemoteProtocolError(FediacError):
    """A peer's packet breaks the protocol; sockets drop it and count the reason."""


class TraceError(FediacError, ValueError):
    """A trace of rates cannot be used: damaged, decreasing, negative or silent."""
