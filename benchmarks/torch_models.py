"""Models of torchvision, timm and transformers, with random weights, against PyTorch itself.

Each is exported and compiled, and must agree with eager PyTorch to 1e-4; `--compile` does the same
through `torch.compile(model, backend="afterglow")`. With `--time` each is timed, too: eager,
inductor and ours take turns, at each number of threads. First calls are those without any cache.

    python benchmarks/torch_models.py                     a table of all models
    python benchmarks/torch_models.py 'bert*' resnet18    of some
    python benchmarks/torch_models.py --compile --time --threads 1 2
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import itertools
import json
import logging
import math
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

import afterglow as ag

TOLERANCE = 1e-4
"""The largest difference, relative to the largest magnitude of an output."""
SECONDS = 1.0
"""How long calls by each way are timed."""


@dataclass(frozen=True)
class Case:
    """A model by name: what makes it, and what it is called with."""

    name: str
    make: Callable[[], tuple[torch.nn.Module, Any]]


@dataclass
class Row:
    """What became of a model."""

    name: str
    ways: dict[str, str] = field(default_factory=dict)
    """By the way in: the largest difference, or why there is none."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By what was timed: of a call, and of the first one."""


def define_missing_operators() -> None:
    """Let torchvision be imported where its compiled ops are not there."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):  # it is there
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    KEPT.append(library)


KEPT: list[Any] = []
"""What must live as long as the process."""

_IMAGE = 64


def _images(size: int = _IMAGE, batch: int = 1, channels: int = 3) -> tuple[torch.Tensor]:
    return (torch.randn(batch, channels, size, size),)


def torchvision_cases() -> Iterator[Case]:
    """Image models of torchvision at small images."""
    from torchvision import models  # noqa: PLC0415

    larger = {"inception_v3": 96, "vit_b_16": 224, "maxvit_t": 224, "alexnet": 96}
    names = (
        *("alexnet", "vgg11", "vgg11_bn", "resnet18", "resnet50", "resnext50_32x4d"),
        *("wide_resnet50_2", "densenet121", "googlenet", "inception_v3", "mobilenet_v2"),
        *("mobilenet_v3_small", "mobilenet_v3_large", "shufflenet_v2_x1_0", "squeezenet1_0"),
        *("squeezenet1_1", "mnasnet1_0", "efficientnet_b0", "efficientnet_v2_s", "regnet_y_400mf"),
        *("regnet_x_400mf", "convnext_tiny", "swin_t", "swin_v2_t", "vit_b_16", "maxvit_t"),
    )
    extra = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}
    for name in names:

        def make(name: str = name) -> tuple[torch.nn.Module, Any]:
            model = models.get_model(name, weights=None, **extra.get(name, {}))
            return model, _images(larger.get(name, _IMAGE))

        yield Case(name, make)
    yield Case(
        "fcn_resnet50",
        lambda: (models.segmentation.fcn_resnet50(weights=None, weights_backbone=None), _images()),
    )
    yield Case(
        "deeplabv3_mobilenet",
        lambda: (
            models.segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None),
            _images(),
        ),
    )
    yield Case(
        "r3d_18", lambda: (models.video.r3d_18(weights=None), (torch.randn(1, 3, 4, 32, 32),))
    )


def timm_cases() -> Iterator[Case]:
    """Small models of timm: its own tests' ones, and small ones of many families."""
    import timm  # noqa: PLC0415

    small = (
        *("ghostnet_100", "mobilenetv4_conv_small", "mobileone_s0", "repvgg_a0", "resnest14d"),
        *("res2net50_14w_8s", "levit_128s", "mobilevit_xxs", "edgenext_xx_small", "poolformer_s12"),
        *(
            "deit_tiny_patch16_224",
            "mixer_s32_224",
            "gmlp_ti16_224",
            "coat_lite_tiny",
            "crossvit_9_240",
        ),
        *("convit_tiny", "pit_ti_224", "xcit_nano_12_p16_224", "efficientformer_l1", "tinynet_e"),
        *("lcnet_050", "hardcorenas_a", "semnasnet_075", "fastvit_t8", "rexnet_100"),
    )
    for name in (*timm.list_models("test_*"), *small):

        def make(name: str = name) -> tuple[torch.nn.Module, Any]:
            model = timm.create_model(name, pretrained=False)
            channels, *size = model.default_cfg["input_size"]
            return model, (torch.randn(1, channels, *size),)

        yield Case(f"timm/{name}", make)


