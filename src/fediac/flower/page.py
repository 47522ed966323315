"""A page about a run inside Flower: one file, which needs nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flwr.serverapp.strategy import Result
from jinja2 import Environment

from fediac.console import own_version
from fediac.files import write_whole
from fediac.flower.metrics import PREFIX
from fediac.palette import LIGHT

_WIDTH, _HEIGHT = 640, 220
_LEFT, _BOTTOM = 60, 30


def write_page(result: Result, path: Path, *, title: str = "Run inside Flower") -> None:
    """Write a page with a run's rounds: accuracy, bytes, members, gamma.

    Args:
        result: What ``strategy.start`` returned.
        path: The file.
        title: What stands above it.
    """
    rounds = sorted(result.train_metrics_clientapp)
    ours = [_of(result.train_metrics_clientapp[number]) for number in rounds]
    scores = {
        number: dict(each) for number, each in result.evaluate_metrics_serverapp.items()
    }
    for number, each in result.evaluate_metrics_clientapp.items():
        scores.setdefault(number, {}).update(each)
    accuracy = _accuracy(scores)
    names = {name for each in ours for name in each if name.endswith("-up")}
    phases = sorted(
        {name.split("-")[1] for name in names if name.count("-") > 1} - {"model"}
    )
    page = Environment(autoescape=True).from_string(_PAGE)
    text = page.render(
        title=title,
        version=own_version(),
        rows=[
            {"round": number, "accuracy": accuracy.get(number), **each}
            for number, each in zip(rounds, ours, strict=True)
        ],
        phases=phases,
        lines=_line(accuracy),
        bars=_bars(rounds, ours),
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        floor=_HEIGHT - _BOTTOM,
        colors=LIGHT,
        n_up=sum(each.get("bytes-up", 0) for each in ours),
        n_down=sum(each.get("bytes-down", 0) for each in ours),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)


def _of(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name.removeprefix(PREFIX): each
        for name, each in metrics.items()
        if name.startswith(PREFIX)
    }


def _accuracy(scores: Mapping[int, Mapping[str, Any]]) -> dict[int, float]:
    """Return the accuracy of rounds, under whatever name an app has it."""
    found: dict[int, float] = {}
    for number, each in scores.items():
        for name, value in each.items():
            if "acc" in name.lower():
                found[number] = float(value)
                break
    return dict(sorted(found.items()))


def _line(accuracy: Mapping[int, float]) -> str:
    """Return the points of a line over the rounds, accuracy from 0 to 1."""
    last = max(accuracy, default=0) or 1
    wide, high = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10
    return " ".join(
        f"{_LEFT + wide * number / last:.1f},{_HEIGHT - _BOTTOM - high * value:.1f}"
        for number, value in accuracy.items()
    )


def _bars(
    rounds: Sequence[int], ours: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a pair of bars for each round: bytes up and down."""
    most = max(
        (each.get(f"bytes-{way}", 0) for each in ours for way in ("up", "down")),
        default=0,
    )
    wide, high = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10
    step = wide / max(1, len(rounds))
    bars = []
    for place, (number, each) in enumerate(zip(rounds, ours, strict=True)):
        for side, way in enumerate(("up", "down")):
            n_bytes = each.get(f"bytes-{way}", 0)
            tall = high * n_bytes / most if most else 0.0
            bars.append(
                {
                    "x": round(_LEFT + step * (place + 0.15 + 0.35 * side), 1),
                    "y": round(_HEIGHT - _BOTTOM - tall, 1),
                    "width": round(0.33 * step, 1),
                    "height": round(tall, 1),
                    "way": way,
                    "title": f"round {number}: {n_bytes:,} bytes {way}",
                }
            )
    return bars


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; color: #1a1a1a; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd; }
.wide { overflow-x: auto; }
svg { max-width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: #444; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>{{ rows|length }} rounds made, {{ '{:,}'.format(n_up) }} bytes up and
{{ '{:,}'.format(n_down) }} down, of all nodes together, headers not counted.</p>
{% if lines %}
<h2>Accuracy</h2>
<svg viewBox="0 0 {{ width }} {{ height }}" role="img"
 aria-label="Accuracy over the rounds">
<line x1="{{ left }}" y1="{{ floor }}" x2="{{ width }}" y2="{{ floor }}"
 stroke="#888"/>
<line x1="{{ left }}" y1="10" x2="{{ left }}" y2="{{ floor }}" stroke="#888"/>
<text x="20" y="16">1.0</text><text x="20" y="{{ floor }}">0.0</text>
<polyline points="{{ lines }}" fill="none" stroke="{{ colors[0] }}"
 stroke-width="2"/>
</svg>
{% endif %}
<h2>Bytes of a round</h2>
<svg viewBox="0 0 {{ width }} {{ height }}" role="img"
 aria-label="Bytes up and down in each round">
<line x1="{{ left }}" y1="{{ floor }}" x2="{{ width }}" y2="{{ floor }}"
 stroke="#888"/>
{% for bar in bars %}<rect x="{{ bar.x }}" y="{{ bar.y }}" width="{{ bar.width }}"
 height="{{ bar.height }}"
 fill="{{ colors[0] if bar.way == 'up' else colors[1] }}"><title>{{ bar.title
 }}</title></rect>
{% endfor %}</svg>
<h2>Rounds</h2>
<div class="wide"><table>
<thead><tr><th>round</th><th>accuracy</th><th>members</th><th>lost</th><th>chosen</th>
<th>gamma</th>{% for phase in phases %}<th>{{ phase }} up</th><th>{{ phase }} down</th>
{% endfor %}<th>model down</th><th>over switch</th></tr></thead>
<tbody>
{% for row in rows %}<tr><td>{{ row.round }}</td>
<td>{{ '%.4f'|format(row.accuracy) if row.accuracy is not none else '' }}</td>
<td>{{ row.members }}</td><td>{{ row.lost }}</td><td>{{ row.chosen }}</td>
<td>{{ '%.4f'|format(row.gamma) if row.gamma is defined else '' }}</td>
{% for phase in phases %}<td>{{ row['bytes-' ~ phase ~ '-up'] }}</td>
<td>{{ row['bytes-' ~ phase ~ '-down'] }}</td>
{% endfor %}<td>{{ row['bytes-model-down'] }}</td>
<td>{{ 'yes' if row['over-switch'] else 'no' }}</td></tr>
{% endfor %}</tbody></table></div>
<p>fediac {{ version }}</p>
</body>
</html>
"""
