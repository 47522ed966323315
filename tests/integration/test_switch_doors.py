"""`SwitchClient` and `Coordinator`: rounds of clients that run by themselves."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import fediac
from fediac.compressors.protocol import Compressor, Outcome, Round
from fediac.core.ledger import Ledger
from fediac.core.rng import Stream
from fediac.errors import RunError, SessionError
from fediac.remote.coordinator import OpenSession
from tests.support import bytes_of, normal_update
from tests.switches import KEY, RunningSwitch, running_switch

N, DIM, SEED = 3, 3000, 7

ALGORITHMS: dict[str, Compressor] = {
    "fediac": fediac.FediAC(N, n_votes="10%", threshold=2),
    "switchml": fediac.SwitchML(N, bits=12),
    "omnireduce": fediac.OmniReduce(N, n_sent="5%", block=16),
}


@pytest.fixture(scope="module")
def switch() -> Iterator[RunningSwitch]:
    with running_switch() as running:
        yield running


def round_of(compressor: Compressor, client: int, *, number: int = 1) -> Round:
    update = normal_update(DIM, seed=client)
    return compressor.run_round(update, fediac.State(), Stream(SEED, number, client))


def take_part(
    address: str, session: int, client: int, compressor: Compressor, key: bytes | None
) -> tuple[Outcome, Ledger]:
    with fediac.SwitchClient(address, session=session, client=client, key=key) as door:
        return door.run(round_of(compressor, client), round_number=1)


def observe(session: OpenSession, compressor: Compressor) -> Outcome:
    zeros = np.zeros(DIM, dtype=np.float32)
    return session.run(
        compressor.run_round(zeros, fediac.State(), Stream(SEED, 1, 0xFFFF))
    )


def run_round(
    coordinator: fediac.Coordinator,
    address: str,
    compressor: Compressor,
) -> tuple[int, Outcome, list[tuple[Outcome, Ledger]]]:
    """Run one round and commit it: its session, what was observed, what clients got."""
    with coordinator.open(N, round_number=1) as session, ThreadPoolExecutor(N) as pool:
        clients = [
            pool.submit(take_part, address, session.number, i, compressor, session.key)
            for i in range(N)
        ]
        observed = observe(session, compressor)
        session.commit()
        return session.number, observed, [each.result() for each in clients]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_clients_and_observer_get_what_the_round_gives_in_memory(
    switch: RunningSwitch, name: str
) -> None:
    compressor, address = ALGORITHMS[name], str(switch.endpoint)
    updates = [normal_update(DIM, seed=i) for i in range(N)]
    expected = fediac.aggregate(updates, compressor, seed=SEED, round_number=1)
    with fediac.Coordinator(address, job=1) as coordinator:
        _, observed, clients = run_round(coordinator, address, compressor)
    like = updates[0]
    assert observed.mean.dense(like).tobytes() == expected.mean.tobytes()
    n_bytes = 0
    for (outcome, ledger), state in zip(clients, expected.states, strict=True):
        assert outcome.mean.dense(like).tobytes() == expected.mean.tobytes()
        assert bytes_of(outcome.state.residual) == bytes_of(state.residual)
        n_bytes += ledger.traffic().n_bytes
    assert n_bytes == expected.ledger.traffic().n_bytes


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_a_job_with_a_key_is_served_over_ipv4_and_ipv6(
    host: str, tmp_path: Path
) -> None:
    path = tmp_path / "switch.key"
    path.write_text(KEY.hex())
    path.chmod(0o600)
    compressor = ALGORITHMS["fediac"]
    with running_switch("--key-file", str(path), listen=f"{host}:0") as running:
        address = str(running.endpoint)
        with fediac.Coordinator(address, job=1, key=KEY) as coordinator:
            _, observed, clients = run_round(coordinator, address, compressor)
        like = normal_update(DIM)
        for outcome, _ in clients:
            mean = outcome.mean.dense(like)
            assert mean.tobytes() == observed.mean.dense(like).tobytes()


def test_a_journal_knows_after_a_restart_which_sessions_count(
    switch: RunningSwitch, tmp_path: Path
) -> None:
    compressor, address = ALGORITHMS["fediac"], str(switch.endpoint)
    journal = tmp_path / "job.journal"
    with fediac.Coordinator(address, job=2, journal=journal) as coordinator:
        committed, _, _ = run_round(coordinator, address, compressor)
        with coordinator.open(N, round_number=2) as session:
            left = session.number
        with pytest.raises(RunError, match="another process is writing to it"):
            fediac.Coordinator(address, job=2, journal=journal)
    with fediac.Coordinator(address, job=2, journal=journal) as coordinator:
        assert coordinator.is_committed(committed)
        assert not coordinator.is_committed(left)
        assert coordinator.n_rounds == 1
        with coordinator.open(N) as session:
            assert session.number > left


def test_a_round_whose_client_never_comes_names_it(switch: RunningSwitch) -> None:
    compressor, address = ALGORITHMS["fediac"], str(switch.endpoint)
    with (
        fediac.Coordinator(address, job=3, silence_s=0.3) as coordinator,
        coordinator.open([4, 5, 9]) as session,
        ThreadPoolExecutor(2) as pool,
    ):
        clients = [
            pool.submit(take_part, address, session.number, i, compressor, None)
            for i in (0, 1)
        ]
        with pytest.raises(
            SessionError, match=r"client 9 silent for longer than 0\.3 s"
        ) as why:
            observe(session, compressor)
        assert why.value.missing == (9,)
        for each in clients:
            with pytest.raises(
                SessionError, match=r"member 2 silent for longer than 0\.3 s"
            ):
                each.result()
