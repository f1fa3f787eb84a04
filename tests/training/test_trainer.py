"""The trainer: runs on a tiny network, which the interpreter computes without compiling."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import afterglow as ag
from afterglow import nn
from afterglow.graph import Builder, Value
from afterglow.ops.elementwise import Mul, Sub
from afterglow.ops.reduction import ReduceMean
from afterglow.training.checkpoint import Checkpoint

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((22, 3)).astype(np.float32)
Y = (X @ RANDOM.standard_normal((3, 2))).astype(np.float32)
NETWORK = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
MODULE = NETWORK.module({"x": (None, 3)})


def squares(b: Builder, outputs: tuple[Value, ...], targets: tuple[Value, ...]) -> Value:
    error = b.emit(Sub(), outputs[0], targets[0])
    return b.emit(ReduceMean((0, 1), keepdims=False), b.emit(Mul(), error, error))


def trainer(source=MODULE, *, lr=0.05, **options) -> ag.Trainer:
    sgd = ag.optim.SGD(lr=lr, momentum=0.9)
    return ag.Trainer(source, squares, sgd, **{"backend": "interpreter", **options})


def fitted(made: ag.Trainer, epochs=4, **options) -> ag.History:
    return made.fit((X, Y), epochs, batch=8, **{"progress": False, **options})


def same(one: ag.Trainer, other: ag.Trainer) -> bool:
    pairs = zip(one.parameters.items(), other.parameters.items(), strict=True)
    return all(a == b and (x == y).all() for (a, x), (b, y) in pairs)


def losses(history: ag.History) -> list[dict[str, float]]:
    return [epoch.numbers for epoch in history]


class StopError(Exception):
    """As if the process were killed."""


def dying_at(step: int):
    """Batches of the data that end with an error."""

    def batches(epoch: int):
        order = np.random.default_rng(epoch).permutation(len(X))
        for number, rows in enumerate(np.array_split(order, 3)):
            if (epoch - 1) * 3 + number == step:
                raise StopError
            yield X[rows], Y[rows]

    return batches


def test_a_run_learns_and_its_last_batch_may_be_smaller() -> None:
    made = trainer(metrics="mae")
    before = made.evaluate((X, Y))
    history = fitted(made, validation=(X, Y))
    assert history["steps"] == [3] * 4
    assert made.steps == 12
    assert history["samples_per_second"][0] > 0
    after = made.evaluate((X, Y), batch=5)
    assert after["loss"] < 0.5 * before["loss"]
    assert after["loss"] == pytest.approx(history[-1].val_loss, rel=1e-6)
    assert after["mae"] == pytest.approx(np.abs(made.predict(X) - Y).mean(), rel=1e-6)


def test_machine_code_learns_the_same_for_any_number_of_threads() -> None:
    runs = [trainer(backend="cpu", threads=threads) for threads in (1, 2)]
    reference = trainer()
    numbers = [losses(fitted(each, epochs=2)) for each in (*runs, reference)]
    assert numbers[0] == numbers[1]
    assert same(*runs)
    assert numbers[0][-1]["loss"] == pytest.approx(numbers[2][-1]["loss"], rel=1e-5)


def test_steps_are_those_of_a_run() -> None:
    one, other = trainer(), trainer()
    found = [one.step(X[:8], Y[:8]), one.step(X[8:], Y[8:])]
    batches = [(X[:8], Y[:8]), {"x": X[8:], "target": Y[8:]}]
    history = other.fit(batches, progress=False)
    assert history[0].loss == pytest.approx((8 * found[0] + 14 * found[1]) / 22)
    assert same(one, other)


def test_what_is_learnt_is_a_module_and_a_compiled_model_and_a_file(tmp_path: Path) -> None:
    made = trainer()
    fitted(made, epochs=1)
    wanted = made.predict(X[:4])
    assert made.module(batch=4).constants["0.weight"].data.tolist() == (
        made.parameters["0.weight"].tolist()
    )
    model = made.compile(batch=4, backend="interpreter")
    assert np.allclose(model(X[:4]), wanted, rtol=1e-5)
    for batch in (4, None):
        path = tmp_path / f"trained {batch}.onnx"
        made.export(path, batch=batch)
        onnx.checker.check_model(onnx.load(path))
        again = trainer(path)
        assert np.allclose(again.predict(X[:4]), wanted, rtol=1e-5)
    assert np.allclose(again.predict(X[4:9]), made.predict(X[4:9]), rtol=1e-5)
    again.export(tmp_path / "again.onnx")
    (x,) = ag.compile(tmp_path / "again.onnx", backend="interpreter").inputs
    assert x.shape == ("batch", 3)


def test_weights_that_do_not_match_the_pattern_stay() -> None:
    made = trainer(trainable="2.*")
    assert [*made.parameters] == ["2.weight", "2.bias"]
    fitted(made, epochs=1)
    module = made.module()
    assert (module.constants["0.weight"].data == MODULE.constants["0.weight"].data).all()
    assert (module.constants["2.weight"].data != MODULE.constants["2.weight"].data).any()


def test_a_module_of_a_fixed_batch_learns_from_smaller_ones() -> None:
    fixed = trainer(NETWORK.module({"x": (8, 3)}))
    free = trainer()
    assert losses(fixed.fit((X, Y), 2, progress=False)) == losses(fitted(free, epochs=2))
    with pytest.raises(ag.UsageError) as caught:
        fixed.step(X[:9], Y[:9])
    assert caught.value.what == "the model is built for batches of 8, got 9 samples"


def test_batch_norms_learn_statistics_if_the_pattern_matches_them() -> None:
    layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm(4), nn.Linear(4, 2))
    made = trainer(layers.module({"x": (None, 3)}))
    fitted(made, epochs=1)
    assert (made.parameters["1.running_mean"] != 0).all()
    assert np.allclose(made.compile(8, backend="interpreter")(X[:8]), made.predict(X[:8]))
    last = trainer(layers.module({"x": (None, 3)}), trainable="2.*")
    assert [*last.parameters] == ["2.weight", "2.bias"]


def test_low_rank_factors_train_alone_and_are_merged() -> None:
    made = trainer(lora=ag.LoRA("2.*", rank=1))
    assert [*made.parameters] == ["2.weight.lora_a", "2.weight.lora_b"]
    fitted(made, epochs=1)
    module = made.module(8)
    assert module.constants.keys() == MODULE.constants.keys()
    assert (module.constants["2.weight"].data != MODULE.constants["2.weight"].data).any()
    model = made.compile(8, backend="interpreter")
    assert np.allclose(model(X[:8]), made.predict(X[:8]), atol=1e-6)


def test_gradients_are_clipped() -> None:
    free, limited, narrow = trainer(), trainer(clip_norm=1e-3), trainer(clip_value=1e-3)
    begin = free.parameters
    for each in (free, limited, narrow):
        each.step(X, Y)
    farthest = max(np.abs(narrow.parameters[n] - begin[n]).max() for n in begin)
    assert farthest == pytest.approx(0.05 * 1e-3, rel=1e-2)
    moved = [
        np.sqrt(sum(((each.parameters[n] - begin[n]) ** 2).sum() for n in begin))
        for each in (free, limited)
    ]
    assert moved[0] > 100 * moved[1]
    assert moved[1] == pytest.approx(0.05 * 1e-3, rel=1e-2)


def test_products_may_be_of_narrow_floats(tmp_path: Path) -> None:
    made, other = (trainer(precision="float16") for _ in range(2))
    fitted(made, epochs=1, checkpoint=tmp_path)
    assert made.parameters["0.weight"].dtype == np.float32
    wanted = fitted(made, epochs=2, checkpoint=tmp_path)
    assert losses(fitted(other, epochs=2, checkpoint=tmp_path)) == losses(wanted)
    assert same(made, other)


@pytest.mark.parametrize("step", [1, 4, 6])
def test_a_run_that_died_is_resumed_exactly(tmp_path: Path, step: int) -> None:
    whole, first, second = (trainer(metrics="mae") for _ in range(3))
    options = {"validation": (X, Y), "early_stopping": 2, "epochs": 3, "progress": False}
    wanted = whole.fit(dying_at(-1), **options)
    folder = ag.Checkpoints(tmp_path, every=2)
    with pytest.raises(StopError):
        first.fit(dying_at(step), **options, checkpoint=folder)
    found = second.fit(dying_at(-1), **options, checkpoint=folder)
    assert losses(found) == losses(wanted)
    assert same(second, whole)
    assert second.fit(dying_at(-1), **options, checkpoint=folder).epochs == found.epochs


def test_a_killed_process_is_resumed_exactly(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_run.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    kills, *digests = done.stdout.split()
    assert int(kills) >= 1  # a run may be at its end before it is killed
    assert digests[0] == digests[1]


def test_control_c_ends_a_run_with_a_checkpoint(tmp_path: Path) -> None:
    def press(epoch: ag.History) -> None:
        if epoch.epoch == 2:
            os.kill(os.getpid(), signal.SIGINT)

    made = trainer()
    history = fitted(made, callbacks=[press], checkpoint=tmp_path)
    assert history.stopped == "interrupted after step 7, in epoch 3"
    assert len(history) == 2
    assert Checkpoint.load(tmp_path / "step-000000007.agt").step == 7
    whole, resumed = trainer(), trainer()
    assert losses(fitted(whole)) == losses(fitted(resumed, checkpoint=tmp_path))
    assert same(whole, resumed)


def test_early_stopping_restores_the_best_weights() -> None:
    made = trainer(lr=0.3)
    history = fitted(made, 60, validation=(X[:7], Y[:7] + 1), early_stopping=2)
    best = int(np.argmin(history["val_loss"]))
    assert len(history) == best + 3
    stopped = f"stopped after epoch {best + 3}: val_loss was best in epoch {best + 1}"
    assert history.stopped == stopped
    assert made.evaluate((X[:7], Y[:7] + 1))["loss"] == history["val_loss"][best]


def test_a_share_of_the_data_is_left_for_validation() -> None:
    history = fitted(trainer(), epochs=1, validation=0.25)
    assert history[0].samples == 16
    assert history[0].val_loss is not None


def test_a_callback_ends_a_run() -> None:
    history = fitted(trainer(), callbacks=[lambda epoch: epoch.epoch == 2])
    assert history.stopped == "stopped after epoch 2 by a callback"
    assert len(history) == 2


def test_a_line_is_printed_for_each_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    fitted(trainer(), epochs=2, progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 1", "epoch 2"]


def test_a_trainer_is_saved_and_loaded(tmp_path: Path) -> None:
    one, other = trainer(), trainer()
    fitted(one, epochs=1)
    one.save(tmp_path / "a.agt")
    other.load(tmp_path / "a.agt")
    assert other.steps == 3
    assert one.step(X, Y) == other.step(X, Y)
    assert same(one, other)


def test_a_loss_that_is_no_number_ends_a_run(tmp_path: Path) -> None:
    with pytest.raises(ag.TrainingError) as caught:
        fitted(trainer(lr=lambda step: 0.01 if step < 3 else 1e30), checkpoint=tmp_path)
    assert str(caught.value) == (
        "error: the loss is inf in step 5, in epoch 2, with the learning rate 1e+30\n"
        "  help: lower the learning rate, let it rise slowly at first, or clip gradients; "
        f"{tmp_path / 'step-000000003.agt'} is from before"
    )
    odd = X.copy()
    odd[3] = np.nan
    with pytest.raises(ag.TrainingError) as caught:
        trainer().fit((odd, Y), batch=22, progress=False)
    assert caught.value.help == "'x' of this batch is not finite either: look at the data"


def test_a_label_that_is_no_class_is_an_error() -> None:
    made = ag.Trainer(MODULE, "cross_entropy", ag.optim.SGD(), backend="interpreter")
    with pytest.raises(ag.IndexRangeError) as caught:
        made.step(X, np.full(22, 2))
    assert str(caught.value) == (
        "error: cross_entropy: labels must be from 0 to 1, got 2\n"
        "  in node 'cross_entropy.loss'\n"
        "  help: look at the labels and indices of this batch; go on from a checkpoint, "
        "because the step may have changed weights already"
    )


@pytest.mark.parametrize("label", [2, -1])
def test_machine_code_refuses_a_label_that_is_no_class_too(label: int) -> None:
    made = ag.Trainer(MODULE, "cross_entropy", ag.optim.SGD(), threads=1)
    with pytest.raises(ag.IndexRangeError) as caught:
        made.step(X, np.full(22, label))
    assert caught.value.what == f"check_labels: labels must be from 0 to 1, got {label}"


@pytest.mark.parametrize(
    ("layers", "loss", "what"),
    [
        (
            [nn.Linear(3, 2), nn.Flatten(0, 1)],
            "cross_entropy",
            "for 2 samples, the loss needs 8 rows of 'labels'",
        ),
        (
            [nn.Linear(3, 5)],
            ag.optim.CTC(longest=3),
            "for 2 samples, the loss needs 4 rows of 'labels'",
        ),
    ],
)
def test_outputs_whose_first_axis_is_not_that_of_the_batch_are_refused(
    layers: list[nn.Layer], loss: Any, what: str
) -> None:
    module = nn.Sequential(*layers).module({"x": (2, 4, 3)})
    with pytest.raises(ag.UsageError) as caught:
        ag.Trainer(module, loss, "sgd", backend="interpreter")
    assert caught.value.what == what


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    fitted(trainer(), epochs=1, checkpoint=tmp_path)
    with pytest.raises(ag.UsageError) as caught:
        fitted(trainer(), checkpoint=tmp_path, resume=False)
    assert caught.value.what == f"{tmp_path} has checkpoints of another run"
    wider = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).module({"x": (None, 3)})
    with pytest.raises(ag.UsageError) as caught:
        fitted(trainer(wider), checkpoint=tmp_path)
    assert caught.value.what == "the checkpoint does not fit the model"
    assert caught.value.excerpt[0] == "weight '0.weight': float32[4, 3] saved, float32[5, 3] wanted"
    adam = ag.Trainer(MODULE, squares, ag.optim.Adam(), backend="interpreter")
    with pytest.raises(ag.UsageError) as caught, pytest.warns(ag.AfterglowWarning):
        fitted(adam, checkpoint=tmp_path)
    assert caught.value.what == "the checkpoint does not fit the optimizer"


def test_a_run_with_another_learning_rate_is_resumed_with_a_warning(tmp_path: Path) -> None:
    fitted(trainer(), epochs=1, checkpoint=tmp_path)
    with pytest.warns(ag.AfterglowWarning, match="resumed with another optimizer: SGD"):
        fitted(trainer(lr=0.01), checkpoint=tmp_path)


def test_an_epoch_with_other_batches_is_not_resumed(tmp_path: Path) -> None:
    with pytest.raises(StopError):
        trainer().fit(dying_at(2), progress=False, checkpoint=ag.Checkpoints(tmp_path, every=2))
    with pytest.raises(ag.UsageError) as caught:
        fitted(trainer(), checkpoint=tmp_path)
    assert caught.value.what == "the run stopped in epoch 1, whose batches were others"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ag.Trainer(MODULE, squares),
            "error: an optimizer is needed, got None\n"
            "  help: write optimizer=ag.optim.SGD(lr=0.05, momentum=0.9), or ag.optim.AdamW()",
        ),
        (
            lambda: trainer(NETWORK),
            "error: the network is not built yet: Sequential(Linear(3, 4), ReLU(), Linear(4, 2)) "
            "may take inputs of many shapes\n"
            "  help: build it: network.module({'x': (None, 3, 32, 32)}), with None for the batch",
        ),
        (
            lambda: trainer(precision="int8"),
            "error: a model cannot be trained in 'int8'\n"
            "  help: use 'float32', 'bfloat16', 'float16'",
        ),
        (lambda: trainer().fit((X, Y), -1), "error: epochs must be a number from 0 on, got -1"),
        (
            lambda: trainer().fit((X, Y), batch=0),
            "error: a batch has at least one sample, got batch=0",
        ),
        (
            lambda: trainer().fit([], progress=False),
            "error: epoch 1 has no batches: there is nothing to learn from",
        ),
    ],
)
def test_what_cannot_be_trained(make, message) -> None:
    with pytest.raises(ag.UsageError) as caught:
        make()
    assert str(caught.value) == message


WRONG_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"trainable": []}, "trainable must name weights that train, got []"),
    ({"trainable": 5}, "trainable must name weights that train, got 5"),
    ({"lora": "*"}, "lora says which weights get factors, got '*'"),
    ({"seed": -1}, "seed must be a whole number from 0 on, got -1"),
    ({"optimizer": ag.optim.SGD}, f"an optimizer is needed, got {ag.optim.SGD!r}"),
    (
        {"loss": ag.optim.MSE},
        f"a loss is a name, one of ag.optim, or a function, got {ag.optim.MSE!r}",
    ),
    (
        {"loss": lambda b, outputs, targets: outputs[0]},
        "a function that emits a loss must return a scalar of the graph, got f32[32, 2]",
    ),
    (
        {"loss": lambda b, outputs, targets: None},
        "a function that emits a loss must return a scalar of the graph, got None",
    ),
]


@pytest.mark.parametrize(("wrong", "what"), WRONG_SETTINGS)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, Any], what: str) -> None:
    model = nn.Linear(3, 2).module({"x": (None, 3)})
    with pytest.raises(ag.UsageError) as refused:
        ag.Trainer(model, **{"optimizer": "sgd", **wrong})
    assert refused.value.what == what


WRONG_RUNS: list[tuple[dict[str, Any], str]] = [
    ({"callbacks": 5}, "callbacks must be a list of functions, got 5"),
    ({"callbacks": [5]}, "callbacks must be a list of functions, got [5]"),
    ({"early_stopping": "a"}, "patience is a number of epochs from 1 on, got 'a'"),
    ({"early_stopping": True}, "patience is a number of epochs from 1 on, got True"),
]


@pytest.mark.parametrize(("wrong", "what"), WRONG_RUNS)
def test_options_of_a_run_that_mean_nothing_are_refused(wrong: dict[str, Any], what: str) -> None:
    trainer = ag.Trainer(nn.Linear(3, 2).module({"x": (None, 3)}), optimizer="sgd")
    with pytest.raises(ag.UsageError) as refused:
        trainer.fit((np.zeros((4, 3), np.float32), np.zeros(4, np.int64)), **wrong)
    assert refused.value.what == what
