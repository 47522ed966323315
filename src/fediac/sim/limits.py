"""Refuse rounds that are too long for the clock, before any packet is sent."""

from collections.abc import Iterable, Sequence

from fediac.errors import ArgumentError, say_count
from fediac.sim.clock import MAX_PS, PS_PER_S
from fediac.sim.draws import UNIT
from fediac.sim.network import Network
from fediac.sim.packet_groups import Step, TimedExchange
from fediac.sim.service import Service

LIMIT_PS = MAX_PS // 4
"""The longest that each part of a round may take, so that all fit the clock."""


def check_duration(plan: Sequence[Step], network: Network) -> None:
    """Check that no part of a round would take longer than a week.

    Twice the mean and a hundred more stand for the sum of n times: n exponentials
    exceed 2n + 100 times their mean with a probability below e**-100.

    Raises:
        ValueError: One would; the message says which.
    """
    for client, uplink in enumerate(network.uplinks):
        n_sent = sum(step.n_packets(client) for step in plan if client in step.clients)
        rates = uplink.rates
        n_laps = _doubled(n_sent) * UNIT // int(rates.totals[-1]) + 1
        time_ps = n_laps * rates.n_seconds * PS_PER_S
        packets = say_count(n_sent, "packet")
        task = f"let client {client} send {packets}"
        _check("rates", task, time_ps, f"{rates.mean:g} packets/s")
    exchanges = [each for step in plan for each in step.exchanges]
    n_down = sum(each.n_answers for each in exchanges)
    _check_service(network.switch, "switch", _n_packets(exchanges))
    far = [each for each in exchanges if each.is_far]
    _check_service(network.server.service, "server", _n_packets(far))
    _check_service(network.downlink.service, "downlink", n_down)
    rate = network.download_rate
    time_ps = round(_doubled(n_down) * PS_PER_S / rate)
    # Unless they have a rate of their own, downlinks follow from the uplinks.
    name = "rates" if network.downlink.rate is None else "downlink"
    task = f"let a client receive {say_count(n_down, 'packet')}"
    _check(name, task, time_ps, f"{rate:g} packets/s")


def _n_packets(exchanges: Iterable[TimedExchange]) -> int:
    flows = (flow for each in exchanges for flow in each.flows.values())
    return sum(flow.n_packets for flow in flows)


def _check_service(service: Service, name: str, n_packets: int) -> None:
    if n_packets:
        time_ps = _doubled(n_packets) * round(service.mean_s * PS_PER_S)
        task = f"serve {say_count(n_packets, 'packet')}"
        _check(name, task, time_ps, f"{service.mean_s:g} s each")


def _doubled(n_packets: int) -> int:
    return 2 * n_packets + 100


def _check(name: str, task: str, time_ps: int, speed: str) -> None:
    if time_ps > LIMIT_PS:
        days = LIMIT_PS // PS_PER_S // 86400
        raise ArgumentError(name, f"must {task} within {days} days, got {speed}")
