"""Targets: facts from features, names, and what a machine lacks."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import pytest

from afterglow.backends.cpu import Target, compile_module
from afterglow.backends.cpu.backend import Cpu
from afterglow.backends.cpu.target import NAMED
from afterglow.runtime.native.machine import cache_sizes, cores_per_cache
from afterglow.support.errors import UsageError


def test_levels_of_x86_widen_the_vectors() -> None:
    facts = [
        (t.vector_bits, t.vector_registers, t.fma, t.avx512)
        for t in map(Target.of, ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"))
    ]
    assert facts == [
        (128, 16, False, False),
        (128, 16, False, False),
        (256, 16, True, False),
        (512, 32, True, True),
    ]


def test_facts_follow_from_features_alone() -> None:
    target = Target.of("x86_64-unknown-linux-gnu+znver4+avx2,+fma,avx512vnni")
    assert target.vector_bits == 256
    assert target.fma
    assert target.dot_mixed_signs
    assert not target.avx512
    assert target.tuning == "znver4"
    assert target.features == ("avx2", "avx512vnni", "fma")


def test_a_named_target_stands_for_its_features() -> None:
    target = Target.of("x86_64-unknown-linux-gnu+x86-64-v3+avx512vnni,-movbe")
    assert set(target.features) == {*NAMED["x86-64-v3"].features, "avx512vnni"} - {"movbe"}
    assert target.tuning == ""


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("aarch64", {"vector_bits": 128, "vector_registers": 32, "fma": True}),
        ("aarch64-dotprod", {"dot_same_sign": True, "dot_mixed_signs": False}),
        ("cortex-m4", {"pointer_bits": 32, "double_precision": False, "rounding": False}),
        ("cortex-m7", {"fma": True, "double_precision": True, "rounding": True}),
        ("cortex-m33", {"fma": True, "double_precision": False, "vector_bits": 32}),
        ("armv7a", {"vector_bits": 128, "fma": False, "double_precision": True}),
        ("riscv32", {"pointer_bits": 32, "vector_bits": 32, "fma": True}),
        ("riscv64-v", {"vector_bits": 128, "vector_registers": 32}),
        ("wasm32", {"pointer_bits": 32, "vector_bits": 128, "fma": False}),
    ],
)
def test_facts_of_other_machines(name: str, facts: dict[str, int]) -> None:
    target = Target.of(name)
    assert {fact: getattr(target, fact) for fact in facts} == facts


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        Target.of("z80")
    assert str(caught.value) == inspect.cleandoc("""
        error: no target is called 'z80'
          help: the names are host, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, aarch64, \
aarch64-dotprod, cortex-m4, cortex-m7, cortex-m33, armv7a, riscv32, riscv64, riscv64-v, wasm32; \
or write triple+cpu+features
    """)


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(UsageError, match="no code can be made for 'z80'"):
        Target.of("z80-unknown-none+generic")


def test_missing_features_are_named() -> None:
    v2, v3 = Target.of("x86-64-v2"), Target.of("x86-64-v3")
    assert v2.missing_on(v3) == []
    assert v3.missing_on(v2) == [
        *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
    ]
    assert v3.missing_on(Target.of("aarch64")) == ["the architecture x86"]


def test_the_host_has_what_it_needs() -> None:
    host = Target.host()
    assert host is Target.of("host")
    assert host.missing_on(host) == []
    assert host.cores >= 1
    assert host.caches.l1 >= 8 << 10


def test_targets_are_written_as_they_are_named() -> None:
    assert [str(target) for target in NAMED.values()] == list(NAMED)


@pytest.mark.parametrize("name", NAMED)
def test_llvm_knows_every_named_target(name: str) -> None:
    text = "define float @half(float %x) { %y = fmul float %x, 0.5\n ret float %y }"
    assert compile_module(text, Target.of(name))


def test_caches_are_read_from_the_system(tmp_path: Path) -> None:
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    (tmp_path / "index3").mkdir()
    assert cache_sizes(tmp_path) == {1: 48 << 10, 2: 2 << 20}
    assert cache_sizes(tmp_path / "nowhere") == {}


@pytest.mark.parametrize(("text", "cores"), [("0-7", 8), ("3", 1), ("0-3,64-67", 8)])
def test_how_many_cores_share_a_cache_is_read_from_the_system(
    tmp_path: Path, text: str, cores: int
) -> None:
    (tmp_path / "index0").mkdir()
    (tmp_path / "index0" / "level").write_text("3\n")
    (tmp_path / "index0" / "shared_cpu_list").write_text(text + "\n")
    assert cores_per_cache(3, tmp_path) == cores
    assert cores_per_cache(2, tmp_path) is None


def test_last_caches_count_for_all_cores() -> None:
    target = replace(Target.of("x86-64-v3"), cores=16)
    backend = Cpu()
    for l3_cores, count in ((None, 1), (16, 1), (8, 2), (12, 2)):
        caches = replace(target.caches, l3_cores=l3_cores)
        backend.target = replace(target, caches=caches)
        assert backend.cache_bytes == count * target.caches.l3
