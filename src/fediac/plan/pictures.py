"""How every picture looks, and how it is saved: the same bits every time.

Matplotlib is an optional extra, so it is imported when a picture is asked for, and
without pyplot, so that nothing global changes. Colours are those of Okabe and Ito,
which colour-blind people can tell apart.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

from fediac.errors import ConfigError, say_reason
from fediac.files import write_whole

Axes: TypeAlias = Any
Figure: TypeAlias = Any

SUFFIXES = (".png", ".pdf", ".svg")

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PURPLE, SKY, GREY = "#CC79A7", "#56B4E9", "#777777"

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "savefig.dpi": 150,
    "svg.fonttype": "none",
    "svg.hashsalt": "fediac",
}


def check_plot(path: Path) -> None:
    """Check that a picture can be made before anything is computed for it.

    Raises:
        ConfigError: The file's name, its folder, or Matplotlib is missing.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: a picture must end in {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: no such folder")
    require_matplotlib()


def require_matplotlib() -> None:
    """Refuse to go on without what draws.

    Raises:
        ConfigError: Matplotlib is not installed.
    """
    try:
        import matplotlib as _  # noqa: F401 - whether it is there
    except ImportError as error:
        raise ConfigError(
            "pictures need matplotlib: pip install 'fediac[plot]'"
        ) from error


@contextmanager
def open_figure(
    *, width: float, height: float, text: float | None = None
) -> Iterator[Figure]:
    """Give an empty figure, in inches, in this package's style while it is drawn.

    ``text`` are the points of all its text; None: those of the style.
    """
    import matplotlib
    from matplotlib.figure import Figure as MatplotlibFigure

    sizes = ("font.size", "axes.titlesize", "axes.labelsize", "legend.fontsize")
    ticks = ("xtick.labelsize", "ytick.labelsize")
    own = {} if text is None else dict.fromkeys((*sizes, *ticks), text)
    with matplotlib.rc_context(_STYLE | own):
        yield MatplotlibFigure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path, *, title: str, description: str) -> None:
    """Write a picture; an SVG has no date, and says in words what it shows.

    Raises:
        ConfigError: The file cannot be written.
    """
    picture = io.BytesIO()
    kind = path.suffix[1:].lower()
    # Neither the day nor the release of Matplotlib belongs to what is shown.
    left_out = {"svg": ("Date", "Creator"), "pdf": ("CreationDate", "Producer")}
    metadata = dict.fromkeys(left_out.get(kind, ()))
    figure.savefig(picture, format=kind, metadata=metadata)
    content = picture.getvalue()
    if kind == "svg":
        content = _describe(content.decode(), title, description).encode()
    try:
        write_whole(path, content)
    except OSError as error:
        raise ConfigError(f"{path}: {say_reason(error)}") from error


def _describe(svg: str, title: str, description: str) -> str:
    """Return an SVG with a role, a title and a description for screen readers."""
    start = svg.index("<svg ")
    stop = svg.index(">", start) + 1
    root = svg[start : stop - 1] + ' role="img" aria-labelledby="title desc">'
    words = (
        f'\n <title id="title">{escape(title)}</title>'
        f'\n <desc id="desc">{escape(description)}</desc>'
    )
    return svg[:start] + root + words + svg[stop:]
