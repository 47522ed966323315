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
(``entries_per_vote`` and ``rank_by``, see `fediac.core.groups`), a width that grows
(``bits="adaptive"``) or leaves a level only a few steps (``bits="coarse"``), residuals
that fade (``fade``), peaks that are clipped (``clip``), lanes that are narrow on their
way up (``lanes``), and votes that follow what was agreed on (``growth``) or a budget
(``budget_mib``).
"""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, get_args

from fediac.compressors.budget import check_budget, make_budget
from fediac.compressors.feedback import ErrorFeedback
from fediac.compressors.following_votes import FollowingVotes, check_growth
from fediac.compressors.forecast import (
    Asks,
    AsksSum,
    AsksTally,
    Conditions,
    Expected,
)
from fediac.compressors.protocol import Round, State, ask
from fediac.compressors.settings import Preset, check_share, count_share
from fediac.compressors.shared_steps import add_levels, unsent
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
)
from fediac.core.groups import (
    RANKS,
    RankBy,
    check_length,
    count_groups,
    draw_group_votes,
    spread_groups,
)
from fediac.core.powerlaw import fit_power_law
from fediac.core.quantize import (
    MIN_PEAK,
    Sent,
    check_lanes,
    float32_above,
)
from fediac.core.rng import Stream
from fediac.core.shares import Share
from fediac.core.tuning import best_bits
from fediac.core.types import Packed, Update
from fediac.core.voting import LAWS, Law
from fediac.core.widths import (
    Lanes,
    Widths,
    check_rule,
    every_widths,
    fewest_bits,
    lane_widths,
    make_grid,
    next_width,
)
from fediac.errors import ArgumentError

BitsRule = Literal["auto", "tuned", "bound", "adaptive", "coarse"]
BITS_RULES: tuple[BitsRule, ...] = get_args(BitsRule)

VotesRule = Literal["auto", "few"]

LengthRule = Literal["auto"]

AUTO: Literal["auto"] = "auto"
"""By the size of the model: votes and width as in the paper, but for small models, of
which it has none."""

_PAPER_VOTES = "5%"

_SHARES: Mapping[str, str] = MappingProxyType({AUTO: _PAPER_VOTES, "few": "3%"})
"""Rule -> the share of all entries that is voted for, where that is enough."""

_LEAST_VOTES = 1024
"""Entries whose levels fill about a packet: fewer save no packet, but lose progress."""

_MOST = 10
"""So many times k at most: where fewer clients take part than the threshold needs, no
number of votes helps, and the first round with enough of them would be a dense one."""

_LARGE = 1_000_000
"""Entries of a model from which on 64 share a vote by themselves, and 32 below.

