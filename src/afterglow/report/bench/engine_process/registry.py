"""All engines, by name."""

from __future__ import annotations

from .engine import Engine
from .iree_engine import IreeEngine
from .jax_engine import JaxEngine
from .mnn_engine import MnnEngine
from .ncnn_engine import NcnnEngine
from .onnxruntime_engine import OnnxRuntimeEngine
from .openvino_engine import OpenVinoEngine
from .own_engine import AfterglowEngine
from .torch_engine import InductorEngine, TorchEngine
from .tvm_engine import TvmEngine

OURS = "afterglow"
ENGINES: dict[str, type[Engine]] = {
    OURS: AfterglowEngine,
    "onnxruntime": OnnxRuntimeEngine,
    "openvino": OpenVinoEngine,
    "mnn": MnnEngine,
    "ncnn": NcnnEngine,
    "torch": TorchEngine,
    "inductor": InductorEngine,
    "jax": JaxEngine,
    "tvm": TvmEngine,
    "iree": IreeEngine,
}
