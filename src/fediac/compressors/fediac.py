"""FediAC: vote on which entries matter, then add small integers for exactly those.

Su, Zhou, Cui and Guo, "Expediting In-Network Federated Learning by Voting-Based
Consensus Model Compression", arXiv 2402.03815, Sec. IV-A and Algorithm 1.

Deviations, all of which keep the paper's mathematics:

* Votes are independent coins with the paper's probability q_l instead of k draws;
  ``law="draws"`` makes the draws.
* The peak m travels in the vote packets and the switch keeps the maximum, so that no
  server is needed to agree on the scale.
* So is the width b in the first round: each client's power-law fit, with the agreed
  peak, says which it needs (eq. 6), and the switch keeps the maximum of these, too.
* All gia entries are sent, zeros too: without indices, packets must stay aligned.
* Levels are clamped to what N clients can add in b bits; exact arithmetic never needs
  it, and what it cuts stays in the residual.

Not in the paper, and off by default: neighbouring entries that share a vote
(``entries_per_vote``, see `fediac.core.groups`), a width that grows
(``bits="adaptive"``), residuals that fade (``fade``), peaks that are clipped
(``clip``), and lanes that are narrow on their way up (``lanes``).
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from fediac.compressors.protocol import (
    Facts,
    Outcome,
    Round,
    State,
    ask,
    begin,
    check_common,
    check_count,
    check_whole,
    left_energy,
    unsent,
)
from fediac.core.bitpack import MAX_LANE_BITS, count_bits
from fediac.core.bounds import Setting, smallest_bits
from fediac.core.clipping import check_clip, clipped_peak
from fediac.core.corrected import Corrected
from fediac.core.exchange import (
    Consensus,
    Exchange,
    Max,
    Peak,
    Sum,
    Tally,
    Totals,
)
from fediac.core.groups import (
    check_length,
    count_groups,
    draw_group_votes,
    spread_groups,
)
from fediac.core.mean import LaneMean, Mean
from fediac.core.powerlaw import fit_power_law
from fediac.core.quantize import (
    MIN_PEAK,
    Sent,
    check_lanes,
    float32_above,
    send_chosen,
)
from fediac.core.residual import fade_residual, take_back
from fediac.core.rng import Stream
from fediac.core.tuning import best_bits
from fediac.core.types import Update
from fediac.core.voting import LAWS, Law
from fediac.core.widths import Lanes, check_rule, make_grid, next_width

BitsRule = Literal["tuned", "bound", "adaptive"]
BITS_RULES: tuple[BitsRule, ...] = get_args(BitsRule)

_SPARE_BITS = 6
"""Beyond what N clients need, where no law can be fitted: 32 levels up and down."""


@dataclass(frozen=True, slots=True)
class FediAC:
    """Consensus compression in two phases.

    Attributes:
        n_votes: k, entries a client votes for.
        threshold: a, votes an entry needs.
        bits: b, width of a lane. ``"bound"``: each client fits its first update and
            asks for the smallest width above the paper's bound (eq. 6, with the peak
            of all clients, and as `fediac.core.bounds` predicts votes of this law and
            length); ``"tuned"``: for the one with the fewest predicted bytes per
            progress, which is wider. The widest wish of the first round wins and stays;
            who joins later takes it. ``"adaptive"`` begins at the bound, and a client
            asks for a bit more whenever the entries it sent were left with as much as
            they had; clients with far smaller updates than the others ask for much.
        law: How clients vote; see `fediac.core.voting`.
        residual: Keep what is not sent for the next round.
        entries_per_vote: Neighbouring entries that share a vote; the paper's is 1. A
            client then votes for n_votes / entries_per_vote groups.
        fade: Share of the residual that a client forgets in every round that it takes
            part in; the paper's is 0. What others never vote for is then not kept for
            good.
        clip: A client offers as its peak at most ``clip`` times the root mean square of
            its n_votes largest magnitudes; None, the paper's: its peak. Levels beyond
            are clamped, and what that cuts stays in the residual. The paper's bound on
            the width (eq. 6) knows nothing of clamping.
        lanes: How wide lanes are, see `fediac.core.widths`; the paper's are ``"same"``,
            b bits up and down. ``"dense"`` gives the same sums for fewer bits up.
    """

    n_clients: int
    n_votes: int
    threshold: int
    bits: int | BitsRule = "bound"
    law: Law = "bernoulli"
    residual: bool = True
    entries_per_vote: int = 1
    fade: float = 0.0
    clip: float | None = None
    lanes: Lanes = "same"

    def __post_init__(self) -> None:
        check_common(self, residual=self.residual, fade=self.fade)
        check_clip(self.clip)
        check_rule(self.lanes)
        check_count("n_votes", self.n_votes)
        check_whole("threshold", self.threshold)
        if not 1 <= self.threshold <= self.n_clients:
            raise ValueError(
                f"threshold must be in 1..{self.n_clients} (n_clients), "
                f"got {self.threshold}"
            )
        if not isinstance(self.law, str) or self.law not in LAWS:
            raise ValueError(f"law must be one of {', '.join(LAWS)}, got {self.law!r}")
        if isinstance(self.bits, int) and not isinstance(self.bits, bool):
            check_lanes(bits=self.bits, n_clients=self.n_clients)
        elif not isinstance(self.bits, str) or self.bits not in BITS_RULES:
            rules = ", ".join(repr(rule) for rule in BITS_RULES)
            raise ValueError(f"bits must be a number or {rules}, got {self.bits!r}")
        check_length("entries_per_vote", self.entries_per_vote)

    def run_round(
        self, update: Update, state: State, stream: Stream, *, out: Update | None = None
    ) -> Round:
        """Yield a tally and a sum; return the mean update, next state and facts."""
        check_count("n_votes", self.n_votes, update)
        corrected = begin(update, state, stream, keeps_residual=self.residual, out=out)
        kept = corrected.values if self.residual else None
        votes = draw_group_votes(
            corrected,
            self.n_votes,
            stream.purpose("votes"),
            law=self.law,
            length=self.entries_per_vote,
        )
        n_votes = count_bits(votes)
        consensus: Consensus = yield from ask(
            Tally(
                votes,
                dim=count_groups(update.shape[0], self.entries_per_vote),
                threshold=self.threshold,
                peak=float32_above(self._offered_peak(corrected)),
                bits=self._known_bits(state),
            )
        )
        peak = consensus.peak
        if peak < MIN_PEAK or not count_bits(consensus.gia):
            after = State(fade_residual(kept, self.fade), consensus.bits or None)
            return unsent(
                corrected, after, n_votes=n_votes, bits=consensus.bits, peak=peak
            )
        bits = consensus.bits or (yield from self._agree_bits(corrected, peak))
        gia = spread_groups(consensus.gia, update.shape[0], self.entries_per_vote)
        grid = make_grid(
            peak=peak, bits=bits, n_clients=self.n_clients, lanes=self.lanes
        )
        sent = send_chosen(
            corrected.values,
            gia,
            grid,
            stream.purpose("rounding"),
            out=kept,
        )
        totals: Totals = yield from ask(
            Sum(sent.lanes, sent.n_levels, grid.bits_up, grid.bits_down, grid.limit)
        )
        missed = totals.contributors.missed(stream.client, sent.n_levels)
        counted = take_back(sent, missed, corrected.values, gia, grid, out=kept)
        facts = Facts(
            n_votes=n_votes,
            n_chosen=counted.n_levels,
            bits=grid.bits_down,
            peak=peak,
            scale=grid.scale,
            energy=corrected.energy,
            left_energy=left_energy(
                corrected, chosen=sent.chosen_energy, left=counted.left_energy
            ),
            n_clamped=sent.n_clamped,
        )
        mean = Mean((LaneMean(totals, grid.scale, gia),))
        after = State(fade_residual(kept, self.fade), self._next_bits(bits, sent))
        return Outcome(mean, after, facts)

    def _offered_peak(self, corrected: Corrected) -> float:
        if self.clip is None:
            return corrected.peak
        return clipped_peak(corrected, self.n_votes, self.clip)

    def _known_bits(self, state: State) -> int:
        """Return the width that this client knows; 0 if it is still to be agreed on."""
        if isinstance(self.bits, int):
            return self.bits
        if state.bits is None:
            return 0
        # It may have been agreed on by fewer clients than there are now.
        return max(state.bits, self._least_bits)

    def _agree_bits(
        self, corrected: Corrected, peak: float
    ) -> Generator[tuple[Exchange, ...], Any, int]:
        """Ask for the widest of all clients' wishes, which takes the peak of all."""
        wished = self._fitted_bits(corrected, peak)
        widest: Peak = yield from ask(Max(float(wished), phase="width"))
        return int(widest.peak)

    @property
    def _least_bits(self) -> int:
        """The narrowest lane that holds a level of each client."""
        return self.n_clients.bit_length() + 1

    def _next_bits(self, bits: int, sent: Sent) -> int:
        """Return the width to ask for in the next round.

        The paper's condition on the width is γ < 1. Its bound promises that for clients
        that rank entries alike; where they do not, the error shows that it was too low.
        No width helps a client that has nothing where the others agree.
        """
        if self.bits != "adaptive" or not 0.0 < sent.chosen_energy <= sent.left_energy:
            return bits
        return next_width(bits=bits, n_clients=self.n_clients, lanes=self.lanes)

    def _fitted_bits(self, corrected: Corrected, peak: float) -> int:
        """Return the width for the power law that this client's update follows.

        Args:
            corrected: The update.
            peak: The largest magnitude of all clients.
        """
        if corrected.peak < MIN_PEAK:  # others decide
            return self._least_bits
        try:
            fit = fit_power_law(corrected.values, peak=peak)
        except ValueError:  # one entry that is not zero follows no law
            return min(self.n_clients.bit_length() + _SPARE_BITS, MAX_LANE_BITS)
        setting = Setting(
            dim=corrected.values.shape[0],
            n_clients=self.n_clients,
            n_votes=self.n_votes,
            threshold=self.threshold,
            alpha=fit.alpha,
            is_drawn=self.law != "topk",
            entries_per_vote=self.entries_per_vote,
        )
        choose = best_bits if self.bits == "tuned" else smallest_bits
        try:
            bits = choose(setting, phi=fit.phi, peak=peak)
        except ValueError:  # no lane is wide enough
            return MAX_LANE_BITS
        return min(bits, MAX_LANE_BITS)