_TEXT = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
_DECODER = {**_TEXT, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
_VISION = {**_TEXT, "image_size": 32, "patch_size": 8}
_OTHER = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 99},
    "gptj": {
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 64,
        "vocab_size": 99,
        "rotary_dim": 8,
    },
    "gpt_neo": {
        "hidden_size": 32,
        "num_layers": 2,
        "num_heads": 4,
        "vocab_size": 99,
        "attention_types": [[["global", "local"], 1]],
        "max_position_embeddings": 64,
        "window_size": 8,
    },
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99},
    "opt": {**_TEXT, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "distilbert": {
        "dim": 32,
        "n_layers": 2,
        "n_heads": 4,
        "hidden_dim": 64,
        "vocab_size": 99,
        "max_position_embeddings": 64,
    },
    "squeezebert": {**_TEXT, "embedding_size": 32, "q_groups": 1, "k_groups": 1, "v_groups": 1},
    "albert": {**_TEXT, "embedding_size": 16},
    "electra": {**_TEXT, "embedding_size": 16},
    "xlnet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "vocab_size": 99},
    "deberta-v2": {
        **_TEXT,
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "position_buckets": 8,
    },
    "mixtral": {**_DECODER, "num_local_experts": 2, "num_experts_per_tok": 1},
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "vocab_size": 99},
    "esm": {**_TEXT, "pad_token_id": 1, "mask_token_id": 4},
    "mobilebert": {
        **_TEXT,
        "embedding_size": 16,
        "intra_bottleneck_size": 16,
        "true_hidden_size": 16,
    },
}
_ENCODERS = (
    *("bert", "roberta", "distilbert", "albert", "electra", "deberta-v2", "squeezebert"),
    *("mobilebert", "roformer", "layoutlm", "xlnet", "esm", "convbert"),
    *("mpnet", "nystromformer", "camembert", "xlm-roberta", "ernie", "fnet"),
)
_DECODERS = (
    *("gpt2", "gptj", "gpt_neo", "gpt_neox", "llama", "mistral", "qwen2", "qwen3", "gemma"),
    *("gemma2", "phi", "phi3", "opt", "bloom", "olmo", "olmo2", "stablelm", "starcoder2", "cohere"),
    *("granite", "mixtral", "mamba", "persimmon", "smollm3"),
)
_IMAGES = (
    *("vit", "deit", "beit", "dinov2", "vit_msn", "yolos", "ijepa"),
    *("dinov2_with_registers", "vitdet"),
)


def transformers_cases() -> Iterator[Case]:
    """Tiny configurations of transformers."""
    for kind in (*_ENCODERS, *_DECODERS):

        def make_text(kind: str = kind) -> tuple[torch.nn.Module, Any]:
            settings = _OTHER.get(kind, _DECODER if kind in _DECODERS else _TEXT)
            more = {"use_cache": False} if kind in _DECODERS else {}
            model = _transformer(kind, {**settings, **more})
            return model, {"input_ids": torch.randint(5, 95, (2, 12))}

        yield Case(f"hf/{kind}", make_text)
    for kind in _IMAGES:

        def make_image(kind: str = kind) -> tuple[torch.nn.Module, Any]:
            size = {"yolos": [32, 32]}.get(kind, 32)
            model = _transformer(kind, {**_VISION, "image_size": size})
            return model, {"pixel_values": torch.randn(1, 3, 32, 32)}

        yield Case(f"hf/{kind}", make_image)
    yield Case("hf/t5", _t5)
    yield Case("hf/bart", _bart)
    yield Case("hf/whisper", _whisper)
    yield Case("hf/wav2vec2", _wav2vec2)
    yield Case("hf/clip", _clip)
    yield Case("hf/segformer", _segformer)


def _transformer(kind: str, settings: dict[str, Any]) -> torch.nn.Module:
    from transformers import AutoConfig, AutoModel  # noqa: PLC0415

    return AutoModel.from_config(AutoConfig.for_model(kind, **settings))


def _t5() -> tuple[torch.nn.Module, Any]:
    model = _transformer(
        "t5",
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 64,
            "num_layers": 2,
            "num_heads": 4,
            "vocab_size": 99,
            "use_cache": False,
        },
    )
    ids = torch.randint(5, 95, (1, 10))
    return model, {"input_ids": ids, "decoder_input_ids": ids[:, :6]}


