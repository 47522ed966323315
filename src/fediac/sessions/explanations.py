"""What a switch says, in words for people."""

from collections.abc import Sequence

from fediac.errors import say_count
from fediac.wire.control import Abort, Ending, Refusal
from fediac.wire.header import VERSION, Kind, Reason
from fediac.wire.packet import Packet

_ENDINGS = {
    Ending.LEASE: "its coordinator was silent for too long",
    Ending.REPLACED: "its coordinator has opened a newer one",
    Ending.CLOSED: "it was closed",
}

_REASONS = {
    Reason.UNKNOWN_SESSION: "the switch knows no such session; it has been restarted",
    Reason.VERSION: "the switch speaks version {held} of the protocol, not {given}",
    Reason.KEY: "the switch has another key for this job",
    Reason.JOBS: "the switch takes {held} jobs at a time, and this would be number "
    "{given}",
    Reason.MEMORY: "a job has {held} register bytes on this switch, and the session "
    "takes at least {given}",
    Reason.MEMBERS: "the switch takes sessions of 1 to {held} members, not of {given}",
    Reason.PAYLOAD: "packets have {held} bytes of payload there, not {given}",
    Reason.EPOCH: "the coordinator has been started again since: epoch {held} is "
    "newer than {given}",
    Reason.SESSION: "the job has had session {held}, and {given} is not newer",
    Reason.MEMBER: "no such member: of {held} clients and their observers, {given} is "
    "none in this role",
}


def say_ending(abort: Abort, silence_ms: int) -> str:
    """Return how the switch ended a session.

    Args:
        abort: What it said.
        silence_ms: Whoever is silent for longer is missed.
    """
    if abort.ending == Ending.SILENT:
        return say_silent("member", abort.missing, silence_ms)
    return _ENDINGS[abort.ending]


def say_ending_before(abort: Abort, client: int) -> str:
    """Return how the switch ended a session that a member has not joined.

    How long a member may be silent is in the welcome, which it never had.

    Args:
        abort: What the switch said.
        client: The member's number.
    """
    if abort.ending != Ending.SILENT:
        return _ENDINGS[abort.ending]
    parts = [f"member {client} never joined"] if client in abort.missing else []
    others = [each for each in abort.missing if each != client]
    if others:
        parts.append(f"{_say_members('member', others)} silent for too long")
    return "; ".join(parts)


def say_silent(noun: str, numbers: Sequence[int], silence_ms: int) -> str:
    """Return who was silent for too long, and for how long that is."""
    who = _say_members(noun, numbers)
    return f"{who} silent for longer than {silence_ms / 1000:g} s"


def _say_members(noun: str, numbers: Sequence[int]) -> str:
    nouns = noun if len(numbers) == 1 else f"{noun}s"
    return f"{nouns} {', '.join(map(str, numbers))}"


def say_version(version: int) -> str:
    """Return that a switch speaks another version of the protocol than we do."""
    return _REASONS[Reason.VERSION].format(held=version, given=VERSION)


def say_refusal(refusal: Refusal) -> str:
    """Return why the switch refused something, with both values."""
    text = _REASONS.get(refusal.reason, f"refused for reason {refusal.reason}")
    return text.format(held=refusal.held, given=refusal.given)


def say_held(error: Packet, own: Packet | None) -> str:
    """Return what the switch holds where a packet contradicted its exchange.

    Args:
        error: What it said.
        own: The packet that did; None: it is not known any more.
    """
    if error.part == Reason.ITEMS and error.aux:
        held, ours = say_count(error.aux, "address", "addresses"), ""
    elif error.part == Reason.ITEMS:
        held = say_count(error.n_items, "item")
        ours = "" if own is None else f", this one {own.n_items}"
    else:
        held = f"a {_say_settings(error.n_items, error.aux)}"
        ours = "" if own is None else f", this one a {_say_settings(*_settings(own))}"
    where = f"exchange {error.exchange}, packet {error.packet}"
    return f"{where}: the others have {held}{ours}; are all members' settings the same?"


def _settings(packet: Packet) -> tuple[int, int]:
    """Return a packet's kind and settings, as errors have them."""
    if packet.kind == Kind.SUM:
        return packet.kind, packet.bits_up << 8 | packet.bits
    return packet.kind, packet.threshold


def _say_settings(number: int, settings: int) -> str:
    """Return a kind of exchange and its settings in words."""
    names = {int(kind): kind.name.lower().replace("_", " ") for kind in Kind}
    kind = names.get(number, f"kind {number}")
    if number == Kind.TALLY:
        return f"{kind} with threshold {settings}"
    if number == Kind.SUM:
        return f"{kind} of {settings >> 8} bits up and {settings & 255} down"
    return kind
