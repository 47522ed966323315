"""Who may use the switch: the keys of jobs, and cookies that prove an address."""

import hmac
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fediac.wire.tag import opening_key, session_key, siphash

Address = bytes
"""Where a datagram came from, or goes: as its socket writes it, opaque here."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys of jobs; without any, tags tell damage but not who sent a packet.

    Attributes:
        default: For all jobs without a key of their own; None: these need none.
        of_jobs: Job -> its own key.
    """

    default: bytes | None = field(default=None, repr=False)
    of_jobs: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def session_key(self, job: int, session: int) -> bytes:
        """Return the key of the tags in one session of a job."""
        return session_key(self.of_jobs.get(job, self.default), session)

    def opening_key(self, job: int, session: int) -> bytes:
        """Return the key that a session of a job is opened and closed with."""
        return opening_key(self.of_jobs.get(job, self.default), session)

    def every_session_key(self, session: int) -> Iterator[bytes]:
        """Yield the keys that a session's tags may have, whatever its job is."""
        for key in {self.default, *self.of_jobs.values()}:
            yield session_key(key, session)

    def status_keys(self, number: int) -> Iterator[bytes]:
        """Yield the keys of those who may ask how the switch does.

        Args:
            number: The question's, in the place of a session.
        """
        keys: set[bytes | None] = {self.default, *self.of_jobs.values()} - {None}
        yield from (session_key(key, number) for key in keys or [None])


def cookie_of(secret: bytes, address: Address, session: int, client: int) -> int:
    """Return what only who receives at ``address`` can say, never 0.

    Nothing is kept for it: the switch makes it again to compare.
    """
    asked = session.to_bytes(8, "big") + client.to_bytes(2, "big") + address
    return siphash(secret, asked) or 1


def is_cookie_right(given: int, proof: int) -> bool:
    """Return whether a cookie is what it must be; how long that takes tells nothing."""
    return hmac.compare_digest(given.to_bytes(8, "big"), proof.to_bytes(8, "big"))
