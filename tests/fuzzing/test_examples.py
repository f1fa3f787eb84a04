"""What kinds make: the same from the same seed, files that read back, and checks that hold."""

from __future__ import annotations

import ctypes
from math import gcd
from pathlib import Path
from random import Random

import numpy as np
import onnx
import pytest

from afterglow.types.dtype import bf16
from fuzzing.cases import STRIDE, all_cases, hostile_types
from fuzzing.compare import compare
from fuzzing.corpus import Corpus, Example, write_corpus
from fuzzing.corpus import unpacked as example_in
from fuzzing.guard_pages import Guarded
from fuzzing.guarded import GuardedBundles
from fuzzing.hostile import Hostile
from fuzzing.hostile_values import hostile_array
from fuzzing.kind import Mismatch, Setup
from fuzzing.mutate import MUTATIONS
from fuzzing.mutate_bytes import mutate_bytes
from fuzzing.outcome import Verdict, outcome_of
from fuzzing.program import ProgramExample, unpacked
from fuzzing.programs import Programs
from fuzzing.reduce import smaller_models
from fuzzing.saved import Saved
from fuzzing.shorten import shorter_programs
from tests.backends.cpu import networks
from tests.frontends.models import model, node


@pytest.mark.parametrize("kind", [Hostile, Saved, GuardedBundles, Programs])
def test_a_seed_always_makes_the_same(kind, tmp_path: Path) -> None:
    makes = [kind(Setup(tmp_path)).make(41) for _ in range(2)]
    assert makes[0] == makes[1]


@pytest.mark.parametrize("kind", [Hostile, Saved, GuardedBundles, Programs])
def test_some_examples_pass(kind, tmp_path: Path) -> None:
    own = kind(Setup(tmp_path))
    outcomes = [outcome_of(own, own.make(seed)) for seed in range(2)]
    assert all(outcome.verdict is not Verdict.FINDING for outcome in outcomes), outcomes


def test_a_corpus_reads_back(tmp_path: Path) -> None:
    examples = [Example(f"{i:03}", bytes([i]), {"x": np.full(3, i)}) for i in range(5)]
    assert list(write_corpus(tmp_path, examples)) == [5]
    corpus = Corpus(tmp_path)
    assert [corpus[i].model for i in range(len(corpus))] == [bytes([i]) for i in range(5)]
    again = example_in(corpus[3].packed())
    assert (again.name, again.model, list(again.inputs["x"])) == ("003", b"\3", [3, 3, 3])


@pytest.mark.parametrize("name", ["f32", "bf16", "i4", "bool", "str", "c64", "f8e4m3fn"])
def test_programs_with_any_elements_read_back(name: str) -> None:
    from_text = {t.dtype.name: t.dtype for c in all_cases() for t in c.types if t is not None}
    dtype = from_text[name]
    array = hostile_array(dtype, (2, 3), Random(0))
    again = unpacked(ProgramExample("text", {"c": array}, {"x": array}, {"y": "none"}).packed())
    assert (again.text, again.odd) == ("text", {"y": "none"})
    for found in (again.constants["c"], again.inputs["x"]):
        assert found.dtype == dtype.numpy
        assert found.tolist() == array.tolist() or found.tobytes() == array.tobytes()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.__name__)
def test_mutations_change_a_model_and_leave_a_protobuf(mutation) -> None:
    changed = 0
    for seed in range(30):
        mutant = networks.loop() if seed % 2 else networks.cnn()
        before = mutant.SerializeToString()
        mutation(mutant, Random(seed), networks.cnn())
        after = mutant.SerializeToString()
        onnx.load_from_string(after)
        changed += after != before
    assert changed


def test_mutated_bytes_differ() -> None:
    data = bytes(range(256))
    assert sum(mutate_bytes(data, Random(seed), data) != data for seed in range(50)) > 40


def test_models_are_cut_to_what_a_node_needs() -> None:
    chain = [node("Abs", ["x"], ["a"]), node("Neg", ["x"], ["n"]), node("Exp", ["n"], ["y"])]
    cut = [onnx.load_from_string(m) for m in smaller_models(model(chain).SerializeToString())]
    assert [[n.op_type for n in m.graph.node] for m in cut] == [["Abs"], ["Neg"], ["Neg", "Exp"]]


def test_programs_are_cut_to_what_a_node_needs() -> None:
    lines = [
        "const @c : f32[2] = [1.0, 2.0]",
        "func @main(%x: f32[2]) {",
        "  %a = add(%x, @c) : f32[2]",
        "  %b = abs(%x) : f32[2]",
        "  %d = neg(%b) : f32[2]",
        '  return %d as "y0"',
        "}",
    ]
    cut = [program.module() for program in shorter_programs(ProgramExample("\n".join(lines)))]
    assert [[n.op.mnemonic for n in m.main.nodes] for m in cut] == [["add"], ["abs"]]


def test_every_case_is_reached() -> None:
    assert gcd(STRIDE, len(all_cases())) == 1


def test_types_that_an_op_refuses_are_refused_in_a_text(tmp_path: Path) -> None:
    matmul = next(case for case in all_cases() if case.op.mnemonic == "matmul")
    own = Hostile(Setup(tmp_path))
    verdicts = {
        outcome_of(own, hostile_types(matmul, Random(seed)).packed()).verdict for seed in range(12)
    }
    assert verdicts == {Verdict.PASSED, Verdict.REFUSED}


@pytest.mark.parametrize("at_end", [True, False])
def test_guarded_memory_holds_what_it_is_given(at_end: bool) -> None:
    data = np.arange(7, dtype=np.float32)
    block = Guarded.holding(data, at_end=at_end)
    assert ctypes.string_at(block.address, 28) == data.tobytes()
    page = 4096
    assert (block.address + 28) % page == 0 if at_end else block.address % page == 0


def test_comparison_knows_nan_and_infinity() -> None:
    odd = np.array([np.nan, np.inf, 1.0], np.float32)
    compare("same", [odd], [odd])
    compare("same", [odd.astype(bf16.numpy)], [odd.astype(bf16.numpy)])
    with pytest.raises(Mismatch, match=r"numbers: output 0 at element 1: .*1 of 3 differ"):
        compare("numbers", [np.array([np.nan, -np.inf, 1.0], np.float32)], [odd])
    with pytest.raises(Mismatch, match="not int32"):
        compare("types", [odd], [np.zeros(3, np.int32)])
