"""Who is compared: algorithms with one setting each, under a name of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fediac.compressors import FediAC
from fediac.core.shares import parse_share
from fediac.errors import ConfigError, hint_name
from fediac.runs.settings import RunSettings, as_document

THRESHOLDS = (5, 10, 15, 20)
"""Percent of all clients whose votes an entry needs (Sec. V-B3)."""


@dataclass(frozen=True, slots=True)
class Entrant:
    """An algorithm as it is compared.

    Attributes:
        name: Also that of its folder of runs.
        changes: Settings in which it differs from its scenario, by dotted name.
        setting: What is varied, in words, where something is.
        alias: The name it has in a family of settings, where its own is another.
    """

    name: str
    algorithm: str
    changes: tuple[tuple[str, Any], ...] = ()
    setting: str = ""
    alias: str = ""

    def is_called(self, names: Sequence[str]) -> bool:
        """Return whether one of these names means this entrant."""
        return self.name in names or (bool(self.alias) and self.alias in names)

    def apply(self, settings: RunSettings) -> RunSettings:
        """Return a scenario's settings as this entrant runs them."""
        settings = replace(settings, algorithm=self.algorithm)
        for key, value in self.changes:
            settings = settings.changed(key, value)
        return settings


_TUNED, _BOUND = ("fediac.bits", "tuned"), ("fediac.bits", "bound")

MAIN = (
    Entrant("fediac", "fediac", (_BOUND,)),
    Entrant("fediac-tuned", "fediac", (_TUNED,)),
    Entrant("switchml", "switchml"),
    Entrant("libra", "libra"),
    Entrant("omnireduce", "omnireduce"),
    Entrant("fedavg", "fedavg"),
)
"""All that tables and the accuracy figure compare.

``fediac`` has the paper's width, the smallest above its bound, as it has everywhere;
``fediac-tuned`` the one with the fewest predicted bytes per progress.
"""

TUNED, FEDAVG = MAIN[1], MAIN[-1]


def is_ours(name: str) -> bool:
    """Return whether an entrant is FediAC; every other one is a baseline."""
    return name.partition("-")[0] == "fediac"


_SHARES = ("0.1", "0.5", "1", "5")
_SMALLER = ("0.005", "0.01", "0.02", "0.05")


def _top_k(algorithm: str, shares: Sequence[str] = _SHARES) -> tuple[Entrant, ...]:
    return tuple(
        Entrant(
            f"{algorithm}-k{share}",
            algorithm,
            ((f"{algorithm}.n_sent", f"{share}%"),),
            f"k = {share} % of d",
        )
        for share in shares
    )


def _narrow(share: str, bits: int) -> Entrant:
    """Return libra with narrow levels, and indices of no more bits than they need."""
    return Entrant(
        f"libra-k{share}-bits{bits}-narrow",
        "libra",
        (
            ("libra.n_sent", f"{share}%"),
            ("libra.bits", bits),
            ("libra.narrow", True),
        ),
        f"k = {share} %, b = {bits}",
    )


_RECALIBRATED = ("train.statistics", "recalibrate")


def _recalibrated(entrant: Entrant, *changes: tuple[str, Any]) -> Entrant:
    """Return a baseline with the statistics that the preset ``lean`` has."""
    return replace(
        entrant,
        name=f"{entrant.name}-recal",
        changes=(*entrant.changes, *changes, _RECALIBRATED),
    )


def _switchml(bits: int) -> Entrant:
    return Entrant(
        f"switchml-bits{bits}", "switchml", (("switchml.bits", bits),), f"b = {bits}"
    )


def _shared(
    share: str, bits: int | str, threshold: int = 3
) -> tuple[tuple[str, Any], ...]:
    """Return the changes for votes that 16 neighbours share."""
    return (
        ("fediac.law", "topk"),
        ("fediac.entries_per_vote", 16),
        ("fediac.threshold", threshold),
        ("fediac.bits", bits),
        ("fediac.n_votes", f"{share}%"),
    )


def _lean(setting: str, suffix: str = "", **changes: Any) -> Entrant:  # noqa: ANN401 - settings
    """Return FediAC with the preset ``lean``, or with some of it changed."""
    preset = FediAC.PRESETS["lean"]
    own = {**preset.settings, **changes}
    settings = {f"fediac.{name}": value for name, value in own.items()}
    settings |= preset.beside
    return Entrant(f"fediac-lean{suffix}", "fediac", tuple(settings.items()), setting)


