"""What the values of settings may be: types, their words, and their checks."""

import math
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from fediac.core.shares import parse_portion, parse_share
from fediac.errors import ConfigError
from fediac.number_words import join

_SHARES = (int, str)

Seed: TypeAlias = Annotated[int, "seed"]
"""A whole number of up to 64 bits; counts have one bit less, as integers of TOML do."""

_MAX_SHOWN = 40
"""Digits of a number that is shown in an error as it is."""

Portion: TypeAlias = Annotated[float, "portion"]
"""A part of 1, written as such or as a share."""


def convert(value: object, wanted: Any, path: str) -> Any:  # noqa: ANN401 - any type
    """Return ``value`` if the annotation ``wanted`` allows it.

    Args:
        value: As TOML has it.
        wanted: The type of a settings dataclass's field.
        path: What to call the setting in an error.

    Raises:
        ConfigError: It does not.
    """
    options = kinds_of(wanted)
    _require_sane(value, path, n_bits=64 if options == (Seed,) else 63)
    try:
        if options == (Portion,):
            return parse_portion(value, name=path)
        if _is_share(options) and isinstance(value, int | str):
            if value in _words(options):
                return value
            _require_sane(parse_share(value, of=1, name=path), path, n_bits=63)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    for option in options:
        if get_origin(option) is tuple and isinstance(value, list | tuple):
            return tuple(convert(each, get_args(option)[0], path) for each in value)
        if _is_of(value, option):
            return float(value) if option is float else value  # type: ignore[arg-type] # a number
    hint = _hint(value, options)
    raise ConfigError(f"{path} must be {describe_kind(wanted)}, got {value!r}{hint}")


def _require_sane(value: object, path: str, *, n_bits: int) -> None:
    """Refuse numbers that no setting can have: they would only fail later.

    NaN is not even equal to itself: a run with it could never be resumed.
    """
    if type(value) is float and math.isnan(value):
        raise ConfigError(f"{path} must be a number, got nan")
    if type(value) is int and abs(value) >> n_bits:
        n_digits = len(str(abs(value)))
        shown = f"{value}" if n_digits <= _MAX_SHOWN else f"{n_digits} digits"
        raise ConfigError(f"{path} must be below 2**{n_bits}, got {shown}")


def _hint(value: object, options: tuple[Any, ...]) -> str:
    """Return how the value is written right, where that is plain to see."""
    if _is_share(options) and isinstance(value, float) and 0.0 < value < 1.0:
        return f'; write "{100.0 * value:g}%"'
    if isinstance(value, str) and get_origin(options[0]) is tuple:
        return f'; write ["{value}"]'
    return ""


def _is_share(options: tuple[Any, ...]) -> bool:
    """Return whether a setting is a count or a share, or one of a few words instead."""
    return options[:2] == _SHARES


def _words(options: tuple[Any, ...]) -> tuple[str, ...]:
    literals = [each for each in options if get_origin(each) is Literal]
    return tuple(word for each in literals for word in get_args(each))


def _is_of(value: object, option: Any) -> bool:  # noqa: ANN401 - any type
    """Return whether TOML's value is of that type; true is no number there."""
    if get_origin(option) is Literal:
        return value in get_args(option)
    if option is float or option == Seed:
        return type(value) is int or type(value) is option
    return type(value) is option


def kinds_of(wanted: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any annotation
    """Return the types that an annotation allows, without None."""
    is_union = get_origin(wanted) in (Union, UnionType)
    options = get_args(wanted) if is_union else (wanted,)
    return tuple(option for option in options if option is not NoneType)


def describe_kind(wanted: Any) -> str:  # noqa: ANN401 - any annotation
    """Return an annotation in words."""
    options = kinds_of(wanted)
    if _is_share(options):
        words = [f'"{each}"' for each in _words(options)]
        return join(["a whole number", 'a share such as "5%"', *words], "or")
    names = {
        int: "a whole number",
        Seed: "a whole number",
        float: "a number",
        bool: "true or false",
    }
    names |= {str: "a string", Portion: 'a number up to 1 or a share such as "95%"'}
    words = []
    for option in options:
        if get_origin(option) is Literal:
            words += [f'"{each}"' for each in get_args(option)]
        elif get_origin(option) is tuple:
            words.append("a list of strings")
        else:
            words.append(names[option])
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
