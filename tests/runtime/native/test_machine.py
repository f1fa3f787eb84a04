"""What this machine can do, as the system says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from afterglow.backends.cpu import Target
from afterglow.runtime.native import machine
from afterglow.runtime.native.machine import (
    Needs,
    architecture_of,
    check_runs_here,
    listed_features,
    processor,
    usable_memory,
)
from afterglow.support.errors import UsageError
from tests.backends.cpu.running import RUNNABLE

X86 = "processor\t: 0\nflags\t\t: lm pni sse4_1 avx512_vnni\n\nprocessor\t: 1\nflags\t: other\n"
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd asimddp\n"


def no_llvm() -> set[str]:
    raise AssertionError("LLVM was asked")


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_system_knows_all_that_code_needs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_llvm_features", no_llvm)
    check_runs_here(Target.of(name).needs)


def test_the_first_processor_counts(tmp_path: Path) -> None:
    (tmp_path / "x86").write_text(X86)
    (tmp_path / "arm").write_text(ARM)
    assert listed_features(tmp_path / "x86") == {"lm", "pni", "sse41", "avx512vnni"}
    assert listed_features(tmp_path / "arm") == {"fp", "asimd", "asimddp"}
    assert listed_features(tmp_path / "nowhere") == frozenset()


def test_llvm_is_asked_where_the_system_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "listed_features", frozenset)
    check_runs_here(Target.host().needs)


def test_what_is_missing_is_named() -> None:
    own = Target.host().architecture
    with pytest.raises(UsageError) as caught:
        check_runs_here(Needs("a saucer", own, ("antigravity",)))
    assert caught.value.what == "the code for a saucer does not run here: it needs antigravity"
    with pytest.raises(UsageError, match="it needs the architecture wasm"):
        check_runs_here(Target.of("wasm32").needs)


def test_architectures() -> None:
    names = [
        "x86_64-unknown-linux-gnu",
        "arm64-apple-macos",
        "armv7l",
        "thumbv7em",
        "riscv64",
        "z80",
    ]
    assert [*map(architecture_of, names)] == ["x86", "aarch64", "arm", "arm", "riscv64", None]


def test_the_text_of_a_processor_stays_as_it_is() -> None:
    assert processor() == processor()
    assert "MHz" not in processor()


def test_cores_and_memory_are_what_the_groups_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "granted_cores", lambda: None)
    monkeypatch.setattr(machine, "granted_memory", lambda: None)
    cores, memory = machine.usable_cores(), usable_memory()
    assert cores >= 1
    assert memory > 2**20
    monkeypatch.setattr(machine, "granted_cores", lambda: 0.5)
    monkeypatch.setattr(machine, "granted_memory", lambda: 2**20)
    assert machine.usable_cores() == 1
    assert usable_memory() == 2**20


def test_interruptions_are_counted() -> None:
    before = machine.interruptions()
    assert machine.interruptions() >= before >= 0
