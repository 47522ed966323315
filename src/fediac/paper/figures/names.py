"""What entrants are called in pictures: plain words instead of their folders' names."""

import re

from fediac.compressors.catalog import title_of
from fediac.plan.plots import SERVED

BEST_VOTES = "fediac-best"
"""FediAC with whichever votes need the least traffic; they differ by scenario."""

_PARTS = (
    (r"best", "best votes"),
    (r"tuned", "tuned width"),
    (r"topk", "votes for the largest"),
    (r"shared", "16 a vote"),
    (r"narrow", "narrow pairs"),
    (r"k([0-9.]+)", r"k = \1 %"),
    (r"a([0-9]+)", r"a = \1"),
    (r"bits([0-9]+)", r"\1 bits"),
    (r"fade[0-9.]+", "fading residuals"),
)
"""Parts of an entrant's name after its algorithm, and what they mean."""


def plain_name(entrant: str) -> str:
    """Return an entrant's name in words: ``FediAC, 16 a vote, k = 1 %, 8 bits``."""
    algorithm, *parts = entrant.split("-")
    return ", ".join([title_of(algorithm), *map(_in_words, parts)])


def line_label(entrant: str) -> str:
    """Return an entrant's name beside its line, which says who needs no switch."""
    note = " (no switch)" if entrant in SERVED else ""
    return f"{plain_name(entrant)}{note}"


def _in_words(part: str) -> str:
    for pattern, words in _PARTS:
        if re.fullmatch(pattern, part):
            return re.sub(pattern, words, part)
    return part
