"""What a switch says, in words for people."""

from fediac.errors import say_count
from fediac.wire.control import Abort, Ending, Refusal
from fediac.wire.header import Kind, Reason
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


def say_ending(abort: Abort) -> str:
    """Return how the switch ended a session."""
    if abort.ending == Ending.SILENT:
        who = ", ".join(map(str, abort.missing))
        noun = "member" if len(abort.missing) == 1 else "members"
        return f"{noun} {who} silent for too long"
    return _ENDINGS[abort.ending]


def say_refusal(refusal: Refusal) -> str:
    """Return why the switch refused something, with both values."""
    text = _REASONS.get(refusal.reason, f"refused for reason {refusal.reason}")
    return text.format(held=refusal.held, given=refusal.given)


def say_held(error: Packet) -> str:
    """Return what the switch holds where a packet contradicted its exchange."""
    where = f"exchange {error.exchange}, packet {error.packet}"
    if error.part == Reason.ITEMS:
        held = say_count(error.n_items, "item")
        if error.aux:
            held = say_count(error.aux, "address", "addresses")
        return f"{where}: the others have {held}; are all members' settings the same?"
    names = {int(kind): kind.name.lower().replace("_", " ") for kind in Kind}
    kind = names.get(error.n_items, f"kind {error.n_items}")
    if error.n_items == Kind.TALLY:
        kind = f"{kind} with threshold {error.aux}"
    elif error.n_items == Kind.SUM:
        kind = f"{kind} of {error.aux >> 8} bits up and {error.aux & 255} down"
    return f"{where}: the others have a {kind}; are all members' settings the same?"
