"""What options of several commands share."""

from contextlib import AbstractContextManager

from fediac.experiments.naming import named

RESNET18 = "11173962"
"""Entries of the paper's model for CIFAR-10, as an option's default."""


def named_options(*same: str, **others: str) -> AbstractContextManager[None]:
    """Let errors name options where they would name arguments.

    Args:
        same: Options called like the arguments.
        others: Argument -> option.
    """
    options = {name: name for name in same} | others
    return named({name: f"--{option}" for name, option in options.items()})
