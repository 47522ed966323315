"""Mistakes that somebody could make in the package, and the tests that must notice.

Each replaces a short text, which its file has exactly once, so that the table says when
it no longer fits the code. Chosen are mistakes that lived once, those that statistical
tests have as controls, and the classic ones of each part.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

Row: TypeAlias = tuple[str, str, str, str]
"""What is no longer true, the text that goes, what stands there instead, and the tests
of which one must fail: files in ``tests``, or functions and classes in them."""

TABLE: dict[str, dict[str, Row]] = {
    "compressors/fediac.py": {
        "adaptive-tie": (
            "a client that is left with all it had asks for another bit",
            "<= sent.left_energy",
            "< sent.left_energy",
            "unit/compressors/test_fediac.py::TestWidth",
        ),
        "adaptive-reversed": (
            "only a client that is left with more than it had asks for another bit",
            "<= sent.left_energy",
            ">= sent.left_energy",
            "unit/compressors/test_fediac.py::TestWidth",
        ),
        "adaptive-without-need": (
            "a client that has nothing where others agree asks for no bit",
            "not 0.0 < sent.chosen_energy",
            "not 0.0 <= sent.chosen_energy",
            "unit/compressors/test_fediac.py::TestWidth",
        ),
        "width-by-own-peak": (
            "the width follows from the peak of all clients",
            "self._fitted_bits(corrected, state, peak)",
            "self._fitted_bits(corrected, state, corrected.peak)",
            "unit/compressors/test_fediac.py::TestWidth",
        ),
        "peak-below-itself": (
            "the peak that travels is not below the largest entry",
            "peak=float32_above(",
            "peak=float(",
            "unit/compressors/test_fediac.py::TestVotes",
        ),
    },
    "compressors/feedback.py": {
        "fade-keeps-its-share": (
            "of a residual that fades, the share is lost and the rest kept",
            "kept *= 1.0 - self.fade",
            "kept *= self.fade",
            "unit/compressors/test_feedback.py",
        ),
        "fade-before-round": (
            "a residual fades once a round, at its end",
            "begin(update, state, stream",
            "begin(update, replace(state, residual=None if state.residual is None else "
            "state.residual * (1.0 - self.fade)), stream",
            "conformance/test_compressors.py::"
            "test_a_residual_that_fades_is_a_share_of_what_it_would_be",
        ),
        "residual-forgotten": (
            "what is not sent is kept for the next round",
            "begin(update, state, stream",
            "begin(update, State(), stream",
            "unit/compressors/test_fediac.py::TestVotes",
        ),
        "unknown-extras-dropped": (
            "what an algorithm does not know of a state passes through it",
            "others = replace(state, residual=None)",
            "others = State(bits=state.bits)",
            "conformance/test_compressors.py",
        ),
    },
    "compressors/shared_steps.py": {
        "purpose-shared": (
            "votes and rounding have random numbers of their own",
            'stream.purpose("rounding")',
            'stream.purpose("votes")',
            "statistical/test_totals.py",
        ),
    },
    "core/voting.py": {
        "votes-without-saturation": (
            "an entry is voted for with probability 1 - (1 - p)^k, not k p",
            "1.0 - power(1.0 - share, n_votes)",
            "n_votes * share",
            "unit/core/test_voting.py",
        ),
        "votes-by-squares": (
            "votes follow magnitudes, not their squares",
            "divide(magnitudes, corrected.mass)",
            "divide(magnitudes * magnitudes, corrected.mass)",
            "unit/core/test_voting.py",
        ),
        "votes-for-zeros": (
            "nobody votes for an entry that is zero",
            "largest(values, n_votes) & xp.concat(nonzero)",
            "largest(values, n_votes)",
            "unit/core/test_voting.py",
        ),
    },
    "core/consensus.py": {
        "threshold-above": (
            "an entry needs threshold votes, not one more (arrays)",
            ">= threshold)",
            "> threshold)",
            "unit/core/test_consensus.py",
        ),
    },
    "core/quantize.py": {
        "limit-too-large": (
            "the levels of all clients fit in a lane",
            "- 1) // n_clients\n",
            "- 1) // n_clients + 1\n",
            "unit/core/test_quantize.py",
        ),
        "clamp-missing": (
            "a level beyond the limit is cut",
            "xp.clip(levels, -grid.limit, grid.limit)",
            "levels",
            "unit/core/test_quantize.py",
        ),
        "round-to-nearest": (
            "rounding is unbiased",
            "stream.uniform_at(indices) < scaled",
            "0.5 < scaled",
            "statistical/test_rounding.py",
        ),
        "round-in-pairs": (
            "neighbours are rounded independently",
            "stream.uniform_at(indices)",
            "stream.uniform_at(indices // 2)",
            "statistical/test_rounding.py",
        ),
        "residual-not-subtracted": (
            "what is sent leaves the residual",
            "out[indices] = left",
            "pass",
            "unit/core/test_quantize.py",
        ),
    },
    "core/mean.py": {
        "mean-over-members": (
            "totals are divided by the clients that they count",
            "divide(levels, n_clients * self.scale)",
            "divide(levels, self.scale)",
            "unit/core/test_mean.py",
        ),
    },
    "core/ledger.py": {
        "last-packet-unbilled": (
            "a packet that is not full is a packet",
            "n_packets = max(1, -(-self.n_items // per_packet))",
            "n_packets = max(1, self.n_items // per_packet)",
            "unit/core/test_ledger.py",
        ),
    },
    "switch/blocks.py": {
        "early-block-twice": (
            "a block that comes early is added once",
            "if self._following(packet.packet):",
            "if False:",
            "unit/switch/test_blocks.py::test_an_early_block_is_added_once",
        ),
        "early-block-forgotten": (
            "a client's clock goes on over blocks that came early",
            "named = self._following(following)",
            "named = 0",
            "unit/switch/test_blocks.py::"
            "test_only_the_first_block_behind_a_gap_tells_of_it",
        ),
    },
    "switch/tally.py": {
        "threshold-above-in-switch": (
            "an entry needs threshold votes, not one more (registers)",
            "return above | equal",
            "return above",
            "unit/switch/test_tally.py",
        ),
    },
    "switch/indexed.py": {
        "indexed-read-early": (
            "totals are given out when all are in",
            "    if slot.state != COMPLETE or not asks:\n",
            "    if not asks:\n",
            "unit/switch/test_indexed.py",
        ),
        "indexed-range-short": (
            "a range has its last address, too",
            "(number + 1) * length, size)",
            "(number + 1) * length - 1, size)",
            "unit/switch/test_indexed.py",
        ),
        "indexed-next-packet": (
            "a wait names the client's next packet",
            "region.wait(packet, slot.count, following)",
            "region.wait(packet, slot.count, following + 1)",
            "unit/switch/test_indexed.py",
        ),
    },
    "switch/aligned.py": {
        "duplicate-counted": (
            "a packet that comes twice is counted once",
            "region.wait(packet, slot.count)",
            "pass",
            "unit/switch/test_aligned.py",
        ),
        "peak-of-the-last": (
            "the switch keeps the largest peak",
            "max(slot.aux, packet.aux)",
            "packet.aux",
            "unit/switch/test_aligned.py",
        ),
        "late-packet-taken": (
            "a slot is not given back to an earlier packet",
            "packet < slot.packet",
            "packet == slot.packet",
            "unit/switch/test_aligned.py",
        ),
        "far-off-packet-taken": (
            "a packet further on than its slot's next pushes nothing aside",
            "slot.state == OPEN or packet != following",
            "slot.state == OPEN",
            "unit/switch/test_aligned.py",
        ),
        "far-packet-begins": (
            "a packet that has no slot yet begins no exchange",
            "may_begin = packet.packet < n_slots",
            "may_begin = True",
            "unit/switch/test_wrong_packets.py",
        ),
        "observer-counted": (
            "an answer does not count observers",
            "(slot.count - region.job.n_observers)",
            "slot.count",
            "unit/switch/test_observers.py",
        ),
    },
    "transports/arrays.py": {
        "peak-of-the-first": (
            "arrays are answered with the largest peak",
            "Peak(max(each.peak for each in asked)",
            "Peak(asked[0].peak",
            "conformance/test_transports.py",
        ),
    },
    "transports/packets.py": {
        "hidden-max-after": (
            "a maximum stands behind an indexed sum, too",
            "if Kind.INDEXED_SUM in pair and",
            "if pair[1] == Kind.INDEXED_SUM and",
            "property/test_network.py",
        ),
    },
    "transports/in_place.py": {
        "own-residuals-lost": (
            "an own algorithm's residuals are put back when it fails",
            'float("nan") if saved is None else saved[place]',
            'float("nan")',
            "unit/transports/test_in_place.py",
        ),
    },
    "transports/vectors.py": {
        "state-of-client-0": (
            "every client goes on from a state of its own",
            "states[i], streams[i], out",
            "states[0], streams[i], out",
            "conformance/test_compressors.py::test_aggregate_runs_the_same_rounds",
        ),
        "stream-of-client-0": (
            "every client has random numbers of its own",
            "Stream(seed, round_number, i, phase)",
            "Stream(seed, round_number, 0, phase)",
            "conformance/test_compressors.py::test_aggregate_runs_the_same_rounds",
        ),
    },
    "sim/answers.py": {
        "downlink-forgets": (
            "answers arrive one after another, across calls too",
            "self.arrival = int(arrivals[-1])",
            "pass",
            "unit/sim/test_answers.py",
        ),
    },
    "sim/arrivals.py": {
        "trace-a-second-late": (
            "packets arrive at the trace's rate of the same second",
            "int(uplink.offset_s) * PS_PER_S",
            "int(uplink.offset_s + 1) * PS_PER_S",
            "statistical/test_queueing.py::TestUplinks",
        ),
    },
    "sim/queues.py": {
        "server-not-busy": (
            "a packet waits until the one before it is served",
            "before + np.maximum.accumulate(slack)",
            "np.maximum.accumulate(arrivals)",
            "unit/sim/test_queues.py",
        ),
        "wait-with-service": (
            "waiting ends when service starts",
            "waits = starts - arrivals",
            "waits = departures - arrivals",
            "unit/sim/test_queues.py",
        ),
    },
    "training/local.py": {
        "one-shuffle": (
            "every epoch has a shuffle of its own",
            "[generator.permutation(n_examples) for _ in range(n_epochs)]",
            "[generator.permutation(n_examples)] * n_epochs",
            "unit/training/test_local.py",
        ),
    },
    "network/native_loop.py": {
        "moves-not-followed": (
            "the loop in C follows members that join or move",
            " and known.n_moves == session.n_moves",
            "",
            "integration/test_switch_loops.py",
        ),
        "tags-not-counted": (
            "what the loop in C drops is counted",
            '("tag", counted.dropped_tag)',
            '("tag", 0)',
            "integration/test_switch_loops.py",
        ),
    },
    "partition.py": {
        "beta-a-fifth-too-large": (
            "shares of a class follow Dirichlet(beta)",
            "gammaincinv(beta,",
            "gammaincinv(1.2 * beta,",
            "statistical/test_dirichlet.py",
        ),
    },
    "training/federation.py": {
        "update-added": (
            "the mean is subtracted from the model",
            "progress.parameters - result.mean",
            "progress.parameters + result.mean",
            "unit/training/test_federation.py",
        ),
    },
    "runs/algorithm.py": {
        "tuned-numbers-ignored": (
            "after the first round all have the server's threshold and bits",
            "{**asdict(settings.of(name)), **settled.numbers}",
            "asdict(settings.of(name))",
            "unit/runs/test_build.py unit/runs/test_loop.py",
        ),
        "hot-entries-ignored": (
            "rounds have the hot entries that were found",
            'values["hot"] = settled.hot',
            "pass",
            "unit/runs/test_settled.py",
        ),
    },
    "runs/settled.py": {
        "hot-of-one-client": (
            "hot entries are counted over all clients",
            "for each in trained)",
            "for each in trained[:1])",
            "unit/runs/test_settled.py",
        ),
        "hot-rounds-stand-still": (
            "rounds that find hot entries go on from each other",
            "parameters = parameters - _mean(",
            "parameters = parameters - 0.0 * _mean(",
            "unit/runs/test_settled.py",
        ),
        "hot-rounds-share-batches": (
            "rounds that find hot entries have batches of their own",
            "_HOT_ROUNDS_FROM + number",
            "number",
            "unit/runs/test_settled.py",
        ),
        "best-setting-ignored": (
            "the server takes the setting that promises most",
            "best = candidates[0]",
            "best = candidates[-1]",
            "unit/runs/test_loop.py",
        ),
    },
    "runs/loop.py": {
        "traces-begin-anew": (
            "traces go on where the last round ended",
            "start_s=0.0 if before is None else before.time_s[name]",
            "start_s=0.0",
            "unit/runs/test_loop.py",
        ),
    },
}


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes:
        name: Short, for the command line.
        claim: What is no longer true.
        file: In ``src/fediac``.
        old: What the file has once.
        new: What stands there instead.
        tests: One of them must fail; in ``tests``.
    """

    name: str
    claim: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def source(self, root: Path) -> Path:
        """Return where the file is in the tree at ``root``."""
        return root / "src" / "fediac" / self.file

    def change(self, text: str) -> str:
        """Return the file's text with the mistake.

        Raises:
            ValueError: The text to replace is not there, or more than once.
        """
        n_found = text.count(self.old)
        if n_found != 1:
            raise ValueError(
                f"{self.name}: {self.file} must have {self.old!r} once, got {n_found}"
            )
        return text.replace(self.old, self.new)


MUTANTS = tuple(
    Mutant(name, claim, file, old, new, tuple(tests.split()))
    for file, rows in TABLE.items()
    for name, (claim, old, new, tests) in rows.items()
)
