"""The folder of a run: whether a run may begin or go on there, and its settings."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fediac.errors import ConfigError, say_count
from fediac.files import write_whole
from fediac.imports import hash_source
from fediac.names import is_own
from fediac.runs.build import choose_device
from fediac.runs.given import Given
from fediac.runs.provenance import WENT_ON, as_versions, read_writers
from fediac.runs.recording import stop_reason
from fediac.runs.records import CHECKPOINT, CONFIG, ROUNDS, SUMMARY, read_rounds
from fediac.runs.settings import (
    EXPERIMENT,
    RunSettings,
    as_document,
    by_key,
    list_differing,
    read_settings,
)
from fediac.runs.settings.toml_tables import read_table
from fediac.runs.versions import describe_training, describe_versions

MODEL = "model.safetensors"


@dataclass(frozen=True, slots=True)
class _WaysOut:
    """What an error tells people to do, in options or in arguments."""

    resume: str = "add --resume"
    out: str = "give another --out"
    kernels: str = "add --allow-other-kernels"


_COMMAND = _WaysOut()
_PYTHON = _WaysOut(
    "set resume=True", "give another out", "set allow_other_kernels=True"
)


def check_folder(
    settings: RunSettings,
    folder: Path,
    *,
    resumes: bool,
    allows_other_kernels: bool = False,
    given: Given | None = None,
) -> None:
    """Refuse a folder that holds a run, unless that is to go on with these settings.

    Args:
        settings: The run's settings.
        folder: Its folder, which may not be there yet.
        resumes: Whether a run there may go on.
        allows_other_kernels: Whether it may do so where its last bits will be others.
        given: What the run is given in Python; None: it has its settings alone.

    Raises:
        ConfigError: The folder holds a run and ``resumes`` is False, or another run.
    """
    ways = _COMMAND if given is None else _PYTHON
    below = next(folder.glob(f"*/{ROUNDS}"), None)
    if below is not None:
        raise ConfigError(
            f"{folder}: holds other runs in folders of their own, such as "
            f"{below.parent.name}; {ways.out}"
        )
    if _holds_run(folder):
        if not resumes:
            raise ConfigError(
                f"{folder}: holds a run already; {ways.resume} to go on with it, or "
                f"{ways.out}"
            )
        _check_old(settings, folder, given)
        if (folder / SUMMARY).exists() and not (folder / CHECKPOINT).exists():
            raise ConfigError(
                f"{folder}: holds a run that has ended and no checkpoint to go on "
                f"from; {ways.out}"
            )
        if not allows_other_kernels:
            _check_kernels(folder / CONFIG, settings, ways)


def _check_old(settings: RunSettings, folder: Path, given: Given | None) -> None:
    """Refuse to go on with a run that was another one."""
    config = folder / CONFIG
    before = read_table(config).get(EXPERIMENT)
    if given is None:
        if before is not None:
            raise ConfigError(
                f"{folder}: holds a run of fediac.Experiment, whose model and data are "
                "in Python; go on with it there, with resume=True"
            )
        _check_same(config, settings)
        _check_own_code(config, settings)
        return
    if before is None:
        raise ConfigError(
            f"{folder}: holds a run of a settings file; go on with it by fediac run "
            f"--resume, or {_PYTHON.out}"
        )
    _check_same(config, settings)
    for name, now in given.describe().items():
        if before.get(name) != now:
            raise ConfigError(
                f"{config}: {name} was {before.get(name)!r}, got {now!r}; going on "
                f"needs the same model, data and settings; {_PYTHON.out}"
            )
    gone = before.keys() - given.describe().keys()
    if gone:
        name = min(gone)
        raise ConfigError(
            f"{config}: {name} was {before[name]!r}, got none; going on needs the same "
            f"model, data and settings; {_PYTHON.out}"
        )


def _holds_run(folder: Path) -> bool:
    """Return whether a run was begun here; one that failed in its first round was not.

    A config.toml alone may be the user's own.
    """
    rounds = folder / ROUNDS
    if rounds.exists() and not (folder / CHECKPOINT).exists():
        return rounds.stat().st_size > 0
    return rounds.exists() or (folder / CONFIG).exists()


def write_config(
    settings: RunSettings, folder: Path, n_rounds: int, given: Given | None = None
) -> None:
    """Put the settings into the folder, all or nothing.

    Args:
        settings: The run's settings.
        folder: Its folder.
        n_rounds: Rounds it has done already, perhaps with other kernels.
        given: What it was given in Python.
    """
    import tomli_w  # needed to write settings, not to read or compare them

    document = _resolved(settings)
    own = describe_versions(document["train"]["device"])
    if given is None:
        own |= _hash_own_code(settings)
    else:
        document[EXPERIMENT] = given.describe()
    config = folder / CONFIG
    is_old = config.exists() and _holds_run(folder)
    before = read_writers(config) if is_old else ()
    if before and _is_over(settings, folder):
        own = dict(before[-1])  # nothing is added to it
    elif before and n_rounds:
        changed = _changed_kernels(config, settings)
        note = f"after {say_count(n_rounds, 'round')}: {changed}"
        own |= {WENT_ON: note} if changed else {}
    document["versions"] = as_versions(own, before)
    write_whole(config, tomli_w.dumps(document))


def _resolved(settings: RunSettings) -> dict[str, Any]:
    """Return settings as TOML has them, with the device of this machine.

    Another one would give other bits.
    """
    document = _plain(settings)
    document["train"]["device"] = choose_device(settings.train.device)
    return document


def _plain(settings: RunSettings) -> dict[str, Any]:
    """Return settings as TOML has them: tables without what is None."""

    def clean(table: dict[str, Any]) -> dict[str, Any]:
        return {key: plain(each) for key, each in table.items() if each is not None}

    def plain(value: object) -> object:
        if isinstance(value, dict):
            return clean(value)
        return list(value) if isinstance(value, tuple) else value

    return clean(as_document(settings))


def _check_same(config: Path, settings: RunSettings) -> None:
    """Refuse to go on with a run whose settings were others, but for when it stops.

    One that was begun before a setting existed has had its default.
    """
    document, before = _resolved(settings), _plain(read_settings(config))
    differing = list_differing([document, before], but=("stop.", "save."))
    if differing:
        key = differing[0]
        had, wanted = by_key(before).get(key), by_key(document).get(key)
        raise ConfigError(
            f"{config}: {key} was {had!r}, got {wanted!r}; going on needs the same "
            "settings, but for [stop] and [save]"
        )


def _check_own_code(config: Path, settings: RunSettings) -> None:
    """Refuse to go on with a user's own code if its file is another one by now."""
    writers = read_writers(config)
    before = writers[-1] if writers else {}
    hashes = _hash_own_code(settings).items()
    changed = [key for key, now in hashes if before.get(key, now) != now]
    if changed:
        what = changed[0].removesuffix(_HASH)
        raise ConfigError(
            f"{config}: the file of {what} {_name_own_code(settings)[what]!r} has "
            "changed since; going on needs the same one; give another --out, or take "
            f"{' and '.join(changed)} out of {config.name} to go on all the same"
        )


