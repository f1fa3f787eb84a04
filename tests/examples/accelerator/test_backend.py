"""The accelerator's backend: right, short, and its transfers hide behind what is computed."""

from __future__ import annotations

import ast
import tomllib
from importlib.metadata import EntryPoint

import numpy as np
import onnx
import pytest
from ember_backend.assembly import assemble, disassemble
from ember_backend.backend import DEVICE, FACTORY
from ember_chip.clock import measure, one_by_one

import afterglow as ag
from afterglow.backends.backend import Settings
from afterglow.driver import partitioning
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.runtime.rates import MemoryLevel, Rates
from afterglow.support import plugins
from afterglow.support.errors import UsageError
from afterglow.testing import BackendConformance, install
from afterglow.testing.artifact_checks import ArtifactChecks
from afterglow.testing.cases import CASES
from afterglow.testing.device_checks import DeviceChecks
from afterglow.testing.onnx_suite import LIGHT
from afterglow.testing.op_checks import OpChecks
from tests.examples.accelerator.conftest import ACCELERATOR

MOST_LINES = 500
COMPUTED = ("conv", "matmul", "max_pool", "quantized_conv", "quantized_matmul", "softmax")
COMPUTED += ("transpose", "expand", "reduce_max", "where", "cast", "top_k", "string_concat")
CONV = "{{strides = (1, 1), pads = {}, dilations = (1, 1), groups = 1{}}}"


@pytest.fixture(autouse=True)
def ember(monkeypatch):
    monkeypatch.setattr(plugins, "_ADDED", {})
    install(FACTORY, DEVICE)


class TestSome(ArtifactChecks, DeviceChecks, OpChecks):
    """The contract, and a case of each kind that the chip computes or leaves to the host."""

    backend = "ember"
    complete = True
    form_stride = len(CASES)
    cases = [case for case in CASES if case.op.mnemonic in COMPUTED][::4]


@pytest.mark.slow
class TestEmber(BackendConformance):
    """The whole kit, with all of ONNX's suite."""

    backend = "ember"
    complete = True
    onnx_stride = 1
    skip = dict.fromkeys(
        ("test_dft_inverse", "test_dft_inverse_opset19"),
        "expects the rounding errors of a transform in f32; the lowered one has smaller ones",
    )


def code_lines(path):
    """Lines that are not blank, comments or docstrings."""
    text, left_out = path.read_text(), set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.update(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(line) and line[0] != "#" and i not in left_out for i, line in lines)


def test_the_backend_is_short():
    assert sum(map(code_lines, (ACCELERATOR / "ember_backend").glob("*.py"))) < MOST_LINES


def test_the_chip_knows_nothing_of_the_compiler():
    for path in (ACCELERATOR / "ember_chip").glob("*.py"):
        assert "import afterglow" not in path.read_text()
        assert "from afterglow" not in path.read_text()


@pytest.mark.parametrize(("group", "plugin"), [("backends", FACTORY), ("devices", DEVICE)])
def test_the_package_names_its_entry_points(group, plugin):
    project = tomllib.loads((ACCELERATOR / "pyproject.toml").read_text())["project"]
    points = project["entry-points"][f"afterglow.{group}"]
    assert EntryPoint("ember", points["ember"], group).load() is plugin


def test_an_unknown_target_is_refused():
    with pytest.raises(UsageError) as caught:
        ag.compile(ag.parse_module(LAYER), backend="ember", target="v2")
    assert str(caught.value) == (
        "error: backend 'ember' has no target 'v2'\n  help: there are host, bf16"
    )


LAYER = """
    const @weight : f32[2, 3] = [1, 0, -1, 2, 1, 0.5]
    func @main(%x: f32[4, 2]) {
      %product = matmul(%x, @weight) : f32[4, 3]
      %y = relu(%product) : f32[4, 3]
      return %y
    }
"""
LISTING = """\
mark step=0 ; matmul, max (product, y)
load f32[1,4,2]@0, f32[1,4,2]@in0+0(0,2,1) tag=1
load f32[1,1,2,3]@128, f32[1,1,2,3]@const+0(0,0,3,1) tag=2
wait tag=2
mm.set f32[1,4,3]@256, f32[1,4,2]@0, f32[2,3]@128 passes=6
v.max f32[4,3]@256, f32[4,3]@256, 0.0
store f32[4,3]@out0+0, f32[4,3]@256 tag=3
"""


def test_the_listing_is_the_program():
    text = ag.compile(ag.parse_module(LAYER), backend="ember").ir("ember")
    assert text == LISTING


def test_listings_round_trip():
    program = assemble(LISTING)
    plain = disassemble(program)
    assert plain == LISTING.replace(" ; matmul, max (product, y)", "")
    assert assemble(plain) == program


def compiled(text, constants, **options):
    module = ag.parse_module(text, constants)
    return ag.compile(module, backend="ember", cache=False, **options)


