"""Bundles of programs for ranges: one entry runs with the extents that its caller gives."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

import afterglow
from afterglow.backends.cpu.bundle.files import write_bundle
from afterglow.backends.cpu.bundle.files.extents import c_extent
from afterglow.backends.cpu.target import Target
from afterglow.graph import Builder, Function, Module
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.support.errors import UsageError
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, bind_extent, larger_extent, ranged, smaller_extent
from tests.backends.cpu.bundle.files.building import build, bundle_code, export, run
from tests.backends.cpu.bundle.files.test_systems import make
from tests.emulation.linking import HAS_LINKER
from tests.frontends.models import info, model, node

BATCH, LENGTH = Dim("batch", 1, 3), Dim("seq len", 8, 96, 8)

PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

#define EXPECT(what) \
    if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); }

static _Alignas(NET_ARENA_ALIGN) char arena[NET_ARENA_BYTES];
static _Alignas(NET_ARENA_ALIGN) char memory[NET_SELF_CHECK_BYTES];
static _Alignas(NET_WEIGHTS_ALIGN) char weights[NET_WEIGHTS_BYTES];
static float x[NET_INPUT_X_MAX_COUNT], y[NET_INPUT_Y_MAX_COUNT], z[NET_OUTPUT_Z_MAX_COUNT + 1];
static int steps;

static void in_pieces(afterglow_team *team, afterglow_step step, void *bases, intptr_t units,
                      intptr_t chunks) {
    (void)team, (void)chunks, steps++;
    for (intptr_t unit = 0; unit < units; unit++) step(bases, memory, unit, unit + 1);
}

int main(int argc, char **argv) {
    net_io io = {.x = x, .y = y, .z = z};
    net_extents extents = {atoi(argv[1]), atoi(argv[2])};
    afterglow_team team = {in_pieces};
    int64_t shape[3];
    EXPECT(argc == 4 && NET_BATCH_MIN == 1 && NET_BATCH_MAX == 3 && NET_BATCH_STEP == 1);
    EXPECT(NET_SEQ_LEN_MIN == 8 && NET_SEQ_LEN_MAX == 96 && NET_SEQ_LEN_STEP == 8);
    EXPECT(NET_INPUT_X_MAX_BYTES == 3 * 96 * 4 * sizeof(float));
    for (int i = 0; i < NET_INPUT_X_MAX_COUNT; i++) x[i] = (float)(i % 17 - 8);
    for (int i = 0; i < NET_INPUT_Y_MAX_COUNT; i++) y[i] = (float)(i % 5);
    for (int i = 0; i <= NET_OUTPUT_Z_MAX_COUNT; i++) z[i] = -1;
    EXPECT(net_self_check(arena, weights, memory) == NET_OK);
    EXPECT(net_run(&io, arena, weights, NULL) == NET_ERROR_NULL);
    int32_t status = net_run(&io, arena, weights, &extents);
    if (status == NET_ERROR_EXTENT) {
        EXPECT(net_run_team(&io, arena, weights, &extents, &team) == NET_ERROR_EXTENT && !steps);
        for (int i = 0; i <= NET_OUTPUT_Z_MAX_COUNT; i++) EXPECT(z[i] == -1);
        puts("refused");
        return 0;
    }
    EXPECT(status == NET_OK);
    size_t count = net_output_z_count(&extents);
    net_output_z_shape(&extents, shape);
    EXPECT((size_t)(shape[0] * shape[1] * shape[2]) == count && z[count] == -1);
    FILE *file = fopen(argv[3], "wb");
    EXPECT(fwrite(z, sizeof *z, count, file) == count);
    fclose(file);
    memset(z, 0, sizeof z);
    EXPECT(net_run_team(&io, arena, weights, &extents, &team) == NET_OK && steps == NET_STEPS);
    file = fopen(argv[3], "ab");
    fwrite(z, sizeof *z, count, file);
    fclose(file);
    return 0;
}
"""


def source() -> Module:
    """z = relu(x + y), of x: [batch, seq len, 4] and y: [seq len, 1]."""
    module = Module()
    main = Function("main", module)
    x = main.input("x", TensorType(f32, (ranged(BATCH), ranged(LENGTH), 4)))
    y = main.input("y", TensorType(f32, (ranged(LENGTH), 1)))
    b = Builder(main)
    main.output("z", b.emit(Relu(), b.emit(Add(), x, y)))
    return module


