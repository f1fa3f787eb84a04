"""IREE on the CPU: compiled ahead of time for this machine, with the recommended flags."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from .bound import bound_path
from .engine import BenchJob, CannotConvertError, Engine, Feed, Runner
from .tools import run_tool

IMPORTED, COMPILED, NOTE = "model.mlir", "model.vmfb", "flags.txt"
OLDEST_OPSET = 17
"""Its importer lowers models of this opset and later; older ones are raised to it."""
BASE = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    # attention wants more stack than is allowed otherwise
    "--iree-llvmcpu-fail-on-out-of-bounds-stack-allocation=false",
)
TILED = (
    "--iree-opt-level=O3",
    "--iree-opt-data-tiling=true",
    "--iree-preprocessing-pass-pipeline="
    "builtin.module(util.func(iree-preprocessing-convert-conv-to-channels-last))",
)
ATTEMPTS = {
    "O3, tiled, im2col": (*TILED, "--iree-global-opt-use-im2col-for-convs"),
    "O3, tiled": TILED,
    "O2": ("--iree-opt-level=O2",),
}
"""Sets of flags, the fastest first: a model may compile with only some of them."""


class IreeEngine(Engine):
    """The packages `iree-base-compiler` and `iree-base-runtime`."""

    packages: ClassVar[tuple[str, ...]] = ("iree-base-compiler", "iree-base-runtime", "onnx")

    def __init__(self) -> None:
        self.runtime: Any = import_module("iree.runtime")
        self.version: str = import_module("importlib.metadata").version("iree-base-runtime")

    def build(self, job: BenchJob) -> bool:
        """Import the model, then compile it with the first flags that work."""
        path = bound_path(job)
        run_tool("iree-import-onnx", path, "-o", IMPORTED, *_opset_words(path), folder=job.folder)
        refusal = CannotConvertError("no flags to try")
        for note, flags in ATTEMPTS.items():
            words = (IMPORTED, *BASE, *flags, "-o", COMPILED)
            try:
                run_tool("iree-compile", *words, folder=job.folder)
            except CannotConvertError as error:
                refusal = error
                continue
            (job.folder / NOTE).write_text(note)
            (job.folder / IMPORTED).unlink()
            return True
        raise refusal

    def load(self, job: BenchJob) -> IreeRunner:
        """Map the compiled file."""
        self.runtime.flags.parse_flags(f"--task_topology_group_count={job.threads}")
        config = self.runtime.Config("local-sync" if job.threads == 1 else "local-task")
        return IreeRunner(self.runtime, config, job.folder)


class IreeRunner(Runner):
    """The function of a module."""

    def __init__(self, runtime: Any, config: Any, folder: Path) -> None:
        self.runtime, self.config = runtime, config
        self.context = runtime.SystemContext(config=config)
        module = runtime.VmModule.mmap(self.context.instance, str(folder / COMPILED))
        self.context.add_vm_module(module)
        names = [name for name in module.function_names if not name.endswith("$async")]
        name = next(name for name in names if name != "__init")
        self.function = self.context.modules[module.name][name]
        self.note = (folder / NOTE).read_text()

    def prepare(self, feed: Feed) -> list[Any]:
        """The inputs as device arrays."""
        device = self.config.device
        return [self.runtime.asdevicearray(device, array) for array in feed.values()]

    def __call__(self, arrays: list[Any]) -> Any:
        """Run once."""
        return self.function(*arrays)

    def fetch(self, ran: Any) -> list[Any]:
        """The outputs, copied to NumPy arrays."""
        several = ran if isinstance(ran, (tuple, list)) else [ran]
        return [array.to_host() for array in several]

    def facts(self) -> dict[str, Any]:
        """The flags that it was compiled with."""
        return {"note": self.note}


def _opset_words(path: str) -> list[str]:
    onnx: Any = import_module("onnx")
    model = onnx.load(path, load_external_data=False)
    opset = max(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return ["--opset-version", str(OLDEST_OPSET)] if opset < OLDEST_OPSET else []
