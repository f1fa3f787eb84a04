"""Losses against PyTorch's numbers, what they need, and what users may not choose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import afterglow as ag
from afterglow.autodiff import gradients
from afterglow.graph import Builder, Function, run_function
from afterglow.ops.cross_entropy import CrossEntropy as CrossEntropyOp
from afterglow.ops.cross_entropy import NegativeLogLikelihood
from afterglow.ops.softmax import LogSoftmax
from afterglow.optim import (
    CTC,
    L1,
    MSE,
    BinaryCrossEntropy,
    CrossEntropy,
    Huber,
    Loss,
    losses,
)
from afterglow.support.errors import IndexRangeError, UsageError
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import f32, f64, i64

X = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0], [2.0, 0.0, 1.5], [-0.5, 0.75, 1.25]])
WEIGHTS = (0.5, 1.0, 2.0)
LABELS = np.array([2, 0, -100, 1])
SHARES = np.array([[0.5, 0.25, 0.25], [1, 0, 0], [0, 0.5, 0.5], [0.1, 0.2, 0.7]])
SIDES = np.array([[0, 1, 0.3], [1, 0, 0.8], [0.5, 1, 0], [1, 1, 0]])
BY_PYTORCH = [
    (CrossEntropy(), LABELS, 1.63680586, (0.201249632, 0.0100196292, -0.211269261)),
    (CrossEntropy(0.1), LABELS, 1.65069475, (0.190138521, -0.00109148192, -0.189047039)),
    (
        CrossEntropy(class_weights=WEIGHTS),
        LABELS,
        1.28585611,
        (0.344999369, 0.0171765072, -0.362175876),
    ),
    (
        CrossEntropy(0.1, 1, WEIGHTS),
        np.array([2, 0, 1, 1]),
        1.43810583,
        (0.456207487, 0.0097118138, -0.465919301),
    ),
    (
        CrossEntropy(0.1, class_weights=WEIGHTS, reduction="sum"),
        LABELS,
        4.67749546,
        (1.14051872, 0.0242795345, -1.16479825),
    ),
    (CrossEntropy(probabilities=True), SHARES, 1.71634362, (0.025937224, -0.0549852781)),
    (
        CrossEntropy(0.1, class_weights=WEIGHTS, probabilities=True),
        SHARES,
        1.635866,
        (0.0930361778, -0.0569433661, -0.0360928117),
    ),
    (MSE(), SIDES, 2.68479167, (0.166666667, -0.5, 0.0333333333)),
    (MSE(reduction="sum"), SIDES, 32.2175, (2, -6, 0.4)),
    (L1(), SIDES, 1.39583333, (0.0833333333, -0.0833333333, 0.0833333333)),
    (Huber(), SIDES, 0.948541667, (0.0833333333, -0.0833333333, 0.0166666667)),
    (Huber(0.5), SIDES, 0.579270833, (0.0416666667, -0.0416666667, 0.0166666667)),
    (BinaryCrossEntropy(), SIDES, 1.28220172, (0.0609215482, -0.0733997565, 0.0268716109)),
    (
        BinaryCrossEntropy(WEIGHTS, 3.0),
        SIDES,
        2.61089177,
        (0.0304607741, -0.220199269, 0.015989155),
    ),
    (
        BinaryCrossEntropy(pos_weight=WEIGHTS, reduction="sum"),
        SIDES,
        15.7725129,
        (0.731058579, -0.880797078, 0.209197131),
    ),
]
"""Targets, the loss and the first elements of its gradient, by PyTorch 2.13 in doubles."""


def with_gradient(loss: Loss, shape: tuple[int, ...] = X.shape, dtype: DType = f64) -> Function:
    """A function of logits and targets that returns the loss and its gradient."""
    f = Function("main")
    b = Builder(f)
    x = f.input("x", TensorType(dtype, shape))
    targets = [f.input(name, type) for name, type in loss.targets((x.type,))]
    f.output("loss", loss.emit(b, (x,), targets))
    (slope,) = gradients(b, [f.outputs[0].value], [x])
    assert slope is not None
    f.output("slope", slope)
    return f


@pytest.mark.parametrize(("loss", "target", "wanted", "slopes"), BY_PYTORCH, ids=str)
def test_the_loss_and_its_gradient_are_those_of_pytorch(
    loss: Loss, target: Array, wanted: float, slopes: tuple[float, ...]
) -> None:
    got, slope = run_function(with_gradient(loss), [X, target])
    np.testing.assert_allclose(got, wanted, rtol=1e-8)
    np.testing.assert_allclose(slope.ravel()[: len(slopes)], slopes, rtol=1e-8)


def test_classes_are_the_second_of_three_axes() -> None:
    loss = CrossEntropy(class_weights=WEIGHTS)
    f = with_gradient(loss, (2, 3, 2))
    got, slope = run_function(f, [X.reshape(2, 3, 2), np.array([[0, 1], [2, -100]])])
    np.testing.assert_allclose(got, 1.48725796, rtol=1e-8)
    np.testing.assert_allclose(slope.ravel()[:3], (-0.12697634, 0.0216351585, 0.00963219403))


def test_the_loss_says_which_targets_it_needs() -> None:
    x = TensorType(f32, (8, 5, 3))
    assert CrossEntropy().targets((x,)) == (("labels", TensorType(i64, (8, 3))),)
    assert CrossEntropy(axis=-1).targets((x,)) == (("labels", TensorType(i64, (8, 5))),)
    assert CrossEntropy(probabilities=True).targets((x,)) == (("probabilities", x),)
    assert MSE().targets((x,)) == (("target", x),)


def test_nothing_but_log_probabilities_is_stored_for_the_gradient_of_cross_entropy() -> None:
    f = with_gradient(CrossEntropy(), (8, 40), f32)
    compiled = ag.compile(f.module)
    random = np.random.default_rng(2)
    x, labels = random.standard_normal((8, 40)).astype(np.float32), np.arange(8) * 5
    labels[3] = -100
    for got, wanted in zip(compiled(x, labels), run_function(f, [x, labels]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)
    lines = [line for line in compiled.ir("instructions").splitlines() if "[8, 40]" in line]
    stored = [line for line in lines if "= alloc" in line or "= view" in line]
    assert len(stored) == 1, "the log probabilities, and no one-hot labels"
    with pytest.raises(IndexRangeError):
        compiled(x, labels - 1)


SEQUENCES = (np.arange(48.0).reshape(6, 2, 4) * 7 % 11) / 4 - 1
REPEATED = np.array([[1, 1, 2], [3, 2, -5]])
ALIGNED = [
    (CTC(3), (6, 5), (3, 2), 1.71231471, (-0.00310088755, -0.110095562, 0.0167584172)),
    (CTC(3, reduction="sum"), (6, 5), (3, 2), 8.24134234, (-0.0186053253, -0.660573374)),
    (CTC(3, zero_infinity=True), (3, 5), (3, 2), 1.01627297, (0.0, 0.0, 0.0, 0.0, -0.00868938334)),
    (CTC(3, reduction="sum"), (6, 5), (2, 0), 10.8568594, (-0.0733390844, -0.605839615)),
]
"""Lengths of inputs and of labels, the loss and the first of its gradient, by PyTorch 2.13."""


@pytest.mark.parametrize(("loss", "times", "counts", "wanted", "slopes"), ALIGNED, ids=str)
def test_the_loss_of_sequences_is_that_of_pytorch(
    loss: Loss,
    times: tuple[int, int],
    counts: tuple[int, int],
    wanted: float,
    slopes: tuple[float, ...],
) -> None:
    lengths = [np.array(times), np.array(counts)]
    f = with_gradient(loss, SEQUENCES.shape)
    got, slope = run_function(f, [SEQUENCES, REPEATED, *lengths])
    np.testing.assert_allclose(got, wanted, rtol=1e-8)
    np.testing.assert_allclose(slope.ravel()[: len(slopes)], slopes, rtol=1e-8, atol=1e-12)


def test_sequences_may_have_the_batch_first() -> None:
    loss = CTC(3, batch_first=True)
    f = with_gradient(loss, (2, 6, 4))
    lengths = [np.array([6, 5]), np.array([3, 2])]
    got, _ = run_function(f, [SEQUENCES.transpose(1, 0, 2), REPEATED, *lengths])
    np.testing.assert_allclose(got, 1.71231471, rtol=1e-8)


def test_a_sequence_too_short_for_its_labels_loses_infinitely() -> None:
    f = with_gradient(CTC(3, reduction="sum"), SEQUENCES.shape)
    lengths = [np.array([3, 5]), np.array([3, 2])]
    got, slope = run_function(f, [SEQUENCES, REPEATED, *lengths])
    assert got == np.inf
    assert np.isfinite(slope).all()


def test_a_label_without_a_class_is_an_error() -> None:
    with pytest.raises(IndexRangeError) as caught:
        run_function(with_gradient(CrossEntropy()), [X, np.array([0, 1, 2, -1])])
    assert caught.value.what == "cross_entropy: labels must be from 0 to 2, got -1"


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"labels": np.array([[1, 2], [1, -1]])}, "labels must be from 0 to 3, got -1"),
        ({"labels": np.array([[1, 2], [1, 4]])}, "labels must be from 0 to 3, got 4"),
        ({"input_lengths": np.array([5, 6])}, "lengths must be from 0 to 5, got 6"),
        ({"target_lengths": np.array([2, 3])}, "lengths must be from 0 to 2, got 3"),
    ],
)
def test_a_sequence_that_counts_what_is_not_there_is_an_error(
    wrong: dict[str, Array], what: str, backend: str
) -> None:
    given = {"labels": np.array([[1, 2], [1, 99]]), "input_lengths": np.array([5, 5])}
    given["target_lengths"] = np.array([2, 2 if "labels" in wrong else 1])
    model = ag.compile(with_gradient(CTC(2), (5, 2, 4), f32).module, backend=backend)
    logits = np.zeros((5, 2, 4), np.float32)
    if "labels" not in wrong:
        model(logits, **given)  # what lies behind the labels that count may be anything
    with pytest.raises(IndexRangeError, match=what):
        model(logits, **{**given, **wrong})


def test_losses_have_names() -> None:
    assert losses.named("cross_entropy") == CrossEntropy()
    with pytest.raises(UsageError) as caught:
        losses.named("entropy")
    assert caught.value.what == "there is no loss 'entropy'"
    assert caught.value.help == "known are binary_cross_entropy, cross_entropy, huber, l1, mse"


THREE = TensorType(f32, (5, 2, 4))
ONE = TensorType(f32, (4, 3))
REFUSED = [
    (lambda: MSE(reduction="none"), 'MSE: reduction must be "mean" or "sum", got \'none\''),
    (lambda: Huber(0.0), "Huber: delta must be a number above 0, got 0.0"),
    (
        lambda: CrossEntropy(class_weights=5),
        "CrossEntropy: class_weights must be a list of numbers, got 5",
    ),
    (
        lambda: BinaryCrossEntropy(weight="a"),
        "BinaryCrossEntropy: weight must be a number of at least 0, got 'a'",
    ),
    (
        lambda: BinaryCrossEntropy(pos_weight=[1, "a"]),
        "BinaryCrossEntropy: pos_weight must be a number of at least 0, got 'a'",
    ),
    (
        lambda: CrossEntropy(1.5),
        "CrossEntropy: label_smoothing must be a number from 0 to less than 1, got 1.5",
    ),
    (
        lambda: MSE().targets((ONE, ONE)),
        "MSE is the loss of one output, the model has 2",
    ),
    (
        lambda: L1().targets((TensorType(i64, (3,)),)),
        "L1 needs an output of floats, got i64[3]",
    ),
    (lambda: CTC(0), "CTC: longest must be a whole number from 1, got 0"),
    (lambda: CTC(3).targets((ONE,)), "CTC needs an output of three axes, got f32[4, 3]"),
    (
        lambda: CTC(3, 4).targets((THREE,)),
        "CTC: there is no class 4 for blanks in the output f32[5, 2, 4]",
    ),
    (
        lambda: CrossEntropy(axis=2).targets((ONE,)),
        "CrossEntropy: the output f32[4, 3] has no axis 2 of classes",
    ),
    (
        lambda: CrossEntropy(class_weights=[1, 2]).targets((ONE,)),
        "CrossEntropy: there are 2 class_weights for 3 classes, those of axis 1 of the output "
        "f32[4, 3]",
    ),
    (
        lambda: BinaryCrossEntropy(pos_weight=[1, 2]).targets((ONE,)),
        "BinaryCrossEntropy: pos_weight has 2 numbers, which do not run along the last axis of "
        "the output f32[4, 3]",
    ),
]


@pytest.mark.parametrize(("make", "text"), REFUSED, ids=lambda x: x if isinstance(x, str) else "")
def test_what_makes_no_sense_is_refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert caught.value.what == text


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("ignored", [-100, 255, 2**40])
def test_labels_of_any_width_may_have_any_label_ignored(dtype: type, ignored: int) -> None:
    f = Function("main")
    b = Builder(f)
    x, labels = f.input("x", TensorType(f64, (4, 3))), np.array([2, 0, 1, 1], dtype)
    if np.iinfo(dtype).min <= ignored <= np.iinfo(dtype).max:
        labels[2] = ignored
    op = CrossEntropyOp(ignore_index=ignored)
    target = f.input("labels", TensorType.of(labels))
    logs = b.emit(LogSoftmax(), x)
    f.output("loss", NegativeLogLikelihood(ignore_index=ignored).lower(b, logs, target))
    wanted, _ = op.evaluate(X, labels)
    np.testing.assert_allclose(run_function(f, [X, labels]), [wanted])
