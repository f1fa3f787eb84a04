"""Backends of other packages, found through entry points in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import afterglow
from afterglow.backends.backend import Settings, TargetInfo
from afterglow.backends.interpreter.backend import Interpreter
from afterglow.backends.interpreter.device import InterpreterDevice
from afterglow.cli.main import execute
from afterglow.driver.devices import describe_devices
from afterglow.instr import KernelPlan
from afterglow.runtime.device import DeviceInfo
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.support import plugins
from afterglow.support.errors import CompileError, DeviceError, UsageError
from afterglow.testing import install

MODEL = "examples/digits/digits.onnx"
ROOT = Path(__file__).parent.parent.parent
TOYCHIP = """
from dataclasses import replace

from afterglow.backends.backend import TargetInfo
from afterglow.backends.interpreter.backend import Interpreter
from afterglow.backends.interpreter.device import InterpreterDevice


class Toychip(Interpreter):
    def compile(self, program):
        return replace(super().compile(program), device="toychip")


class Factory:
    name = device = "toychip"

    def __call__(self, settings):
        return Toychip("toychip", False, settings, "toychip")

    def targets(self):
        return [TargetInfo("host", "a chip made of paper")]


class Device(InterpreterDevice):
    name = "toychip"


factory, device = Factory(), Device()
"""
POINTS = """
[afterglow.backends]
toychip = toychip:factory

[afterglow.devices]
toychip = toychip:device
"""
READY = "import numpy as np, afterglow as ag; x = np.ones((1, 1, 8, 8), np.float32)\n"


def package(folder: Path, module: str, code: str, points: str) -> Path:
    """A folder with a package as an installer leaves it."""
    (folder / module).mkdir(parents=True)
    (folder / module / "__init__.py").write_text(code)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(points)
    return folder


def played(code: str, *folders: Path, arguments: tuple[object, ...] = ()) -> str:
    """What a program prints in a process of its own that finds packages in folders."""
    path = os.pathsep.join([*map(str, folders), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def toychip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return package(tmp_path_factory.mktemp("site"), "toychip", TOYCHIP, POINTS)


@pytest.fixture(scope="module")
def saved(toychip: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A model that the plug-in has compiled, and what it gives."""
    path = tmp_path_factory.mktemp("models") / "digits.agc"
    code = READY + (
        f"model = ag.compile({MODEL!r}, backend='toychip')\n"
        "model.save(sys.argv[1])\n"
        "own = ('opencl', 'cuda')\n"
        "listed = [d.name for d in ag.devices(measure=False) if d.backend not in own]\n"
        "print(model(x).tobytes().hex(), listed)"
    )
    printed, names = played(code, toychip, arguments=(path,)).split(maxsplit=1)
    assert names.strip() == "['cpu', 'interpreter', 'toychip']"
    return path, printed


def test_a_model_that_a_plug_in_compiled_is_loaded_in_another_process(
    toychip: Path, saved: tuple[Path, str]
) -> None:
    code = READY + "print(ag.load(sys.argv[1])(x).tobytes().hex())"
    assert played(code, toychip, arguments=saved[:1]).strip() == saved[1]


def test_without_its_device_a_saved_model_is_an_error(saved: tuple[Path, str]) -> None:
    code = "import afterglow as ag\ntry: ag.load(sys.argv[1])\nexcept ag.UsageError as e: print(e)"
    assert played(code, arguments=saved[:1]) == (
        f"error: {saved[0]}: there is no device 'toychip'\n"
        "  help: there are cpu, interpreter, opencl, cuda; install the package that brings it\n"
    )


def test_the_command_line_knows_the_backend_of_a_plug_in(toychip: Path) -> None:
    code = (
        "from afterglow.cli.main import execute\n"
        "print(execute(['targets']), execute(['targets', '--json']))\n"
        f"print(execute(['check', {MODEL!r}, '--backend', 'toychip']))\n"
        "from afterglow import onnx_backend\n"
        "print(onnx_backend.supports_device('TOYCHIP'))"
    )
    shown = played(code, toychip)
    assert "a chip made of paper" in shown
    assert '"backend": "toychip"' in shown
    assert shown.endswith("0\nTrue\n")


