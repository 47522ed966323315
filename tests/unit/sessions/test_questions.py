"""Where a question is asked, as it stands in packets."""

from fediac.sessions.questions import Place
from fediac.switch.registers import Layout
from fediac.wire.header import Flag, Kind

LAYOUT = Layout(3, 64, 4096)


def test_packets_say_where_they_are_from() -> None:
    place = Place(100, 2, 5, LAYOUT, is_observer=False)
    packet = place.packet(Kind.TALLY, threshold=2, aux=9)
    assert (packet.session, packet.client, packet.exchange) == (100, 2, 5)
    assert (packet.kind, packet.threshold, packet.aux) == (Kind.TALLY, 2, 9)
    assert packet.flags == Flag(0)


def test_an_observer_s_packet_keeps_other_flags() -> None:
    place = Place(100, 2, 5, LAYOUT, is_observer=True)
    packet = place.packet(Kind.BLOCK_SUM, flags=int(Flag.ANNOUNCE))
    assert packet.flags == Flag.OBSERVE | Flag.ANNOUNCE
