"""Notice models that have become slower: compare ratios to a peer with those that are stored.

    python benchmarks/guard.py [MODEL.onnx or FOLDER …] [--peer-python PATH] [--tolerance 0.1]

Both engines are measured in the same run, so a slow machine slows both. A model whose ratio is
larger than the one in benchmarks/ratios.json by more than the tolerance is measured again, for
longer; if it is still so, it is listed, and the exit status is 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from run import DEMO, PEERS, RATIOS, measured, models


def ratio_of(path: Path, threads: int, options: dict[str, Any], longer: float = 1.0) -> float:
    """The ratio today; infinite if the model does not run."""
    seconds = options["seconds"] * longer
    row = measured(path, threads, {**options, "seconds": seconds})
    return float("inf") if row is None or row.ratio is None else row.ratio


def is_slower(path: Path, threads: int, stored: float, options: dict[str, Any]) -> bool:
    """Whether the ratio is worse than the stored one, twice; says so."""
    limit = stored * (1 + options["tolerance"])
    ratio = ratio_of(path, threads, options)
    if ratio > limit:
        ratio = min(ratio, ratio_of(path, threads, options, longer=3))
    verdict = "slower" if ratio > limit else "as before"
    print(f"{path.stem:24} {threads} threads: {ratio:6.2f}, stored {stored:6.2f}: {verdict}")
    return ratio > limit


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--seconds", default=2.0, show_default=True, help="Of timing, for each engine.")
@click.option("--vs", "peers", default=PEERS, show_default=True, help="The engines.")
@click.option("--peer-python", default=sys.executable, help="A Python that has them.")
@click.option("--tolerance", default=0.1, show_default=True, help="How much slower is no matter.")
def main(paths: tuple[Path, ...], **options: Any) -> None:
    """Compare every model in PATHS that has a stored ratio."""
    stored = json.loads(RATIOS.read_text())
    slower = [
        name
        for path in models(paths or [DEMO])
        for name in (f"{path.stem} {threads}" for threads in (1, 2))
        if name in stored and is_slower(path, int(name.split()[-1]), stored[name], options)
    ]
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
