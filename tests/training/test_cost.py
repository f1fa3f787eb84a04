"""What training costs in memory, over inference."""

from __future__ import annotations

import afterglow as ag
from afterglow import nn
from afterglow.training.cost import InferenceMemory, Kept, TrainingMemory


def trainer(**options: object) -> ag.Trainer:
    layers = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
    module = layers.module({"x": (64, 64)}, seed=1)
    return ag.Trainer(module, "mse", ag.optim.SGD(momentum=0.9), threads=1, **options)


def test_the_report_is_a_table() -> None:
    kept = (Kept("stem", "f32[16, 32]", 2048), Kept("head", "f32[4]", 16))
    memory = TrainingMemory(
        4096, 8192, 8, 512, 3000, 2064, 500, kept, InferenceMemory(4096, 512, 1000)
    )
    assert str(memory) == "\n".join(
        [
            " memory                         training   inference",
            "─────────────────────────────────────────────────────",
            " weights                         4,096 B     4,096 B",
            " states of the optimizer         8,192 B",
            " other states                        8 B",
            " inputs and outputs                512 B       512 B",
            " arena                           3,000 B     1,000 B",
            "   kept for the backward pass    2,064 B",
            "   workspace                       500 B",
            "   gradients and others            436 B",
            " total                          15,808 B     5,608 B",
            "",
            " largest values kept   type          bytes",
            "───────────────────────────────────────────",
            " stem                  f32[16, 32]   2,048",
            " head                  f32[4]           16",
        ]
    )


def test_a_step_has_slots_and_keeps_values_of_the_forward_pass() -> None:
    memory = trainer().memory()
    assert memory.weights == memory.slots == memory.inference.weights == 2 * (64 + 1) * 64 * 4
    assert memory.kept[0] == Kept("1", "f32[64, 64]", 64 * 64 * 4)
    assert memory.arena >= memory.kept_at_peak + memory.workspace_at_peak
    assert memory.arena > memory.inference.arena


def test_a_step_of_parts_of_a_batch_has_sums_of_gradients_and_keeps_less() -> None:
    whole, parts = trainer().memory(), trainer(accumulate=4).memory()
    assert parts.other_states - whole.other_states == parts.slots
    assert sum(value.nbytes for value in parts.kept) * 4 == sum(v.nbytes for v in whole.kept)
    assert parts.total - parts.other_states < whole.total