def layer(size, channels, outs, kernel, pad, **options):
    """The instructions of a convolution on an image."""
    shape = (outs, kernel, kernel, channels)
    text = f"""
        const @w : f32[{outs}, {kernel}, {kernel}, {channels}]
        func @main(%x: f32[1, {size}, {size}, {channels}]) {{
          %y = conv(%x, @w) {CONV.format((pad,) * 4, "")} : f32[1, {size}, {size}, {outs}]
          return %y
        }}
    """
    model = compiled(text, {"w": np.zeros(shape, np.float32)}, **options)
    return assemble(model.ir("ember"))


def test_transfers_hide_behind_the_array():
    program = layer(14, 256, 256, 1, 0)
    overlapped, waiting = measure(program)[0], measure(one_by_one(program))[0]
    assert overlapped.cycles < 0.7 * waiting.cycles
    assert overlapped.utilisation > 0.7


def test_the_array_is_busy_in_large_layers():
    assert measure(layer(14, 128, 128, 3, 1))[0].utilisation > 0.9


def test_one_pass_is_faster_than_six():
    exact, rounded = (layer(28, 16, 32, 3, 1, target=target) for target in ("host", "bf16"))
    assert 4 < measure(exact)[0].array / measure(rounded)[0].array < 6


def test_bytes_are_multiplied_as_bytes():
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.integers(-128, 128, (5, 3, 3, 4), np.int8),
        "s": np.float32([0.01, 0.02, 0.03, 0.04, 0.05]),
        "b": np.arange(5, dtype=np.int32),
    }
    zeros = ", x_zero_point = 9, weight_zero_point = 0"
    text = f"""
        const @w : i8[5, 3, 3, 4]
        const @s : f32[5]
        const @b : i32[5]
        const @t : f32[] = [0.25]
        const @z : u8[] = [7]
        func @main(%x: u8[1, 8, 8, 4]) {{
          %sums = quantized_conv(%x, @w, @s, @b) {CONV.format((1,) * 4, zeros)} : f32[1, 8, 8, 5]
          %y = quantize_linear(%sums, @t, @z) {{axis = 1, dtype = u8}} : u8[1, 8, 8, 5]
          return %y
        }}
    """
    x = rng.integers(0, 256, (1, 8, 8, 4), np.uint8)
    model = compiled(text, constants)
    listing = model.ir("ember")
    assert "u8[8,8,36]@" in listing
    assert " a_zero=9 w_zero=0\n" in listing
    wanted = ag.compile(ag.parse_module(text, constants), backend="interpreter")
    np.testing.assert_array_equal(model(x), wanted(x))


def test_what_the_host_runs_is_listed():
    module = ag.parse_module("""
        func @main(%x: f32[2, 6]) {
          %twice = add(%x, %x) : f32[2, 6]
          %values, %indices = top_k(%twice) {k = 2} : f32[2, 2], i64[2, 2]
          return %values
        }
    """)
    stages = Stages(Options(backend="ember"))
    program = stages.plan(stages.lower(stages.optimise(module)))[0]
    ((step, reason),) = FACTORY(Settings()).host_steps(program)
    assert (step.op.mnemonic, reason) == ("top_k", "the device has no instruction for it")
    assert "host step=" in FACTORY(Settings()).listing(program, "ember")


@pytest.mark.slow
def test_resnet_keeps_the_array_busy():
    text = ag.compile(onnx.load(LIGHT / "light_resnet50.onnx"), backend="ember").ir("ember")
    program = assemble(text)
    whole, sections = measure(program)
    assert whole.cycles < 0.7 * measure(one_by_one(program))[0].cycles
    large = [section for section in sections if section.products >= 6 * 100e6]
    assert len(large) >= 20
    assert min(section.utilisation for section in large) > 0.7


def test_the_chip_and_the_processor_share_a_model(tmp_path, monkeypatch):
    rates = Rates(flops=1e11, levels=(MemoryLevel(1 << 30, 1e10),))
    monkeypatch.setattr(partitioning, "rates_of", lambda *_: rates)  # to measure takes seconds
    module = ag.parse_module("""
        const @weight : f32[2, 3] = [1, 0, -1, 2, 1, 0.5]
        func @main(%x: f32[4, 2]) {
          %product = matmul(%x, @weight) : f32[4, 3]
          %y = softmax(%product) {axis = 1} : f32[4, 3]
          return %y
        }
    """)
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    expected = ag.compile(module.clone(), cache=False)(x)
    config = ag.PartitionConfig(placement={"matmul": "ember", "softmax": "cpu"})
    model = ag.compile(module, backend=["ember", "cpu"], partition=config, cache=False)
    model.save(tmp_path / "both.agc")
    loaded = ag.load(tmp_path / "both.agc")
    parts = loaded.compiled.executable.parts
    assert [part.part.artifact.device for part in parts] == ["ember", "cpu"]
    np.testing.assert_allclose(loaded(x), expected, rtol=1e-6)
