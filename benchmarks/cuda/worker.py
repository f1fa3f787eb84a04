"""One network in one process: made ready by all engines, then timed in turns when it is told to.

Reads a line of JSON for each command from standard input and answers with one. Compiling happens at
once, beside other workers; timing only on command, while the others wait.
"""

from __future__ import annotations

import copy
import io
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.cuda.networks import Network, network

Replay = Callable[[], None]
WARM = 3
IN_FLOAT = ("bert_base_128",)
"""Networks whose exporter mixes element types in f16: given in f32, computed in f16."""
TOGETHER = 10
"""Replays between two events: the host is ahead of the GPU then."""


def main() -> None:
    """Make a network ready, and serve."""
    job = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what engines print is no answer
    torch.backends.cudnn.benchmark = True
    made = network(job["name"], job["batch"])
    report: dict[str, Any] = {"name": job["name"], "batch": job["batch"], "failed": {}}
    engines = _ready(made, job, report)
    print(json.dumps(report), file=answers)
    for line in sys.stdin:
        command = json.loads(line)
        times = _timed(engines, command["rounds"], command["replays"])
        print(json.dumps(times), file=answers)


def _ready(made: Network, job: dict[str, Any], report: dict[str, Any]) -> dict[str, Replay]:
    """What replays each engine's run; a failure of one is reported, and others go on."""
    engines: dict[str, Replay] = {}
    expected = _expected(made)
    for name in job["engines"]:
        started = time.perf_counter()
        try:
            replay, results = _ENGINES[name](made, job)
            engines[name] = replay
            report[name] = {
                "seconds": round(time.perf_counter() - started, 1),
                "error": _error(results(), expected),
            }
        except Exception as error:  # whatever an engine raises is told
            report["failed"][name] = f"{type(error).__name__}: {error}"[:2000]
    return engines


def _timed(engines: dict[str, Replay], rounds: int, replays: int) -> dict[str, list[float]]:
    """The median of the replays of each engine in each round, in microseconds, in turns."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, replay in engines.items():
            times[name].append(_median(replay, replays))
    return times


def _median(replay: Replay, count: int) -> float:
    found = []
    for number in range(WARM + max(3, count // TOGETHER)):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(TOGETHER):
            replay()
        end.record()
        end.synchronize()
        if number >= WARM:
            found.append(start.elapsed_time(end) * 1e3 / TOGETHER)
    return statistics.median(found)


def _expected(made: Network) -> list[np.ndarray]:
    """What the network computes in f32, products not rounded to fewer bits."""
    module = copy.deepcopy(made.module).cuda()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with torch.inference_mode():
        found = module(*(x.cuda() for x in made.inputs))
    results = [found] if isinstance(found, torch.Tensor) else [*found]
    return [x.float().cpu().numpy() for x in results]


def _error(results: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest relative error of an output, as a Euclidean distance; NaN shows as such."""
    pairs = zip(results, expected, strict=True)
    return max(float(np.linalg.norm(a - b) / (np.linalg.norm(b) or 1.0)) for a, b in pairs)


def _in_half(made: Network) -> tuple[torch.nn.Module, list[torch.Tensor]]:
    """The network in f16 on the GPU, images with their channels last."""
    module = copy.deepcopy(made.module).half().cuda()
    inputs = [x.half().cuda() if x.is_floating_point() else x.cuda() for x in made.inputs]
    if any(isinstance(m, torch.nn.Conv2d) for m in module.modules()):
        module = module.to(memory_format=torch.channels_last)
        inputs = [x.to(memory_format=torch.channels_last) if x.ndim == 4 else x for x in inputs]
    return module, inputs


