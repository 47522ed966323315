"""What entrants are called in pictures: plain words instead of their folders' names."""

import re

ALGORITHMS = {
    "fediac": "FediAC",
    "switchml": "SwitchML",
    "libra": "libra",
    "omnireduce": "OmniReduce",
    "fedavg": "FedAvg",
    "topk": "top-k",
}

_PARTS = (
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
    return ", ".join([ALGORITHMS.get(algorithm, algorithm), *map(_in_words, parts)])


def _in_words(part: str) -> str:
    for pattern, words in _PARTS:
        if re.fullmatch(pattern, part):
            return re.sub(pattern, words, part)
    return part