BROKEN = """
[afterglow.backends]
missing = broken.nowhere:factory
raising = broken.raising:factory
empty = broken:nothing
other = broken:other

[afterglow.devices]
raising = broken.raising:device
"""


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What is printed where a package is broken in several ways."""
    code = (
        "class nothing: name = 'empty'\n"
        "class other(nothing):\n"
        "    device, targets = 'cpu', ()\n"
        "    def __call__(self, settings): pass\n"
    )
    folder = package(tmp_path_factory.mktemp("site"), "broken", code, BROKEN)
    (folder / "broken" / "raising.py").write_text("raise RuntimeError('the driver is too old')")
    return played(
        "import afterglow as ag\nfrom afterglow.cli.main import execute\n"
        "for name in ('missing', 'raising', 'empty', 'other'):\n"
        f"    try: ag.compile({MODEL!r}, backend=name)\n"
        "    except ag.UsageError as error: print(error)\n"
        "own = ('opencl', 'cuda')\n"
        "print([d.name for d in ag.devices(measure=False) if d.backend not in own])\n"
        f"print(execute(['check', {MODEL!r}, '--backend', 'raising']))\n"
        "print(execute(['targets']))",
        folder,
    )


def test_a_plug_in_that_cannot_be_used_is_an_error_that_names_it(broken: str) -> None:
    def text(name: str, value: str, why: str) -> str:
        return (
            f"error: {name!r} of package 'broken' cannot be used: {why}\n"
            f"  entry point {name} = {value} in group afterglow.backends\n"
            "  help: repair the package or uninstall it\n"
        )

    raised = "ModuleNotFoundError: No module named 'broken.nowhere'"
    assert text("missing", "broken.nowhere:factory", raised) in broken
    too_old = "RuntimeError: the driver is too old"
    assert broken.count(text("raising", "broken.raising:factory", too_old)) == 2  # by the command
    assert text("empty", "broken:nothing", "it has no 'device'") in broken
    assert text("other", "broken:other", "it calls itself 'empty'") in broken


def test_what_a_broken_plug_in_lacks_is_a_warning_where_all_are_listed(broken: str) -> None:
    warning = "'raising' of package 'broken' cannot be used: RuntimeError: the driver is too old"
    assert warning in broken
    assert "['cpu', 'interpreter']" in broken
    assert "x86-64-v3" in broken
    assert broken.endswith("0\n")


def test_an_unknown_backend_is_an_error_that_lists_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        afterglow.compile(MODEL, backend="toychip", cache=False)
    assert str(caught.value) == (
        "error: no backend 'toychip'\n  help: there are cpu, interpreter, primitives, opencl, cuda"
    )


class Raising(Interpreter):
    """A backend that fails with every step."""

    def plans(self, step: object, *, exact: bool = False) -> Sequence[KernelPlan]:
        raise ValueError("no such register")


class RaisingFactory:
    """What makes such a backend."""

    name = device = "raising"

    def __call__(self, settings: Settings) -> Raising:
        return Raising("raising", False, settings, "raising")

    def targets(self) -> Sequence[TargetInfo]:
        raise KeyError("v1")


NO_ANSWER = "device 'raising' failed: OSError: no answer"


class RaisingDevice(InterpreterDevice):
    """A device that cannot say what it is."""

    name = "raising"

    def describe(self) -> DeviceInfo:
        raise OSError("no answer")


@pytest.fixture
def _raising(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_ADDED", {})
    install(RaisingFactory(), RaisingDevice())


@pytest.mark.usefixtures("_raising")
@pytest.mark.parametrize(
    ("backend", "what", "method"),
    [
        ("raising", "backend 'raising' failed: ValueError: no such register", "plans"),
        ([LogicalDevice("raising", threads=1)], NO_ANSWER, "describe"),
    ],
)
def test_what_the_code_of_a_plug_in_raises_is_an_error_that_names_it(
    backend: Any, what: str, method: str
) -> None:
    with pytest.raises((CompileError, DeviceError)) as caught:
        afterglow.compile(MODEL, backend=backend, cache=False)
    assert caught.value.what == what
    assert re.fullmatch(rf".*test_registry\.py, line \d+, in {method}", caught.value.where)


@pytest.mark.usefixtures("_raising")
def test_a_plug_in_that_raises_leaves_the_others_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found, missing = describe_devices()
    assert "cpu" in [info.name for info in found]
    assert missing["raising"].what == NO_ANSWER
    assert execute(["targets"]) == 0
    printed = capsys.readouterr()
    assert "x86-64-v3" in printed.out
    assert "warning: backend 'raising' failed: KeyError: 'v1'" in printed.err