def _graph_of(run: Callable[[], Any]) -> tuple[Replay, Callable[[], list[np.ndarray]]]:
    """What PyTorch runs, captured as one graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = run()

    def replay(held: Callable[[], Any] = run) -> None:
        graph.replay()  # reads weights and inputs that the held function keeps alive

    def results() -> list[np.ndarray]:
        replay()
        torch.cuda.synchronize()
        outputs = [kept] if isinstance(kept, torch.Tensor) else [*kept]
        return [x.float().cpu().numpy() for x in outputs]

    return replay, results


def _inductor(made: Network, job: dict[str, Any]) -> Any:
    """`torch.compile` with frozen weights, in its default mode, in a graph of our own."""
    return _compiled(made, "default")


def _autotuned(made: Network, job: dict[str, Any]) -> Any:
    """The same, kernels chosen by measuring."""
    return _compiled(made, "max-autotune-no-cudagraphs")


def _compiled(made: Network, mode: str) -> Any:
    from torch._inductor import config  # noqa: PLC0415  a part of torch.compile

    config.freezing = True
    torch._dynamo.reset()
    module, inputs = _in_half(made)
    with torch.no_grad():
        compiled = torch.compile(module, mode=mode)
        return _graph_of(lambda: compiled(*inputs))


def _eager(made: Network, job: dict[str, Any]) -> Any:
    """PyTorch as it is, in a graph."""
    module, inputs = _in_half(made)
    with torch.no_grad():
        return _graph_of(lambda: module(*inputs))


def _onnx_of(made: Network, *, half: bool) -> bytes:
    """The network as ONNX, in f16 or f32."""
    file = io.BytesIO()
    module, inputs = copy.deepcopy(made.module).cuda(), [x.cuda() for x in made.inputs]
    if half:
        module = module.half()
        inputs = [x.half() if x.is_floating_point() else x for x in inputs]
    torch.backends.mha.set_fastpath_enabled(False)  # its op is none of ONNX's
    names = [f"x{number}" for number in range(len(inputs))]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module, tuple(inputs), file, opset_version=17, dynamo=False, input_names=names
        )
    return file.getvalue()


def _afterglow(made: Network, job: dict[str, Any]) -> Any:
    """A program compiled ahead of time, of the model in f16 unless a precision is given."""
    import afterglow as ag  # noqa: PLC0415  only where it is asked for

    data, inputs, precision = _onnx_and_inputs(made, job)
    given = [x.numpy() for x in inputs]
    model = ag.compile(
        data,
        backend="cuda",
        precision=precision or "float32",
        shapes={f"x{number}": array.shape for number, array in enumerate(given)},
        unchecked=True,  # as the others are: a run does not wait to see whether indices were good
        tune=job["tune"] or None,
        cache=job["cache"],
    )
    if job.get("save"):
        model.save(job["save"], force=True)
    results = model.run(None, {p.name: x for p, x in zip(model.inputs, given, strict=True)})
    replay = model.bind(*[x.cuda() for x in inputs])
    return replay, lambda: [np.asarray(x, np.float32) for x in results]


def _onnx_and_inputs(
    made: Network, job: dict[str, Any]
) -> tuple[bytes, list[torch.Tensor], str | None]:
    """The network as ONNX in f16, or in f32 with the precision in which it is to be computed."""
    precision = job["precision"] or ("float16" if job["name"] in IN_FLOAT else None)
    narrow = torch.float16 if precision is None else torch.float32
    inputs = [x.to(narrow) if x.is_floating_point() else x for x in made.inputs]
    return _onnx_of(made, half=precision is None), inputs, precision


def _onnxruntime(made: Network, job: dict[str, Any]) -> Any:
    """ONNX Runtime's CUDA provider with a CUDA graph of its own; runs wait for their end."""
    import onnxruntime  # noqa: PLC0415  only where it is asked for

    provider = "CUDAExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise RuntimeError(f"onnxruntime {onnxruntime.__version__} has no {provider}")
    data, inputs, _ = _onnx_and_inputs(made, job)
    session = onnxruntime.InferenceSession(data, providers=[(provider, {"enable_cuda_graph": "1"})])
    held = [x.cuda() for x in inputs]
    binding = session.io_binding()
    for number, x in enumerate(held):
        kind = np.dtype(str(x.dtype).removeprefix("torch."))
        binding.bind_input(f"x{number}", "cuda", 0, kind, tuple(x.shape), x.data_ptr())
    for output in session.get_outputs():
        binding.bind_output(output.name, "cuda")

    def replay(kept: Any = held) -> None:
        session.run_with_iobinding(binding)

    return replay, lambda: [np.asarray(x, np.float32) for x in _after(replay, binding)]


def _after(replay: Replay, binding: Any) -> list[np.ndarray]:
    replay()
    found: list[np.ndarray] = binding.copy_outputs_to_cpu()
    return found


def _tensorrt(made: Network, job: dict[str, Any]) -> Any:
    """An engine of TensorRT, types as the model has them, in a graph of our own."""
    import tensorrt as trt  # noqa: PLC0415  only where it is asked for

    data, inputs, _ = _onnx_and_inputs(made, job)
    logger = trt.Logger(trt.Logger.ERROR)
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(data):
        raise RuntimeError(str(parser.get_error(0)))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    memory = {f"x{number}": x.cuda() for number, x in enumerate(inputs)}
    names = [engine.get_tensor_name(number) for number in range(engine.num_io_tensors)]
    outputs = [name for name in names if name not in memory]
    for name in outputs:
        dtype = getattr(torch, np.dtype(trt.nptype(engine.get_tensor_dtype(name))).name)
        memory[name] = torch.empty(tuple(engine.get_tensor_shape(name)), dtype=dtype, device="cuda")
    for name in names:
        context.set_tensor_address(name, memory[name].data_ptr())

    def run() -> list[torch.Tensor]:
        context.execute_async_v3(torch.cuda.current_stream().cuda_stream)
        return [memory[name] for name in outputs]

    return _graph_of(run)


_ENGINES: dict[str, Callable[[Network, dict[str, Any]], Any]] = {
    "afterglow": _afterglow,
    "inductor": _inductor,
    "max-autotune": _autotuned,
    "onnxruntime": _onnxruntime,
    "tensorrt": _tensorrt,
    "eager": _eager,
}


if __name__ == "__main__":
    main()
