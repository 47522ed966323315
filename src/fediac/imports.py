"""Import a user's own code by its name: ``module:name``."""

import hashlib
import importlib
import re
import sys
import traceback
from functools import cache
from pathlib import Path
from typing import Any

from fediac.errors import ConfigError


def import_named(what: str, name: str) -> Any:  # noqa: ANN401 - whatever has the name
    """Return what ``name`` names, in the current folder or an installed package.

    Args:
        what: The setting that was given the name, for errors.
        name: ``module:name``, each as Python spells it.

    Raises:
        ConfigError: There is no such module or name, or the module fails.
    """
    module, _, attribute = name.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # a command looks beside itself only
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        why = say_fault(error) + _hint(module, attribute)
        raise ConfigError(f"{what} {name!r} cannot be imported: {why}") from error
    _hash_files(*_modules_of(module, found))
    return found


def hash_source(what: str, name: str) -> str | None:
    """Return the SHA-256 of the file that defines ``name``; None if there is no file.

    That is the module, and the one of its package that defines what it only hands on,
    as they were when they were imported. What they import in turn is not in it.

    Args:
        what: The setting that was given the name, for errors.
        name: ``module:name``; the module is imported where it is not yet.

    Raises:
        ConfigError: There is no such module or name, or the module fails.
    """
    found: object = import_named(what, name)
    return _hash_files(*_modules_of(name.partition(":")[0], found))


def _modules_of(module: str, found: object) -> list[str]:
    """Return the module of a name, and the one in its package that defines it."""
    defining = str(getattr(found, "__module__", module))
    is_inside = defining.partition(".")[0] == module.partition(".")[0]
    return list(dict.fromkeys([module, defining])) if is_inside else [module]


@cache  # a file may change afterwards, what was imported does not
def _hash_files(*modules: str) -> str | None:
    whole = hashlib.sha256()
    for module in modules:
        place = getattr(sys.modules.get(module), "__file__", None)
        try:
            whole.update(Path(place or "").read_bytes())
        except OSError:  # built into Python, in an archive, or deleted already
            return None
    return whole.hexdigest()


def _hint(module: str, attribute: str) -> str:
    """Return a hint about what the user may have meant, if a file here suggests it."""
    if module.endswith(".py") or "/" in module or "\\" in module or " " in module:
        parts = re.split(r"[\\/\s]+", module.removesuffix(".py").strip("./\\ "))
        named = f"{'.'.join(parts)}:{attribute.strip()}"
        return f"; a module is named as in import, without .py: {named}"
    own, found = Path.cwd() / f"{module}.py", sys.modules.get(module)
    place = getattr(found, "__file__", None)
    is_own = place is not None and Path(place).resolve() == own.resolve()
    if own.exists() and found and not is_own:
        return f"; {module} is installed too, give {own.name} another name"
    return ""


def say_fault(error: BaseException) -> str:
    """Return the error that a user's code raised and its line, as one line.

    Args:
        error: As it was caught by the function that imported or called that code.
    """
    text = " ".join(str(error).split())
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)[1:]
        if not each.filename.startswith("<") and each.filename != importlib.__file__
    ]
    if not frames:  # the module or the name is not there, or is not Python
        return text
    # It may have failed deep in a library: the user knows the line that called it.
    last = [each for each in frames if each.filename == frames[0].filename][-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    return f"{type(error).__name__}: {text} ({place})"
