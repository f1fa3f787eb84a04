"""Compare engines that generate text: a random Llama of 134 M, 128 tokens in and 256 out.

    pip install xllamacpp onnxruntime-genai onnx_ir openvino-genai transformers torch
    python -m benchmarks.text_speed --vs llama.cpp,onnxruntime-genai,openvino-genai

Models are made once, in `--folder`. Engines take turns, one text each, for some rounds; the best
first token and the best rate of each count. An engine that does not read a format is left out.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click

from benchmarks.text_models import PRECISIONS, STORES, write_gguf, write_onnx
from benchmarks.text_worker import PROMPT


class Engine:
    """A process that generates by one engine."""

    def __init__(self, name: str, model: Path, threads: int) -> None:
        self.name, self.best = name, (float("inf"), 0.0)
        command = [sys.executable, "-m", "benchmarks.text_worker", name, model, str(threads)]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=none, text=True)
        self.is_ready = self._answer("ready") is not None

    def run(self, seed: int) -> None:
        """Generate once."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        answer = self._answer("result")
        if answer is None:
            self.is_ready = False
            return
        first, rate = map(float, answer)
        self.best = min(self.best[0], first), max(self.best[1], rate)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def _answer(self, word: str) -> list[str] | None:
        """The rest of the next line that begins with a word; None if none comes."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(word):
                return line.split()[1:]
        return None


@click.command(help=__doc__)
@click.option("--vs", default="llama.cpp", show_default=True, help="Engines to compare with.")
@click.option("--weights", default=",".join(STORES), show_default=True)
@click.option("--threads", default="1,2", show_default=True)
@click.option("--rounds", default=5, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), default=Path("build/text_speed"))
def main(vs: str, weights: str, threads: str, rounds: int, folder: Path) -> None:
    """Print a table in Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    print("| weights | threads | engine | decode, tokens/s | prefill, tokens/s |")
    print("|---|---:|---|---:|---:|", flush=True)
    for kind in weights.split(","):
        for count in map(int, threads.split(",")):
            for name, first, rate in _compare(
                ["afterglow", *vs.split(",")], kind, count, rounds, folder
            ):
                print(
                    f"| {kind} | {count} | {name} | {rate:.0f} | {PROMPT / first:.0f} |", flush=True
                )


def _compare(
    names: list[str], kind: str, threads: int, rounds: int, folder: Path
) -> list[tuple[str, float, float]]:
    """Names of engines, with their best seconds to the first token and tokens a second."""
    models = {name: _model(name, kind, folder) for name in names}
    started = [Engine(name, path, threads) for name, path in models.items() if path is not None]
    try:
        for seed in range(rounds + 1):  # the first warms up
            if seed == 1:
                for engine in started:
                    engine.best = float("inf"), 0.0
            for engine in started:
                if engine.is_ready:
                    engine.run(seed)
    finally:
        for engine in started:
            engine.close()
    return [(engine.name, *engine.best) for engine in started if engine.is_ready]


def _model(engine: str, kind: str, folder: Path) -> Path | None:
    """A model in the form that an engine reads; None if it does not read such weights."""
    if engine == "onnxruntime-genai":
        path, write = folder / f"onnx-{kind}", write_onnx
        if kind not in PRECISIONS:
            return None
    else:
        path, write = folder / f"{kind}.gguf", write_gguf
    if not path.exists():
        write(path, kind)
    return path


if __name__ == "__main__":
    main()
