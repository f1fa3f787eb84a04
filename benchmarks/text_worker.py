"""Generate text by one engine whenever it is told.

    python -m benchmarks.text_worker ENGINE MODEL THREADS

After "ready" on a line, each number on a line of the input is the seed of a prompt of 128 tokens;
the answer is how many seconds the first token took, and how many tokens a second the next 255.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

import numpy as np

from benchmarks.text_models import VOCABULARY

PROMPT, NEW = 128, 256
Run: TypeAlias = Callable[[list[int]], tuple[float, float]]
"""From the tokens of a prompt to seconds until the first token, and tokens a second after it."""


def afterglow(model: Path, threads: int) -> Run:
    """Afterglow's generator."""
    text = import_module("afterglow.text")
    generator = text.Generator(model, context=PROMPT + NEW, threads=threads)

    def run(prompt: list[int]) -> tuple[float, float]:
        start = time.perf_counter()
        times = [
            time.perf_counter()
            for piece in generator.stream(prompt, NEW, stop_tokens=[])
            for _ in piece.tokens
        ]
        return times[0] - start, (len(times) - 1) / (times[-1] - times[0])

    return run


def llama_cpp(model: Path, threads: int) -> Run:
    """The engine of llama.cpp, in the package xllamacpp."""
    xllamacpp = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = str(model), PROMPT + NEW, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)

    def run(prompt: list[int]) -> tuple[float, float]:
        asked = {"prompt": prompt, "n_predict": NEW, "temperature": 0, "ignore_eos": True}
        got = server.handle_completions({**asked, "cache_prompt": False})
        times = (got if isinstance(got, dict) else json.loads(got))["timings"]
        assert times["prompt_n"] >= PROMPT - 1
        return times["prompt_ms"] / 1e3, times["predicted_per_second"]

    return run


def onnxruntime_genai(folder: Path, threads: int) -> Run:
    """The engine onnxruntime-genai, for a model of its own builder."""
    genai = import_module("onnxruntime_genai")
    path = folder / "genai_config.json"
    config = json.loads(path.read_text())
    config["model"]["decoder"]["session_options"]["intra_op_num_threads"] = threads
    path.write_text(json.dumps(config))
    model = genai.Model(str(folder))

    def run(prompt: list[int]) -> tuple[float, float]:
        params = genai.GeneratorParams(model)
        length = PROMPT + NEW
        params.set_search_options(max_length=length, min_length=length, do_sample=False)
        generator = genai.Generator(model, params)
        start = time.perf_counter()
        generator.append_tokens(np.int32(prompt))
        generator.generate_next_token()
        first = time.perf_counter()
        for _ in range(NEW - 1):
            generator.generate_next_token()
        return first - start, (NEW - 1) / (time.perf_counter() - first)

    return run


def openvino_genai(model: Path, threads: int) -> Run:
    """The engine openvino-genai, which reads GGUF."""
    genai, openvino = import_module("openvino_genai"), import_module("openvino")
    pipeline = genai.LLMPipeline(str(model), "CPU", INFERENCE_NUM_THREADS=threads)
    config = genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.apply_chat_template = NEW, True, False

    def run(prompt: list[int]) -> tuple[float, float]:
        tokens = np.int64(prompt)[None]
        given = openvino.Tensor(tokens), openvino.Tensor(np.ones_like(tokens))
        metrics = pipeline.generate(genai.TokenizedInputs(*given), config).perf_metrics
        return metrics.get_ttft().mean / 1e3, 1e3 / metrics.get_tpot().mean

    return run


ENGINES = {
    "afterglow": afterglow,
    "llama.cpp": llama_cpp,
    "onnxruntime-genai": onnxruntime_genai,
    "openvino-genai": openvino_genai,
}


def main() -> None:
    """Load a model and run it, as the command line and the input say."""
    engine, model, threads = sys.argv[1:]
    run = ENGINES[engine](Path(model), int(threads))
    print("ready", flush=True)
    for line in sys.stdin:
        rng = np.random.default_rng(int(line))
        prompt = rng.integers(3, VOCABULARY - 1, PROMPT).tolist()
        print("result", *run(prompt), flush=True)


if __name__ == "__main__":
    main()
