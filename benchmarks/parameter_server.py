"""A parameter server in NumPy, over TCP: FediAC's exchanges without a switch.

python -m benchmarks.parameter_server HOST N_CLIENTS
"""

import os
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from benchmarks.round_client import receive_message, send_message

from fediac.core.bitpack import pack_lanes, unpack_lanes


def answer(asked: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return what all clients are told."""
    first = asked[0]
    if first["kind"] == "sum":
        totals = np.zeros(first["n_levels"], np.int64)
        for each in asked:
            lanes = np.frombuffer(each["lanes"], np.uint8)
            totals += unpack_lanes(lanes, first["n_levels"], first["bits_up"])
        packed = pack_lanes(totals, first["bits_down"])
        return {"lanes": np.asarray(packed).tobytes(), "n_clients": len(asked)}
    peak = max(each["peak"] for each in asked)
    if first["kind"] == "max":
        return {"peak": peak}
    counts = np.zeros(first["dim"], np.uint16)
    for each in asked:
        votes = np.frombuffer(each["votes"], np.uint8)
        counts += np.unpackbits(votes, count=first["dim"], bitorder="little")
    gia = np.packbits(counts >= first["threshold"], bitorder="little")
    bits = max(each["bits"] for each in asked)
    return {"gia": gia.tobytes(), "peak": peak, "bits": bits}


def main() -> None:
    host, n_clients = sys.argv[1], int(sys.argv[2])
    with (
        socket.create_server((host, 0)) as server,
        ThreadPoolExecutor(n_clients) as pool,
    ):
        os.write(1, f"{server.getsockname()[1]}\n".encode())
        clients = [server.accept()[0] for _ in range(n_clients)]
        for each in clients:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            told = answer(list(pool.map(receive_message, clients)))
            list(pool.map(partial(send_message, message=told), clients))


if __name__ == "__main__":
    main()
