"""What the values of settings may be: types, their words, and their checks."""

from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

from fediac.core.shares import parse_portion, parse_share
from fediac.errors import ConfigError

Share: TypeAlias = int | str
"""A count, or a share like "5%" of all there are."""

_SHARES = (int, str)

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
    try:
        if options == (Portion,):
            return parse_portion(value, name=path)
        if options == _SHARES and isinstance(value, int | str):
            parse_share(value, of=1, name=path)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    for option in options:
        if get_origin(option) is tuple and isinstance(value, list | tuple):
            return tuple(convert(each, get_args(option)[0], path) for each in value)
        if _is_of(value, option):
            return float(value) if option is float else value  # type: ignore[arg-type] # a number
    hint = _hint(value, options)
    raise ConfigError(f"{path} must be {describe_kind(wanted)}, got {value!r}{hint}")


def _hint(value: object, options: tuple[Any, ...]) -> str:
    """Return how the value is written right, where that is plain to see."""
    if options == _SHARES and isinstance(value, float) and 0.0 < value < 1.0:
        return f'; write "{100.0 * value:g}%"'
    if isinstance(value, str) and get_origin(options[0]) is tuple:
        return f'; write ["{value}"]'
    return ""


def _is_of(value: object, option: Any) -> bool:  # noqa: ANN401 - any type
    """Return whether TOML's value is of that type; true is no number there."""
    if get_origin(option) is Literal:
        return value in get_args(option)
    return type(value) is option or (option is float and type(value) is int)


def kinds_of(wanted: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any annotation
    """Return the types that an annotation allows, without None."""
    is_union = get_origin(wanted) in (Union, UnionType)
    options = get_args(wanted) if is_union else (wanted,)
    return tuple(option for option in options if option is not NoneType)


def describe_kind(wanted: Any) -> str:  # noqa: ANN401 - any annotation
    """Return an annotation in words."""
    options = kinds_of(wanted)
    if options == _SHARES:
        return 'a whole number or a share such as "5%"'
    names = {int: "a whole number", float: "a number", bool: "true or false"}
    names |= {str: "a string", Portion: 'a number up to 1 or a share such as "95%"'}
    words = []
    for option in options:
        if get_origin(option) is Literal:
            words += [f'"{each}"' for each in get_args(option)]
        elif get_origin(option) is tuple:
            words.append("a list of strings")
        else:
            words.append(names[option])
    return " or ".join(words)
