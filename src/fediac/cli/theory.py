"""theory and tune: what the paper's formulas say."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from fediac.cli.app import AsJson, app
from fediac.cli.options import (
    count_option,
    counts_option,
    named_options,
    number_option,
    path_argument,
    share_option,
)
from fediac.core.shares import parse_share


@app.command("theory")
@named_options(
    *("dim", "n_clients", "threshold", "alpha", "phi", "peak", "bits"),
    n_votes="n-votes",
)
def _theory(  # noqa: PLR0913 - one parameter for each option
    *,
    dim: Annotated[
        int,
        count_option(
            "Entries in an update: 11173962, 11_173_962 or 1e9.",
            at_least=1,
            metavar="COUNT",
        ),
    ],
    clients: Annotated[int, count_option("Clients in a round (N).", at_least=1)],
    n_votes: Annotated[
        str, share_option("Votes of one client (k): a count, or a share such as 5%.")
    ],
    threshold: Annotated[
        str,
        share_option(
            "Votes an entry needs to be sent (a): a count, or a share of the clients."
        ),
    ],
    alpha: Annotated[float, number_option("Decay of magnitudes over ranks, below 0.")],
    phi: Annotated[
        float, number_option("Magnitude at rank 1, by the power law.")
    ] = 1.0,
    peak: Annotated[
        float | None,
        number_option("Largest magnitude that occurs.  [default: phi]"),
    ] = None,
    bits: Annotated[
        int | None,
        count_option(
            "Width of the switch's sums (b).  [default: the smallest above min_bits]"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict what a round sends and loses, by the paper's formulas.

    The l-th largest magnitude of an update is assumed to be phi * l^alpha. 'fediac
    tune' fits alpha and phi to real updates. Shares are rounded up.

    \b
    expected_chosen  entries that reach the threshold, on average
    min_bits         bits must exceed this (not a whole number) for gamma below 1
    bits             the width used: as given, or the smallest above min_bits
    gamma            squared error of a round's compression, relative to the
                     update; training converges when it is below 1
    payload          what all clients send and receive per round, without
                     headers; 1 MiB is 2^20 bytes
    register fills   how many times over a switch with 1 MB (10^6 bytes) would fill
                     its registers if every entry were sent as 4 bytes

    \b
    Examples:
      fediac theory --dim 11173962 --clients 20 --n-votes 5% --threshold 3 \\
          --alpha -0.5
      fediac theory --dim 1e9 --clients 50 --n-votes 1% --threshold 10% \\
          --alpha -0.37 --phi 0.32 --peak 0.15 --bits 12 --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.core.bounds import Setting
    from fediac.plan.theory import predict, show_theory

    setting = Setting(
        dim=dim,
        n_clients=clients,
        n_votes=parse_share(n_votes, of=dim, name="n_votes"),
        threshold=parse_share(threshold, of=clients, name="threshold"),
        alpha=alpha,
    )
    show_theory(predict(setting, phi=phi, peak=peak, bits=bits), as_json=as_json)


@app.command("tune")
@named_options("n_clients", threshold="thresholds", n_votes="n-votes")
def _tune(
    *,
    updates: Annotated[
        list[Path],
        path_argument(
            "UPDATES",
            "a file or a folder",
            "The folder of a run that kept its updates; or .npy or .npz files with "
            "float32 or float64 arrays of shape (dim,) or (n_updates, dim); or .pt "
            "files with such tensors, or with state_dicts, an update each.",
        ),
    ],
    clients: Annotated[
        int | None,
        count_option(
            "Clients in a round.  [default: those of the run, or one per update, or "
            "20 for one update]",
            at_least=1,
        ),
    ] = None,
    n_votes: Annotated[
        str,
        share_option(
            "Votes of one client: a count, a share of the entries, or auto: 5%, but at "
            "least 1,024.",
            words=["auto"],
        ),
    ] = "auto",
    thresholds: Annotated[
        Sequence[int] | None,
        counts_option(
            "Thresholds to try: 1-4, or 1,2,4.  [default: up to a quarter of the "
            "clients]"
        ),
    ] = None,
    top: Annotated[int, count_option("How many candidates to list.", at_least=1)] = 10,
    as_json: AsJson = False,
) -> None:
    """Recommend a threshold and a width for updates like yours.

    An update is what a client's training changed: old parameters minus new ones. Those
    of the first round are a good choice: a run keeps them with --set save.updates=1,
    an Experiment with save_updates=1. A power law phi * rank^alpha is fitted to each.
    Then every threshold is tried with the smallest usable width and the next four, and
    the theory's predictions are ranked by cost.

    \b
    threshold     votes an entry needs to be sent
    bits          width of the switch's sums
    entries sent  share of all entries that reach the threshold
    a round       what all clients send and receive in a round, without
                  headers; 1 MiB is 2^20 bytes
    gamma         squared error of the compression, relative to the update;
                  training converges below 1, and less is better
    cost          bytes per round / (1 - gamma): bytes for as much progress as
                  one round without error makes

    \b
    Examples:
      fediac tune runs/mine
      fediac tune updates.npy
      fediac tune client-*.npy --n-votes 1% --thresholds 1-4
      fediac tune one.npy --clients 50 --top 3 --json
    """  # noqa: D301 - \b asks typer to keep the lines that follow
    from fediac.plan.tune import show_tuning, tune

    tuning = tune(updates, n_clients=clients, n_votes=n_votes, thresholds=thresholds)
    show_tuning(tuning, n_shown=top, as_json=as_json)