def made(batch: int, length: int) -> list[Array]:
    """The inputs of the program above."""
    x = np.arange(batch * length * 4, dtype=np.float32) % 17 - 8
    y = np.arange(length, dtype=np.float32) % 5
    return [x.reshape(batch, length, 4), y.reshape(length, 1)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("extents")
    export(source(), folder, "net")
    (folder / "test.c").write_text(PROGRAM)
    return build(folder, [folder / "test.c", folder / "net.o"])


@pytest.mark.parametrize(("batch", "length"), [(1, 8), (2, 40), (3, 96)])
def test_one_entry_runs_with_each_extent(program: Path, batch: int, length: int) -> None:
    results = program.with_name(f"{batch}.bin")
    run(program, batch, length, results)
    x, y = made(batch, length)
    wanted = np.maximum(x + y, 0)
    for got in np.fromfile(results, np.float32).reshape(2, *wanted.shape):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("batch", "length"), [(0, 8), (4, 8), (-1, 8), (1, 0), (1, 104), (1, 12), (1, -8)]
)
def test_extents_out_of_bounds_are_refused(program: Path, batch: int, length: int) -> None:
    assert run(program, batch, length, "") == "refused\n"


def test_the_header_is_plain_c(program: Path) -> None:
    text = program.with_name("net.h").read_text()
    assert '    int64_t seq_len; /* 8..96 by 8, "seq len" in the model */\n' in text
    assert (
        "static inline size_t net_output_z_count(const net_extents *extents) {\n"
        "    return (size_t)(4 * extents->seq_len * extents->batch);\n}\n"
    ) in text
    assert (
        "int32_t net_run(const net_io *io, void *arena, const void *weights, "
        "const net_extents *extents);\n"
    ) in text


def test_the_program_on_files_takes_extents(tmp_path: Path) -> None:
    export(source(), tmp_path, "net", embed_weights=True)
    main = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    assert "self-check passed" in run(main, "--self-check")
    x, y = made(2, 16)
    files = {name: tmp_path / f"{name}.npy" for name in ("x", "y", "z")}
    np.save(files["x"], x)
    np.save(files["y"], y)
    inputs = [f"x={files['x']}", f"y={files['y']}"]
    given = ["--output", f"z={files['z']}", "--threads", 2, "--extent", "batch=2"]
    run(main, *inputs, *given, "--extent", "seq_len=16")
    np.testing.assert_array_equal(np.load(files["z"]), np.maximum(x + y, 0))
    listed = "batch (1..3), seq_len (8..96 by 8)"
    assert listed in run(main, *inputs, *given, status=1)
    for wrong in ("seq_len=12", "seq_len=104", "seq_len=8x"):
        said = run(main, *inputs, *given, "--extent", wrong, status=1)
        assert said == f"error: the model was not compiled for this extent: {wrong}\n"
    assert "wrong size" in run(main, *inputs, *given, "--extent", "seq_len=24", status=1)


@pytest.mark.skipif(not HAS_LINKER, reason="ziglang, which compiles C, is not here")
@pytest.mark.parametrize("target", ["cortex-m4", "riscv32", "wasm32"])
def test_machines_of_32_bits_take_extents(tmp_path: Path, target: str) -> None:
    code = bundle_code(source(), "net", target, freestanding=True)
    write_bundle(code, tmp_path)
    if target == "wasm32":
        if shutil.which("node") is None:
            pytest.skip("node, which runs JavaScript, is not here")
        assert "self-check passed" in make(tmp_path, "check")
        return
    bare = pytest.importorskip("tests.emulation.bare", reason="unicorn runs it")
    make(tmp_path)
    objects = [(tmp_path / name).read_bytes() for name in ("net.o", "main.o", "weights.o")]
    machine = bare.BareMachine(objects, ["main"], Target.of(target))
    assert machine.call("main") == 0
    assert (
        "net_extents extents = {.batch = 3, .seq_len = 96};" in (tmp_path / "README.md").read_text()
    )


def test_expressions_of_extents_mean_the_same_in_c(tmp_path: Path) -> None:
    a, b = ranged(Dim("a", 0, 9)), ranged(Dim("b", 1, 5))
    n = ranged(Dim("n", 2, 8, 2))
    members = {Dim("a", 0, 9): "a", Dim("b", 1, 5): "b", Dim("n", 2, 8, 2): "n"}
    expressions = [
        3 * a + 1,
        a * b - 2 * a + 7,
        (a + 3) // 4 + n // 4,
        (a - 7) // 3 + 5,
        (a - 7) % 3,
        (a + b) // b,
        (a + 1) % b,
        smaller_extent(a, b) * 2 + larger_extent(a, 2 * b),
        n * n // 4,
    ]
    runs = [{"a": i, "b": j, "n": k} for i in range(10) for j in range(1, 6) for k in (2, 8)]
    texts = [f'    printf("%lld\\n", (long long)({c_extent(e, members)}));' for e in expressions]
    struct = "#include <stdint.h>\n#include <stdio.h>\ntypedef struct { int64_t a, b, n; } dims;\n"
    shown = "static void show(const dims *extents) {\n" + "\n".join(texts) + "\n}\n"
    calls = "\n".join(f"    show(&(dims){{{r['a']}, {r['b']}, {r['n']}}});" for r in runs)
    (tmp_path / "test.c").write_text(f"{struct}{shown}int main(void) {{\n{calls}\n}}\n")
    wanted = [bind_extent(e, extents) for extents in runs for e in expressions]
    assert list(map(int, run(build(tmp_path, [tmp_path / "test.c"])).split())) == wanted


