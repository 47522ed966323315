"""Put a run's folder into results/mechanisms.json, which docs/mechanisms.md reads.

    python tools/store_mechanism.py runs/cifar cifar10-iid clip7-dense-recalibrate

takes the place of the run that has this scenario, name and seed, if there is one. A run
that was stopped is stored as far as it got.
"""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "results" / "mechanisms.json"

FACTS = ("chosen", "clamped", "gamma", "train_s", "compress_s")


def read_folder(folder: Path, scenario: str, name: str) -> dict[str, Any]:
    """Return what is kept of a run."""
    config = tomllib.loads((folder / "config.toml").read_text(encoding="utf-8"))
    lines = (folder / "rounds.jsonl").read_text(encoding="utf-8").splitlines()
    return {
        "scenario": scenario,
        "name": name,
        "seed": config["seed"],
        "settings": {
            "fediac": config["fediac"],
            "statistics": config["train"]["statistics"],
            "target": config["stop"]["target"],
        },
        "versions": config["versions"],
        "rounds": [_shorten(json.loads(line)) for line in lines],
    }


def _shorten(record: dict[str, Any]) -> dict[str, Any]:
    kept = {name: record[name] for name in ("accuracy", "payload_mib", "time_s")}
    traffic = record["traffic"]["payload"]
    return kept | {"traffic": traffic} | {name: record[name] for name in FACTS}


def store(run: dict[str, Any], path: Path) -> None:
    """Write a run in the place of an earlier one of its name, or after all others."""
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
    kept = {(each["scenario"], each["name"], each["seed"]): each for each in runs}
    kept[run["scenario"], run["name"], run["seed"]] = run
    lines = ",\n".join(
        json.dumps(each, separators=(",", ":")) for each in kept.values()
    )
    path.write_text(f'{{"runs": [\n{lines}\n]}}\n', encoding="utf-8")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("scenario")
    parser.add_argument("name")
    given = parser.parse_args()
    store(read_folder(given.folder, given.scenario, given.name), TARGET)


if __name__ == "__main__":
    main()
