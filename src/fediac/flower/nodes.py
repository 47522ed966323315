"""What the server believes of each node: its model, and its last session."""

from dataclasses import dataclass


@dataclass(slots=True)
class Peer:
    """One node.

    Attributes:
        digest: Of the model it has, or will have once it has heard how its last
            session ended; empty: not known.
        session: The newest session that it was told of and whose end it may not know;
            0: none.
    """

    digest: str = ""
    session: int = 0


@dataclass(slots=True)
class Places:
    """Who was asked to take part in a round.

    Attributes:
        number: The round.
        of: Node -> its place, which stands for its number in streams of chance.
        session: The number of the first attempt.
        keep: Whether clients keep their models: not if most are away in each round,
            as they then get it anyway.
    """

    number: int
    of: dict[int, int]
    session: int = 0
    keep: bool = True

    @classmethod
    def among(cls, number: int, nodes: list[int]) -> "Places":
        """Return places in the order of node numbers."""
        return cls(number, {node: i for i, node in enumerate(sorted(nodes))})

    def __len__(self) -> int:
        return len(self.of)