Half of the votes are saved by that, but groups are chosen less finely, and where there
are few of them that costs more.
"""

_EXPECTED_BITS = 12
"""Width to expect where clients have yet to agree on one."""

_SPARE_BITS = 6
"""Beyond what N clients need, where no law can be fitted: 32 levels up and down."""

_COARSE_LIMIT = 3
"""Steps of a level up and down with ``coarse``: 7 bits for 20 clients, 3 on the way."""

_PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "paper": Preset(
            "the paper's settings, for models of any size",
            settings={"n_votes": _PAPER_VOTES, "bits": "bound"},
        ),
        "lean": Preset(
            "the least traffic to an accuracy, by one rule for all data",
            settings={
                "n_votes": "few",
                "threshold": "40%",
                "growth": 0.1,
                "bits": "coarse",
                "law": "topk",
                "entries_per_vote": AUTO,
                "rank_by": "rms",
                "clip": 2.0,
                "lanes": "dense",
            },
            beside={"train.statistics": "recalibrate"},
        ),
    }
)


@dataclass(frozen=True, slots=True)
class FediAC(ErrorFeedback):
    """Vote on entries, add b-bit levels of the agreed ones.

    Attributes:
        n_votes: Entries a client votes for (k): a count, or a share of all entries.
            ``auto`` is the paper's 5 % and ``few`` 3 %, but at least 1,024 entries,
            or all there are: fewer save no packet, and in models of a few thousand
            entries they cost much of the progress.
        threshold: Votes an entry needs (a): a count, or a share of the clients.
        bits: Width of the switch's sums (b). With ``bound``, each client fits a power
            law to its first update and asks for the smallest width above the paper's
            bound (eq. 6, with the peak of all clients). With ``tuned``, it asks for the
            width that needs the fewest bytes for the same progress, which is wider. The
            widest width asked for in the first round is then used for good, also by
            clients that join later. ``auto`` is ``bound``, as in the paper, but
            ``tuned`` below 20,480 entries, where 1,024 votes are more than 5 %:
            magnitudes there follow no power law, and the bound may be too narrow for
            any progress. ``adaptive`` starts at the bound, and a client asks
            for the next width whenever rounding left as much of the entries it sent as
            they had; clients with far smaller updates than others ask for many bits.
            ``coarse`` is the fewest in which a level has three steps up and down, 7 for
            20 clients: nobody asks for anything.
        law: How votes are drawn: ``bernoulli``, independently for every entry;
            ``draws``, the paper's k draws; ``topk``, the k largest.
        entries_per_vote: Neighbouring entries that share a vote and are sent together:
            1 as in the paper, or a power of two of at least 8. A client then votes for
            n_votes / entries_per_vote groups, which makes votes cheaper. ``auto`` is 64
            in models of a million entries or more, and 32 below.
        rank_by: What makes such a group large: ``peak``, its largest magnitude, or
            ``rms``, the root mean square of all of its magnitudes.
        clip: The peak that a client offers is at most ``clip`` times the root mean
            square of its n_votes largest magnitudes. Larger levels are clamped, and the
            rest stays in the residual. This makes the most of few bits, but the bound
            on the width ignores it. By default nothing is clipped, as in the paper.
        lanes: How wide lanes are: ``same``, as many bits up as down, as in the paper;
            ``dense``, only as many bits up as a client's own levels need, for the same
            sums; ``words``, the same but in 4, 8, 16 or 32 bits, which leaves levels
            more room.
        growth: A round shall agree on n_votes entries: a client begins with as many
            votes, and casts more after a round that agreed on fewer and fewer after one
            that agreed on more, by this share at most, and never more than ten times as
            many. By default it always votes for n_votes.
        budget_mib: MiB of payload that all clients together send and receive in a
            round. A client's k then follows what its last round had agreed on, and
            n_votes and growth are not used. Single rounds may take more; statistics of
            batch norm are not in it.
    """

    PRESETS: ClassVar[Mapping[str, Preset]] = _PRESETS

    n_votes: Share | VotesRule = AUTO
    threshold: Share = "15%"
    bits: int | BitsRule = AUTO
    law: Law = "bernoulli"
    entries_per_vote: int | LengthRule = 1
    rank_by: RankBy = "peak"
    clip: float | None = None
    lanes: Lanes = "same"
    growth: float = 0.0
    budget_mib: float | None = None

    @classmethod
    def lean(cls, n_clients: int, **settings: Any) -> Self:  # noqa: ANN401 - as given
        """Return the settings of the preset ``lean``.

        Args:
            n_clients: Clients of the round.
            settings: Those that shall be others.
        """
        return cls(n_clients, **{**cls.PRESETS["lean"].settings, **settings})

    def __post_init__(self) -> None:
        ErrorFeedback.__post_init__(self)
        check_clip(self.clip)
        check_rule(self.lanes)
        check_growth(self.growth)
        if not isinstance(self.n_votes, str) or self.n_votes not in _SHARES:
            check_share("n_votes", self.n_votes)
        self.votes_needed  # noqa: B018 - there must be so many clients
        if not isinstance(self.law, str) or self.law not in LAWS:
            rule = f"must be one of {', '.join(LAWS)}, got {self.law!r}"
            raise ArgumentError("law", rule)
        if isinstance(self.bits, int) and not isinstance(self.bits, bool):
            check_lanes(bits=self.bits, n_clients=self.n_clients)
        elif not isinstance(self.bits, str) or self.bits not in BITS_RULES:
            rules = ", ".join(repr(rule) for rule in BITS_RULES)
            raise ArgumentError(
                "bits", f"must be a number or {rules}, got {self.bits!r}"
            )
        if self.entries_per_vote != AUTO:
            check_length("entries_per_vote", self.entries_per_vote)
        if not isinstance(self.rank_by, str) or self.rank_by not in RANKS:
            rule = f"must be one of {', '.join(RANKS)}, got {self.rank_by!r}"
            raise ArgumentError("rank_by", rule)
        check_budget(self.budget_mib)

    @property
    def votes_needed(self) -> int:
        """How many votes an entry needs."""
        return count_share(
            "threshold",
            self.threshold,
            of=self.n_clients,
            what="clients in a round",
        )

    @property
    def measured(self) -> tuple[int, int] | None:
        """Payload of stored rounds in percent of the expected: ResNet-18 and UNIPEN.

        Only the paper's votes were compared.
        """
        is_usual = self.law == "bernoulli" and self.n_votes in (AUTO, _PAPER_VOTES)
        is_usual = is_usual and self.budget_mib is None and not self.growth
        return (82, 126) if is_usual and self.entries_per_vote == 1 else None

    @property
    def known_bits(self) -> int | None:
        """The width of sums; None if clients are still to agree on it."""
        if self.bits == "coarse":
            return fewest_bits(n_clients=self.n_clients, limit=_COARSE_LIMIT)
        return self.bits if isinstance(self.bits, int) else None

    def group_length(self, dim: int) -> int:
        """Return how many of ``dim`` entries share a vote."""
        if self.entries_per_vote == AUTO:
            return 64 if dim >= _LARGE else 32
        return self.entries_per_vote

    def count_votes(self, dim: int, state: State | None = None) -> int:
        """Return how many of ``dim`` entries a client votes for.

        Args:
            dim: All entries.
            state: The client's, which matters where k follows something; None: new.
        """
        state = state or State()
        following = self._following(dim, state)
        if following is None:
            return self._usual_votes(dim)
        return following.count_votes(state)

    def _usual_votes(self, dim: int) -> int:
        share = _SHARES.get(str(self.n_votes))
        if share is None:
            return count_share("n_votes", self.n_votes, of=dim, what="dim")
        shared = count_share("n_votes", share, of=dim, what="dim")
        return max(shared, min(_LEAST_VOTES, dim))

    def doubts(self, dim: int) -> Iterator[str]:
        """Yield what speaks against these settings in a model of so many entries."""
        if self.budget_mib is not None or not _is_small(dim):
            return
        n_votes = self._usual_votes(dim)
        if n_votes < min(_LEAST_VOTES // 2, dim // 4):
            yield (
                f"clients vote for {n_votes:,} of {dim:,} parameters; so few make a "
                "model this small learn slowly, and hardly save a packet; n_votes = "
                f'"{AUTO}" takes {min(_LEAST_VOTES, dim):,}'
            )

    def check_dim(self, dim: int) -> None:
        """Raise unless this many entries can be voted for."""
        self.count_votes(dim)

    def asks(self) -> Iterator[Asks]:
        """Yield a tally and a sum."""
        yield AsksTally(self.votes_needed)
        if self.known_bits is not None:
            yield AsksSum((self._widths(self.known_bits),))
        else:
            yield AsksSum(every_widths(n_clients=self.n_clients, lanes=self.lanes))

    def expect(self, conditions: Conditions) -> Iterator[tuple[Expected, ...]]:
        """Yield a tally and a sum of what enough clients vote for.

        That is the tail of a binomial distribution: each votes for an entry with
        probability k/d. Where k follows what is agreed on, that is as much as shall be.
        """
        # Takes longer to import than NumPy, and rounds predict nothing.
        from scipy.special import betainc

        dim, needed = conditions.dim, self.votes_needed
        n_groups = count_groups(dim, self.group_length(dim))
        yield (Expected(Tally, n_groups, n_groups, bits=1),)
        following = self._following(dim, State())
        if following is not None:
            n_chosen = following.n_agreed
        else:
            share = self._usual_votes(dim) / dim
            tail = betainc(needed, self.n_clients - needed + 1, share)
            n_chosen = round(dim * float(tail))
        widths = self._widths(self.known_bits or _EXPECTED_BITS)
        yield (Expected(Sum, n_chosen, n_chosen, widths, is_agreed=True),)

    def _following(self, dim: int, state: State) -> FollowingVotes | None:
        """Return how k follows what was agreed on, if it does."""
        if self.budget_mib is not None:
            bits = self._known_bits(state) or _EXPECTED_BITS
            return make_budget(
                self.budget_mib,
                dim=dim,
                n_clients=self.n_clients,
                threshold=self.votes_needed,
                entries_per_vote=self.group_length(dim),
                widths=self._widths(bits),
            )
        if self.growth:
            n_votes = self._usual_votes(dim)
            return FollowingVotes(
                n_first=n_votes,
                n_agreed=n_votes,
                n_least=min(n_votes, _LEAST_VOTES),
                n_most=min(_MOST * n_votes, dim),
                fastest=1.0 + self.growth,
                key="votes_to_cast",
            )
        return None

    def _widths(self, bits: int) -> Widths:
        return lane_widths(bits=bits, n_clients=self.n_clients, lanes=self.lanes)

    def compress(
        self, corrected: Corrected, state: State, stream: Stream, kept: Update | None
    ) -> Round:
        """Yield a tally and a sum; return the mean update, next state and facts."""
        dim = corrected.values.shape[0]
        votes = self.vote(corrected, state, stream)
        n_votes = count_bits(votes)
        consensus: Consensus = yield from ask(
            Tally(
                votes,
                dim=count_groups(dim, self.group_length(dim)),
                threshold=self.votes_needed,
                peak=float32_above(self._offered_peak(corrected, state)),
                bits=self._known_bits(state),
            )
        )
        peak = consensus.peak
        if peak < MIN_PEAK or not count_bits(consensus.gia):
            after = replace(state, bits=consensus.bits or None)
            if peak >= MIN_PEAK:  # otherwise there was nothing to agree on
                after = self._after(corrected, after, 0)
            return unsent(
                corrected, after, n_votes=n_votes, bits=consensus.bits, peak=peak
            )
        bits = consensus.bits or (yield from self._agree_bits(corrected, state, peak))
        gia = spread_groups(consensus.gia, dim, self.group_length(dim))
        grid = make_grid(
            peak=peak, bits=bits, n_clients=self.n_clients, lanes=self.lanes
        )
        added = yield from add_levels(corrected, gia, grid, stream, kept=kept)
        after = replace(state, bits=self._next_bits(bits, added.sent))
        after = self._after(corrected, after, added.sent.n_levels)
        return added.outcome(after, peak=peak, n_votes=n_votes)

    def _after(self, corrected: Corrected, state: State, n_chosen: int) -> State:
        """Return the next state, which knows what the votes of this round came to."""
        like = corrected.values
        following = self._following(like.shape[0], state)
        if following is None:
            return state
        return following.follow(state, n_chosen, like=like)

    def vote(self, corrected: Corrected, state: State, stream: Stream) -> Packed:
        """Return this client's votes, one packed bit per group of entries.

        Whoever tries another way to vote puts it here, see benchmarks/cures.py.
        """
        return draw_group_votes(
            corrected,
            self.count_votes(corrected.values.shape[0], state),
            stream.purpose("votes"),
            law=self.law,
            length=self.group_length(corrected.values.shape[0]),
            rank_by=self.rank_by,
        )

    def _offered_peak(self, corrected: Corrected, state: State) -> float:
        if self.clip is None:
            return corrected.peak
        n_votes = self.count_votes(corrected.values.shape[0], state)
        return clipped_peak(corrected, n_votes, self.clip)

    def _known_bits(self, state: State) -> int:
        """Return the width that this client knows; 0 if it has yet to be agreed on."""
        if self.known_bits is not None:
            return self.known_bits
        if state.bits is None:
            return 0
        # It may have been agreed on by fewer clients than there are now.
        return max(state.bits, self._least_bits)

    def _agree_bits(
        self, corrected: Corrected, state: State, peak: float
    ) -> Generator[tuple[Exchange, ...], Any, int]:
        """Ask for the widest width that a client wants, as the peak of all wishes."""
        wished = self._fitted_bits(corrected, state, peak)
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

    def _fitted_bits(self, corrected: Corrected, state: State, peak: float) -> int:
        """Return the width for the power law that this client's update follows.

        Args:
            corrected: The update.
            state: The client's.
            peak: The largest magnitude of all clients.
        """
        if corrected.peak < MIN_PEAK:  # others decide
            return self._least_bits
        try:
            fit = fit_power_law(corrected.values, peak=peak)
        except ValueError:  # one entry that is not zero follows no law
            return min(self.n_clients.bit_length() + _SPARE_BITS, MAX_LANE_BITS)
        dim = corrected.values.shape[0]
        setting = Setting(
            dim=dim,
            n_clients=self.n_clients,
            n_votes=self.count_votes(dim, state),
            threshold=self.votes_needed,
            alpha=fit.alpha,
            is_drawn=self.law != "topk",
            entries_per_vote=self.group_length(dim),
        )
        is_tuned = self.bits == "tuned" or (self.bits == AUTO and _is_small(dim))
        choose = best_bits if is_tuned else smallest_bits
        try:
            bits = choose(setting, phi=fit.phi, peak=peak)
        except ValueError:  # no lane is wide enough
            return MAX_LANE_BITS
        return min(bits, MAX_LANE_BITS)


def _paper_votes(dim: int) -> int:
    return count_share("n_votes", _PAPER_VOTES, of=dim, what="dim")


def _is_small(dim: int) -> bool:
    """Return whether a model is smaller than any that the paper has."""
    return _paper_votes(dim) < _LEAST_VOTES
