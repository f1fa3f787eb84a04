"""OpenVINO on the CPU: latency mode, one stream, f32; compiled at load time."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from .engine import BenchJob, Engine, Feed, Runner


class OpenVinoEngine(Engine):
    """The package `openvino`."""

    packages: ClassVar[tuple[str, ...]] = ("openvino",)

    def __init__(self) -> None:
        self.openvino: Any = import_module("openvino")
        self.version: str = self.openvino.__version__.split("-")[0]

    def load(self, job: BenchJob) -> OpenVinoRunner:
        """Compile for the number of threads and the shapes of the inputs."""
        core = self.openvino.Core()
        model = core.read_model(job.model)
        if job.shapes and any(port.partial_shape.is_dynamic for port in model.inputs):
            model.reshape({name: list(shape) for name, shape in job.shapes.items()})
        options = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": job.threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        return OpenVinoRunner(self.openvino, core.compile_model(model, "CPU", options))


class OpenVinoRunner(Runner):
    """A compiled model with one request."""

    def __init__(self, openvino: Any, compiled: Any) -> None:
        self.openvino = openvino
        self.compiled = compiled

    def prepare(self, feed: Feed) -> Any:
        """An inference request that shares the memory of the inputs."""
        request = self.compiled.create_infer_request()
        for name, array in feed.items():
            request.set_tensor(name, self.openvino.Tensor(array, shared_memory=True))
        return request

    def __call__(self, request: Any) -> Any:
        """Run once."""
        request.infer(share_outputs=True)
        return request

    def fetch(self, request: Any) -> list[Any]:
        """The outputs, copied to NumPy arrays."""
        count = len(self.compiled.outputs)
        return [request.get_output_tensor(place).data.copy() for place in range(count)]