def _bart() -> tuple[torch.nn.Module, Any]:
    layers = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
    more = {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    sizes = {"d_model": 32, "vocab_size": 99, "max_position_embeddings": 64, "use_cache": False}
    model = _transformer("bart", {**layers, **more, **sizes})
    ids = torch.randint(5, 95, (1, 10))
    return model, {"input_ids": ids, "decoder_input_ids": ids[:, :6]}


def _whisper() -> tuple[torch.nn.Module, Any]:
    layers = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
    more = {"decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64}
    sizes = {"d_model": 32, "vocab_size": 99, "max_source_positions": 20, "use_cache": False}
    tokens = {
        "num_mel_bins": 16,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 3,
    }
    model = _transformer("whisper", {**layers, **more, **sizes, **tokens})
    ids = torch.randint(5, 95, (1, 6))
    return model, {"input_features": torch.randn(1, 16, 40), "decoder_input_ids": ids}


def _wav2vec2() -> tuple[torch.nn.Module, Any]:
    model = _transformer(
        "wav2vec2",
        {
            **_TEXT,
            "conv_dim": [16, 16],
            "conv_stride": [5, 2],
            "conv_kernel": [10, 3],
            "num_conv_pos_embeddings": 16,
            "num_conv_pos_embedding_groups": 4,
        },
    )
    return model, {"input_values": torch.randn(1, 800)}


def _clip() -> tuple[torch.nn.Module, Any]:
    model = _transformer("clip", {"text_config": _TEXT, "vision_config": _VISION})
    pictures, ids = torch.randn(1, 3, 32, 32), torch.randint(5, 95, (1, 10))
    return model, {"input_ids": ids, "pixel_values": pictures}


def _segformer() -> tuple[torch.nn.Module, Any]:
    model = _transformer(
        "segformer",
        {
            "hidden_sizes": [16, 16, 32, 32],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 1, 2, 2],
        },
    )
    return model, {"pixel_values": torch.randn(1, 3, 64, 64)}


PACKAGES = {
    "torchvision": torchvision_cases,
    "timm": timm_cases,
    "transformers": transformers_cases,
}


def cases(packages: list[str], patterns: list[str]) -> Iterator[Case]:
    """The models of these packages whose names fit a pattern, all if there is none."""
    for package in packages:
        for case in PACKAGES[package]():
            if not patterns or any(fnmatch.fnmatch(case.name, p) for p in patterns):
                yield case


def leaves(result: Any) -> list[torch.Tensor]:
    """The tensors of a result, in order."""
    found = torch.utils._pytree.tree_leaves(result)
    return [leaf for leaf in found if isinstance(leaf, torch.Tensor)]


def call(model: Any, inputs: Any) -> Any:
    """Call a module."""
    return model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def difference(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest, relative to the largest magnitude of each output."""
    assert len(found) == len(expected), f"{len(found)} outputs, not {len(expected)}"
    worst = 0.0
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape, f"{tuple(ours.shape)}, not {tuple(theirs.shape)}"
        a, b = ours.detach().double(), theirs.detach().double()
        scale = max(float(b.abs().max()), 1e-20) if b.numel() else 1.0
        error = float((a - b).abs().max()) / scale if b.numel() else 0.0
        worst = math.inf if math.isnan(error) else max(worst, error)
    return worst


def exported(model: torch.nn.Module, inputs: Any, threads: int) -> Callable[[], Any]:
    """What runs our program of an exported model."""
    compiled = ag.compile(model, inputs, threads=threads, cache=False)
    tensors = torch.utils._pytree.tree_leaves(inputs)
    if isinstance(inputs, dict):
        tensors = [inputs[info.name] for info in compiled.inputs]
    return lambda: compiled(*tensors)


def dynamo(model: torch.nn.Module, inputs: Any, threads: int) -> Callable[[], Any]:
    """What runs it through `torch.compile`."""
    options = {"threads": threads, "cache": False}
    compiled = torch.compile(model, backend="afterglow", options=options)
    return lambda: call(compiled, inputs)


def inductor(model: torch.nn.Module, inputs: Any, threads: int) -> Callable[[], Any]:
    """What runs it by PyTorch's own compiler."""
    torch._inductor.config.force_disable_caches = True
    compiled = torch.compile(model)
    return lambda: call(compiled, inputs)


WAYS = {"export": exported, "compile": dynamo, "inductor": inductor}


def check(case: Case, ways: list[str], threads: int, row: Row) -> dict[str, Callable[[], Any]]:
    """Note how far each way is from eager PyTorch, and how long its first call takes.

    Returns what runs the model, by way, for those that can.
    """
    torch.set_num_threads(threads)
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs = case.make()
    model = model.eval()
    runs = {"eager": lambda: call(model, inputs)}
    expected = leaves(runs["eager"]())
    for way in ways:
        begin = time.perf_counter()
        try:
            run = WAYS[way](model, inputs, threads)
            found = leaves(run())
            row.seconds[f"first {way} {threads}"] = time.perf_counter() - begin
            error = difference(found, expected)
            row.ways[way] = f"{error:.1e}" if error <= TOLERANCE else f"wrong by {error:.1e}"
            runs[way] = run
        except Exception as problem:  # a table of all that goes wrong is the purpose
            row.ways[way] = reason(problem)
    return runs


def reason(problem: Exception) -> str:
    """What went wrong, in a line."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    if "--traceback" in sys.argv:
        traceback.print_exception(problem)
    return f"{type(problem).__name__}: {' | '.join(lines[:4])}"[:400]


def measure(runs: dict[str, Callable[[], Any]], threads: int, row: Row) -> None:
    """Note the shortest of many calls by each way, which take turns."""
    best = dict.fromkeys(runs, math.inf)
    end = time.perf_counter() + SECONDS * len(runs)
    while time.perf_counter() < end:
        for name, run in runs.items():
            run()  # brings its own data back into the caches
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - begin)
    row.seconds.update({f"{name} {threads}": seconds for name, seconds in best.items()})


def is_right(row: Row, way: str) -> bool:
    """Whether a model agrees by a way in."""
    return row.ways.get(way, "?")[:1].isdigit()


def geometric_mean(values: list[float]) -> float:
    """NaN if there are none."""
    return float(np.exp(np.mean(np.log(values)))) if values else math.nan


def summary(rows: list[Row], ways: list[str], threads: list[int]) -> Iterator[str]:
    """How many agree, and how fast they are."""
    for way in ways:
        right = sum(is_right(row, way) for row in rows)
        yield f"{way}: {right} of {len(rows)} agree with eager within {TOLERANCE}"
    others = ("eager", "inductor", "first inductor")
    for count, way, other in itertools.product(threads, ("export", "compile"), others):
        ours = f"first {way}" if other.startswith("first") else way
        pairs = [
            (r.seconds.get(f"{ours} {count}"), r.seconds.get(f"{other} {count}")) for r in rows
        ]
        ratios = [first / second for first, second in pairs if first and second]
        if ratios:
            mean = geometric_mean(ratios)
            yield f"{count} threads: {ours} {mean:.2f} of {other}'s time ({len(ratios)} models)"


def main() -> None:
    """Check, and time, the models that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("patterns", nargs="*", help="names of models, with stars")
    parser.add_argument("--package", action="append", choices=list(PACKAGES))
    parser.add_argument("--compile", action="store_true", help="also by torch.compile")
    parser.add_argument("--time", action="store_true", help="and time it, eager and inductor")
    parser.add_argument("--threads", type=int, nargs="*", default=[1])
    parser.add_argument("--json", help="where rows are written")
    parser.add_argument("--traceback", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    define_missing_operators()
    ways = ["export", *(["compile"] if arguments.compile else [])]
    ways += ["inductor"] if arguments.time else []
    rows = []
    for case in cases(arguments.package or list(PACKAGES), arguments.patterns):
        row = Row(case.name)
        rows.append(row)
        try:
            with torch.no_grad():
                for threads in arguments.threads:
                    runs = check(case, ways, threads, row)
                    if arguments.time:
                        measure(runs, threads, row)
        except Exception as problem:  # of the model itself
            row.ways.setdefault("export", f"not made: {reason(problem)}")
        times = ", ".join(f"{name} {value:.3g} s" for name, value in row.seconds.items())
        print(f"{row.name}: {row.ways} [{times}]", flush=True)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump([asdict(each) for each in rows], file, indent=1)
    print("\n".join(summary(rows, ways, arguments.threads)))


if __name__ == "__main__":
    main()
