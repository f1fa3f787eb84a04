"""The steps that a bundle tells work on what it is for: systems, firmware, WebAssembly."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from afterglow.backends.cpu.bundle.files.systems import System, gcc_flags, system_of, zig_flags
from afterglow.backends.cpu.target import Target
from tests.backends.cpu.bundle.files.building import export
from tests.emulation.linking import HAS_LINKER
from tests.emulation.models import DIGITS

pytestmark = pytest.mark.skipif(not HAS_LINKER, reason="ziglang, which compiles C, is not here")


def make(folder: Path, *goals: str) -> str:
    """Run make as its file says that it is run without an installed compiler."""
    text = (folder / "Makefile").read_text()
    found = re.search(r"make (CC=.*)$", text, re.MULTILINE)
    assert found
    words = [word.replace("python ", f"{sys.executable} ") for word in shlex.split(found[1])]
    done = subprocess.run(
        ["make", "-C", str(folder), *words, *goals], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("embed", [False, True])
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m33", "riscv32"])
def test_the_check_of_firmware_runs_without_a_system(
    tmp_path: Path, target: str, embed: bool
) -> None:
    bare = pytest.importorskip("tests.emulation.bare", reason="unicorn runs it")
    export(DIGITS, tmp_path, "digits", target, embed_weights=embed, freestanding=True)
    make(tmp_path)
    names = ["digits.o", "main.o", *([] if embed else ["weights.o"])]
    objects = [(tmp_path / name).read_bytes() for name in names]
    machine = bare.BareMachine(objects, ["main"], Target.of(target))
    assert machine.call("main") == 0


@pytest.mark.parametrize("embed", [False, True])
def test_the_check_of_a_module_runs_in_node(tmp_path: Path, embed: bool) -> None:
    if shutil.which("node") is None:
        pytest.skip("node, which runs JavaScript, is not here")
    export(DIGITS, tmp_path, "digits", "wasm32", embed_weights=embed)
    assert "self-check passed" in make(tmp_path, "check")


@pytest.mark.parametrize("target", ["aarch64", "armv7a", "riscv64"])
def test_the_program_of_another_system_is_built(tmp_path: Path, target: str) -> None:
    export(DIGITS, tmp_path, "digits", target)
    make(tmp_path, "main")
    assert (tmp_path / "main").read_bytes()[:4] == b"\x7fELF"


def test_no_bundle_tells_steps_of_another_system(tmp_path: Path) -> None:
    for target, absent in (
        ("cortex-m4", ("pool", "./main", "-pthread", "FILE.npy", "Threads", "main --self-check")),
        ("wasm32", ("main", "pool", "-pthread", "FILE.npy", "Threads")),
    ):
        folder = tmp_path / target
        export(DIGITS, folder, "digits", target)
        for name in ("README.md", "Makefile", "CMakeLists.txt"):
            text = (folder / name).read_text()
            assert [word for word in absent if word in text] == []
        assert not (folder / "pool.c").exists()


def test_the_readme_names_every_file(tmp_path: Path) -> None:
    for target in ("x86-64", "cortex-m4", "wasm32"):
        folder = tmp_path / target
        export(DIGITS, folder, "digits", target)
        named = set(
            re.findall(
                r"`([\w.]+)`", (folder / "README.md").read_text().split("Inputs and outputs")[0]
            )
        )
        assert {path.name for path in folder.iterdir()} - {"README.md"} == named - {"main"}


def test_systems_follow_from_triples() -> None:
    assert system_of(Target.of("x86-64")) is System.HOSTED
    assert system_of(Target.of("riscv32")) is System.FIRMWARE
    assert system_of(Target.of("wasm32")) is System.WEB
    m4, riscv = Target.of("cortex-m4"), Target.of("riscv32")
    assert gcc_flags(m4) == "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard"
    assert gcc_flags(riscv) == "-march=rv32imafdc -mabi=ilp32d"
    assert zig_flags(m4) == "-target thumb-freestanding-gnueabihf -mcpu=cortex_m4"
    assert zig_flags(Target.of("x86-64")) == "-target x86_64-linux-gnu"