def _check_kernels(config: Path, settings: RunSettings, ways: _WaysOut) -> None:
    """Refuse to go on where training would give other last bits."""
    folder = config.parent
    if not (folder / CHECKPOINT).exists() or _is_over(settings, folder):
        return  # nothing that others have trained goes on
    changed = _changed_kernels(config, settings)
    if changed:
        raise ConfigError(
            f"{config}: {changed}; going on would give other last bits; "
            f"{ways.kernels} to go on all the same"
        )


def _changed_kernels(config: Path, settings: RunSettings) -> str:
    """Return in what those who trained last differ from here; empty if in nothing.

    What older versions did not write down is taken for the same.
    """
    writers = read_writers(config)
    before = writers[-1] if writers else {}
    now = describe_training(choose_device(settings.train.device))
    return ", ".join(
        f"{key} was {before[key]!r}, got {value!r}"
        for key, value in now.items()
        if before.get(key, value) != value
    )


def _is_over(settings: RunSettings, folder: Path) -> bool:
    """Return whether a run has ended where these settings would end it."""
    if not (folder / SUMMARY).exists():
        return False
    path = folder / ROUNDS
    rounds = read_rounds(path.read_bytes().splitlines(), path)
    return bool(rounds) and bool(stop_reason(settings.stop, rounds[-1]))


_HASH = "_sha256"


def _hash_own_code(settings: RunSettings) -> dict[str, str]:
    """Return versions of a user's own algorithm and model, where there are any."""
    hashes = {
        f"{what}{_HASH}": hash_source(what, name)
        for what, name in _name_own_code(settings).items()
    }
    return {key: each for key, each in hashes.items() if each is not None}


def _name_own_code(settings: RunSettings) -> dict[str, str]:
    named = {"algorithm": settings.algorithm, "model": settings.model.name}
    return {what: name for what, name in named.items() if is_own(name)}


def drop_model(folder: Path) -> None:
    """Delete the model and the checkpoint of a run; what it measured stays."""
    for name in (CHECKPOINT, MODEL):
        (folder / name).unlink(missing_ok=True)