def test_a_model_compiled_for_a_range_is_one_entry(tmp_path: Path) -> None:
    shapes = {"inputs": [info("x", ("batch", 6))], "outputs": [info("y", ("batch", 6))]}
    proto = model([node("Tanh", ["x"], ["y"])], **shapes)
    compiled = afterglow.compile(proto, dims={"batch": (1, 9)})
    bundle = compiled.export_bundle(tmp_path, target="x86-64-v3", name="net")
    (entry,) = bundle.description["entries"]
    assert entry["prefix"] == "net"
    assert entry["dims"] == [{"name": "batch", "member": "batch", "low": 1, "high": 9, "step": 1}]
    assert entry["inputs"][0]["shape"] == ["batch", 6]
    assert entry["inputs"][0]["bytes"] == 9 * 6 * 4


def test_several_programs_for_ranges_are_refused(tmp_path: Path) -> None:
    shapes = {"inputs": [info("x", ("n", 6))], "outputs": [info("y", ("n", 6))]}
    proto = model([node("Tanh", ["x"], ["y"])], **shapes)
    compiled = afterglow.compile(proto)
    for last in (4, 9):
        (version,) = afterglow.compile(proto, dims={"n": (1, last)}).versions()
        compiled.keep(version, [(last, 6)])
    with pytest.raises(UsageError) as caught:
        compiled.export_bundle(tmp_path)
    assert str(caught.value) == (
        "error: a bundle has one program for ranges, and the model has 2\n"
        "  help: give bounds instead of lists of extents, dims={'NAME': (FIRST, LAST)}, or write a "
        "bundle for each program"
    )


def test_a_library_runs_with_each_extent(tmp_path: Path) -> None:
    bundle = write_bundle(bundle_code(source(), "net"), tmp_path, shared=True)
    assert bundle.library is not None
    loaded = afterglow.load(bundle.library)
    assert [str(each) for each in (*loaded.inputs, *loaded.outputs)] == [
        'x: f32[batch, "seq len", 4]',
        'y: f32["seq len", 1]',
        'z: f32[batch, "seq len", 4]',
    ]
    for batch, length in ((1, 8), (3, 96), (2, 40)):
        x, y = made(batch, length)
        np.testing.assert_array_equal(loaded(x, y), np.maximum(x + y, 0))
    with pytest.raises(UsageError, match=r"'batch' of input 'x' is 4, out of its bounds 1\.\.3"):
        loaded(*made(4, 8))
    with pytest.raises(UsageError, match="'seq len'"):
        loaded(*made(1, 12))


def encoder() -> onnx.ModelProto:
    """Attention between the positions of each sequence, then a product for each position."""
    random = np.random.default_rng(1)
    weights = {name: (random.standard_normal((16, 16)) / 4).astype(np.float32) for name in "qkvo"}
    nodes = [node("MatMul", ["x", name], [f"x{name}"]) for name in "qkv"]
    nodes += [
        node("Transpose", ["xk"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["xq", "turned"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "xv"], ["attended"]),
        node("Add", ["attended", "x"], ["sum"]),
        node("MatMul", ["sum", "o"], ["product"]),
        node("Relu", ["product"], ["y"]),
    ]
    shape = ("batch", "seq", 16)
    return model(nodes, constants=weights, inputs=[info("x", shape)], outputs=[info("y", shape)])


def test_an_encoder_runs_with_each_length(tmp_path: Path) -> None:
    compiled = afterglow.compile(encoder(), dims={"batch": (1, 3), "seq": (1, 40)})
    compiled.export_bundle(tmp_path, target="x86-64-v3", name="net")
    main = build(tmp_path, [tmp_path / name for name in ("main.c", "pool.c", "net.o")])
    assert "self-check passed" in run(main, "--self-check")
    reference = afterglow.compile(encoder(), backend="interpreter")
    files = {name: tmp_path / f"{name}.npy" for name in "xy"}
    for batch, length in ((1, 1), (2, 17), (3, 40)):
        x = np.random.default_rng(length).standard_normal((batch, length, 16)).astype(np.float32)
        np.save(files["x"], x)
        extents = ("--extent", f"batch={batch}", "--extent", f"seq={length}")
        run(main, f"x={files['x']}", "--output", f"y={files['y']}", *extents, "--threads", 2)
        np.testing.assert_allclose(np.load(files["y"]), reference(x), atol=1e-5)