def _lean_fixed(share: str, threshold: int, length: int = 32) -> Entrant:
    """Return ``lean`` with votes that follow nothing, of groups by their peaks."""
    setting, suffix = f"k = {share} %, a = {threshold} %", f"-k{share}-a{threshold}"
    if length != 32:
        setting, suffix = f"{setting}, {length} entries a vote", f"{suffix}-e{length}"
    return _lean(
        setting,
        suffix,
        n_votes=f"{share}%",
        threshold=f"{threshold}%",
        growth=0.0,
        entries_per_vote=length,
        rank_by="peak",
    )


CANDIDATES: dict[str, tuple[Entrant, ...]] = {
    "fediac": tuple(
        Entrant(f"fediac-a{a}", "fediac", (("fediac.threshold", a), _TUNED), f"a = {a}")
        for a in (1, 2, 3, 4)
    ),
    "switchml": tuple(_switchml(b) for b in (6, 7, 8, 10, 12, 14)),
    "switchml-recal": tuple(
        _recalibrated(_switchml(b), ("switchml.lanes", "dense")) for b in (7, 8)
    ),
    "libra": _top_k("libra", (*_SMALLER, *_SHARES)),
    "libra-narrow": tuple(
        _narrow(share, bits)
        for share, bits in (
            ("0.005", 8),
            ("0.01", 8),
            ("0.02", 7),
            ("0.02", 8),
            ("0.02", 10),
            ("0.05", 8),
            ("0.1", 8),
            ("0.5", 8),
            ("1", 8),
        )
    ),
    "libra-recal": tuple(
        _recalibrated(_narrow(share, 8)) for share in ("0.02", "0.05", "0.1", "0.2")
    ),
    "omnireduce": _top_k("omnireduce"),
    "fediac-topk": tuple(
        Entrant(
            f"fediac-topk-a{a}",
            "fediac",
            (("fediac.law", "topk"), ("fediac.threshold", a), _BOUND),
            f"a = {a}",
        )
        for a in (3, 4, 5, 6)
    ),
    "fediac-shared": tuple(
        Entrant(
            f"fediac-shared-k{share}",
            "fediac",
            _shared(share, "adaptive"),
            f"k = {share} % of d",
        )
        for share in ("0.5", "1", "2", "5")
    ),
    "fediac-shared-bits": tuple(
        Entrant(
            f"fediac-shared-k{share}-bits{bits}",
            "fediac",
            _shared(share, bits),
            f"k = {share} %, b = {bits}",
        )
        for share in ("1", "2")
        for bits in (8, 9)
    ),
    "fediac-shared-votes": tuple(
        Entrant(
            f"fediac-shared-k{share}-a{a}",
            "fediac",
            _shared(share, "adaptive", a),
            f"k = {share} %, a = {a}",
        )
        for share, a in (("2", 2), ("5", 4), ("10", 5), ("10", 8))
    ),
    "fediac-shared-fade": tuple(
        Entrant(
            f"fediac-shared-k{share}-a{a}-fade0.1",
            "fediac",
            (*_shared(share, "adaptive", a), ("fediac.fade", 0.1)),
            f"k = {share} %, a = {a}",
        )
        for share, a in (("2", 3), ("5", 3), ("5", 4), ("10", 8))
    ),
    "fediac-lean": (
        _lean("the preset"),
        _lean("k = 2 %", "-k2", n_votes="2%"),
        _lean("k = 4 %", "-k4", n_votes="4%"),
        _lean("a = 25 %", "-a25", threshold="25%"),
        _lean("64 entries a vote", "-e64", entries_per_vote=64),
        _lean("groups by their peak", "-peak", rank_by="peak"),
        _lean("fade = 5 %", "-fade0.05", fade=0.05),
        _lean("clip = 3", "-clip3", clip=3.0),
    ),
    "fediac-lean-fixed": (
        *(
            _lean_fixed(share, a)
            for share, a in (
                ("0.2", 10),
                ("0.5", 10),
                ("1", 10),
                ("1", 20),
                ("2", 25),
                ("5", 40),
                ("10", 40),
            )
        ),
        _lean_fixed("0.5", 10, length=16),
    ),
}
"""Family -> the settings that the paper chose from (Sec. V-A3), and more.

Where the best of the paper's settings was the smallest, as for SwitchML and libra, ours
go on until it is inside: 20 clients need 6 bits at least. ``libra-narrow`` is ours: an
entry of the paper's takes 64 bits, but neither a level nor an index needs 32. With
``-recal`` a baseline has the statistics that ``lean`` has, and SwitchML its dense
lanes, so that what these save is not the votes' merit.

The last seven are ours, too. In ``fediac-topk`` clients vote for exactly their k
largest entries; they agree more often then, so higher thresholds are worth a try. The
width is the paper's, which was the better one in all rows. In ``fediac-shared`` they
vote for the groups of 16 entries that hold the largest; votes are so cheap then that
fewer entries and more rounds may pay. So few entries may need lanes wider than the
paper's bound, hence the width grows where it must; but it begins at the bound, which
may be wider than it has to be, hence ``fediac-shared-bits``. A shared vote costs the
same whatever k is, so the threshold may go up and down with it: ``fediac-shared-
votes``. Where few entries are sent, a residual is many rounds old when its turn comes;
in ``fediac-shared-fade`` a tenth of it is forgotten every round. ``fediac-lean`` is the
preset (docs/lean.md says how it was chosen), once as it is and else with one setting
changed; its statistics are recalibrated. ``fediac-lean-fixed`` is what it was chosen
from before: votes that follow nothing, of groups as large as their largest entry.
"""


