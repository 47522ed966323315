"""FediAC: vote on which entries matter, then add small integers for exactly those.

Su, Zhou, Cui and Guo, "Expediting In-Network Federated Learning by Voting-Based
Consensus Model Compression", arXiv 2402.03815, Sec. IV-A and Algorithm 1.

Deviations, all of which keep the paper's mathematics:

* Votes are independent coins with the paper's probability q_l instead of k draws;
  ``law="draws"`` makes the draws.
* The peak m travels in the vote packets and the switch keeps the maximum, so that no
  server is needed to agree on the scale.
* So does the width b in the first round, from each client's own power-law fit.
* All gia entries are sent, zeros too: without indices, packets must stay aligned.
* Levels are clamped to what N clients can add in b bits; exact arithmetic never needs
  it, and what it cuts stays in the residual.

Not in the paper, and off by default: neighbouring entries that share a vote
(``entries_per_vote``, see `fediac.core.groups`), a width that grows
(``bits="adaptive"``), and residuals that fade (``fade``).
"""

from dataclasses import dataclass
from typing import Literal, get_args

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
from fediac.core.corrected import Corrected
from fediac.core.exchange import Consensus, Sum, Tally, Totals
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
    Grid,
    check_lanes,
    float32_above,
    send_chosen,
)
from fediac.core.residual import fade_residual, take_back
from fediac.core.rng import Stream
from fediac.core.tuning import best_bits, least_bits
from fediac.core.types import Update
from fediac.core.voting import LAWS, Law

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
            asks for the smallest width above the paper's bound; ``"tuned"``: for the
            one with the fewest predicted bytes per progress, which is wider. The widest
            wish wins and stays. ``"adaptive"`` begins at the bound, and a client asks
            for a bit more whenever it sent levels and was left with as much as it had;
            clients with far smaller updates than the others ask for much.
        law: How clients vote; see `fediac.core.voting`.
        residual: Keep what is not sent for the next round.
        entries_per_vote: Neighbouring entries that share a vote; the paper's is 1. A
            client then votes for n_votes / entries_per_vote groups.
        fade: Share of the residual that a client forgets in every round that it takes
            part in; the paper's is 0. What others never vote for is then not kept for
            good.
    """

    n_clients: int
    n_votes: int
    threshold: int
    bits: int | BitsRule = "bound"
    law: Law = "bernoulli"
    residual: bool = True
    entries_per_vote: int = 1
    fade: float = 0.0

    def __post_init__(self) -> None:
        check_common(self, residual=self.residual, fade=self.fade)
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
        if self.bits == "tuned" and self.entries_per_vote > 1:
            raise ValueError(
                "bits must be a number, 'bound' or 'adaptive' where entries share a "
                f"vote (entries_per_vote is {self.entries_per_vote}), got 'tuned': it "
                "counts a vote an entry"
            )

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
                peak=float32_above(corrected.peak),
                bits=self._wished_bits(corrected, state),
            )
        )
        bits, peak = consensus.bits, consensus.peak
        if peak < MIN_PEAK or not count_bits(consensus.gia):
            # A round of zeros does not settle the width.
            after = State(
                fade_residual(kept, self.fade),
                state.bits if peak < MIN_PEAK else bits,
            )
            return unsent(corrected, after, n_votes=n_votes, bits=bits, peak=peak)
        gia = spread_groups(consensus.gia, update.shape[0], self.entries_per_vote)
        grid = Grid.of(peak=peak, bits=bits, n_clients=self.n_clients)
        sent = send_chosen(
            corrected.values,
            gia,
            grid,
            stream.purpose("rounding"),
            out=kept,
        )
        totals: Totals = yield from ask(
            Sum(sent.lanes, sent.n_levels, bits, grid.limit)
        )
        missed = totals.contributors.missed(stream.client, sent.n_levels)
        counted = take_back(sent, missed, corrected.values, gia, grid, out=kept)
        facts = Facts(
            n_votes=n_votes,
            n_chosen=counted.n_levels,
            bits=bits,
            peak=peak,
            scale=grid.scale,
            energy=corrected.energy,
            left_energy=left_energy(
                corrected, chosen=sent.chosen_energy, left=counted.left_energy
            ),
        )
        mean = Mean((LaneMean(totals, grid.scale, gia),))
        faded = fade_residual(kept, self.fade)
        return Outcome(mean, State(faded, self._next_bits(facts)), facts)

    def _wished_bits(self, corrected: Corrected, state: State) -> int:
        """Return the width this client asks for."""
        if isinstance(self.bits, int):
            return self.bits
        if state.bits is not None:
            # It may have been agreed on by fewer clients than there are now.
            return max(state.bits, self._least_bits)
        return self._fitted_bits(corrected)

    @property
    def _least_bits(self) -> int:
        """The narrowest lane that holds a level of each client."""
        return self.n_clients.bit_length() + 1

    def _next_bits(self, facts: Facts) -> int:
        """Return the width to ask for in the next round.

        The paper's condition on the width is γ < 1. Its bound promises that for clients
        that rank entries alike; where they do not, the error shows that it was too low.
        """
        if self.bits != "adaptive" or not 0.0 < facts.energy <= facts.left_energy:
            return facts.bits
        return min(facts.bits + 1, MAX_LANE_BITS)

    def _fitted_bits(self, corrected: Corrected) -> int:
        """Return the width for the power law that this client's update follows."""
        if corrected.peak < MIN_PEAK:  # others decide
            return self._least_bits
        try:
            fit = fit_power_law(corrected.values, peak=corrected.peak)
        except ValueError:  # one entry that is not zero follows no law
            return self.n_clients.bit_length() + _SPARE_BITS
        choose = best_bits if self.bits == "tuned" else least_bits
        try:
            bits = choose(
                fit,
                dim=corrected.values.shape[0],
                n_clients=self.n_clients,
                n_votes=self.n_votes,
                threshold=self.threshold,
            )
        except ValueError:  # no lane is wide enough
            return MAX_LANE_BITS
        return min(bits, MAX_LANE_BITS)