ON_UNEVEN_DATA = {"fediac": (_TUNED,), "libra": ()}
"""Algorithm -> its changes, where data are made more and less even."""


def vary_beta(betas: Sequence[float]) -> list[Entrant]:
    """Return FediAC and libra on data that are less even the smaller β is."""
    return [
        Entrant(
            f"{algorithm}-beta{beta:g}",
            algorithm,
            (("data.partition", "dirichlet"), ("data.beta", beta), *changes),
            f"β = {beta:g}",
        )
        for algorithm, changes in ON_UNEVEN_DATA.items()
        for beta in betas
    ]


def vary_scale(numbers: Sequence[int]) -> list[Entrant]:
    """Return FediAC with several numbers of clients and shares of them as threshold."""
    return [
        Entrant(
            f"fediac-n{n}-a{percent}",
            "fediac",
            (("clients.n_clients", n), ("fediac.threshold", f"{percent}%"), _TUNED),
            f"N = {n}, a = {percent} % of N",
        )
        for n in numbers
        for percent in THRESHOLDS
    ]


@cache
def find_known(entrant: Entrant, settings: RunSettings) -> Entrant:
    """Return the entrant that already runs the very same settings, or this one.

    A scenario's best setting is also one of the settings it is chosen from; it must not
    be trained twice. Comparing a setting with all others takes a while and tables do it
    often, so the answer is cached.
    """
    own = decisive(entrant.apply(settings))
    for known in (*MAIN, *(each for family in CANDIDATES.values() for each in family)):
        if known.algorithm != entrant.algorithm:
            continue
        if decisive(known.apply(settings)) == own:
            alias = "" if known.name == entrant.name else entrant.name
            return replace(known, setting=entrant.setting, alias=alias)
    return entrant


def decisive(settings: RunSettings) -> dict[str, Any]:
    """Return what decides a run's numbers: not when it stops, nor where data lie.

    Shares of clients are resolved, and other algorithms' tables left out. So is how
    many entries fill a packet: stored runs had blocks of 360, today's have 352.
    """
    tables = as_document(settings)
    kept = {
        name: tables[name]
        for name in ("algorithm", "seed", "tuning", "model", "clients", "network")
    }
    kept["data"] = _without(tables["data"], "folder", "download")
    kept["train"] = _without(tables["train"], "device", "n_at_once")
    own = _without(tables[settings.algorithm], "block")
    if settings.algorithm == "fediac":
        share, of = settings.clients.n_participants, settings.clients.n_clients
        n = parse_share(share, of=of, name="n_participants")
        own["threshold"] = parse_share(own["threshold"], of=n, name="threshold")
    kept[settings.algorithm] = own
    return kept


def _without(table: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key not in names}


def check_names(
    names: Sequence[str], entrants: Sequence[Entrant], swept: Sequence[Entrant]
) -> None:
    """Refuse names that no entrant has.

    Args:
        names: What was typed.
        entrants: Those of what was asked for.
        swept: Those that sweeps would have.

    Raises:
        ConfigError: A name is unknown; the message names the nearest.
    """
    known, elsewhere = _names(entrants), _names(swept)
    for name in names:
        if name not in known and name in elsewhere:
            raise ConfigError(
                f"--entrants: {name} is run by sweeps; tables show it once it is stored"
            )
        if name not in known:
            raise ConfigError(f"unknown entrant {name!r}{hint_name(name, known)}")


def _names(entrants: Sequence[Entrant]) -> list[str]:
    names = (name for each in entrants for name in (each.name, each.alias) if name)
    return list(dict.fromkeys(names))
