"""ai.onnx.ml: linear models, support vector machines and trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper

from afterglow.support.errors import ModelError
from tests.frontends.onnx.ml.ml_node import ml_check, ml_run

X = np.array([[1, 2], [0, 0], [-3, 0.2], [0.5, 0.1]], np.float32)
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
each_transform = pytest.mark.parametrize("transform", TRANSFORMS)


@each_transform
def test_linear_regressor(transform: str) -> None:
    attributes = {"coefficients": [0.3, -0.4, 0.2, 0.1], "intercepts": [0.1, 0.2], "targets": 2}
    ml_check("LinearRegressor", X, post_transform=transform, **attributes)


def test_linear_regressor_without_intercepts() -> None:
    (got,) = ml_run("LinearRegressor", X, coefficients=[0.5, -0.5], post_transform="LOGISTIC")
    np.testing.assert_allclose(got, 1 / (1 + np.exp(-(X @ [[0.5], [-0.5]]))), 1e-5)


@each_transform
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_linear_classifier(transform: str, dtype: type) -> None:
    ml_check(
        "LinearClassifier",
        X.astype(dtype),
        outputs=2,
        coefficients=[0.3, -0.4, 0.2, 0.1, 0.05, 0.6],
        intercepts=[0.1, 0.2, 0.0],
        classlabels_ints=[3, 7, 9],
        post_transform=transform,
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("labels", [{"classlabels_ints": [3, 7]}, {"classlabels_strings": "ab"}])
def test_linear_classifier_of_two_classes_with_one_score(transform: str, labels: Any) -> None:
    ml_check(
        "LinearClassifier",
        X,
        outputs=2,
        coefficients=[0.3, -0.4],
        intercepts=[0.1],
        post_transform=transform,
        **{name: list(values) for name, values in labels.items()},
    )


def test_coefficients_must_fit() -> None:
    with pytest.raises(ModelError, match="3 coefficients do not fit 1 targets of 2 features"):
        ml_run("LinearRegressor", X, coefficients=[1.0, 2.0, 3.0])
    with pytest.raises(ModelError, match="3 labels do not fit 1 sets of coefficients"):
        ml_run(
            "LinearClassifier", X, outputs=2, coefficients=[1.0, 2.0], classlabels_ints=[1, 2, 3]
        )


RNG = np.random.default_rng(5)
KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.4, 0.3, 3.0],
    "RBF": [0.7, 0.0, 0.0],
    "SIGMOID": [0.3, 0.1, 0.0],
}
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def machine(classes: int, kernel: str, per_class: int = 3, features: int = 2) -> dict[str, Any]:
    vectors = classes * per_class
    pairs = classes * (classes - 1) // 2
    return {
        "kernel_type": kernel,
        "kernel_params": KERNELS[kernel],
        "vectors_per_class": [per_class] * classes,
        "support_vectors": RNG.uniform(-2, 2, vectors * features).tolist(),
        "coefficients": RNG.uniform(-1, 1, (classes - 1) * vectors).tolist(),
        "rho": RNG.uniform(-0.2, 0.2, pairs).tolist(),
        "classlabels_ints": list(range(10, 10 + classes)),
    }


@each_kernel
@pytest.mark.parametrize("classes", [2, 3, 4])
def test_svm_classifier(kernel: str, classes: int) -> None:
    x = RNG.uniform(-2, 2, (20, 2)).astype(np.float32)
    ml_check("SVMClassifier", x, outputs=2, **machine(classes, kernel))


@pytest.mark.parametrize("transform", ["SOFTMAX", "LOGISTIC"])
def test_svm_classifier_with_a_transform(transform: str) -> None:
    x = RNG.uniform(-2, 2, (20, 2)).astype(np.float32)
    ml_check("SVMClassifier", x, outputs=2, post_transform=transform, **machine(3, "RBF"))


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_svm_classifier_with_probabilities(classes: int) -> None:
    x = RNG.uniform(-2, 2, (20, 2)).astype(np.float32)
    pairs = classes * (classes - 1) // 2
    a, b = (RNG.uniform(low, high, pairs).tolist() for low, high in ((-3, -1), (-0.5, 0.5)))
    attributes = machine(classes, "RBF")
    ml_check("SVMClassifier", x, outputs=2, prob_a=a, prob_b=b, **attributes)


def test_svm_classifier_without_support_vectors() -> None:
    ml_check(
        "SVMClassifier",
        X,
        outputs=2,
        coefficients=[0.3, -0.4, 0.2, 0.1, 0.5, -0.6],
        rho=[0.1],
        kernel_params=[0.0, 0.0, 0.0],
        classlabels_strings=["a", "b", "c"],
    )


@each_kernel
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(kernel: str, one_class: int) -> None:
    ml_check(
        "SVMRegressor",
        X,
        kernel_type=kernel,
        kernel_params=KERNELS[kernel],
        support_vectors=RNG.uniform(-2, 2, 10).tolist(),
        coefficients=RNG.uniform(-1, 1, 5).tolist(),
        rho=[0.1],
        n_supports=5,
        one_class=one_class,
    )


MODES = ["LEQ", "LT", "GTE", "GT", "EQ", "NEQ"]


def forest(
    kind: str, votes: int, ids: list[int] | None = None, *, low: float = -1.0, trees: int = 4
) -> dict[str, Any]:
    """Trees of three tests and four leaves; each leaf has `votes` votes."""
    rng = np.random.default_rng(votes)
    modes = [f"BRANCH_{MODES[i % 6]}" for i in range(3 * trees)]
    leaves = [(tree, leaf) for tree in range(trees) for leaf in range(3, 7) for _ in range(votes)]
    voted = ids or list(range(votes))
    return {
        "nodes_treeids": [tree for tree in range(trees) for _ in range(7)],
        "nodes_nodeids": [*range(7)] * trees,
        "nodes_featureids": rng.integers(0, 2, 7 * trees).tolist(),
        "nodes_modes": [
            m for t in range(trees) for m in (*modes[3 * t : 3 * t + 3], *["LEAF"] * 4)
        ],
        "nodes_values": rng.choice([-1.0, 0.0, 0.2, 0.5, 2.0], 7 * trees).tolist(),
        "nodes_truenodeids": [1, 3, 5, 0, 0, 0, 0] * trees,
        "nodes_falsenodeids": [2, 4, 6, 0, 0, 0, 0] * trees,
        "nodes_missing_value_tracks_true": rng.integers(0, 2, 7 * trees).tolist(),
        f"{kind}_treeids": [tree for tree, _ in leaves],
        f"{kind}_nodeids": [leaf for _, leaf in leaves],
        f"{kind}_ids": [voted[i % votes] for i in range(len(leaves))],
        f"{kind}_weights": rng.uniform(low, 1, len(leaves)).tolist(),
    }


ROWS = np.array([*X, [2, 0.5], [-1, -1], [0.2, 0.5]], np.float32)
MISSING = np.array([[np.nan, 1], [2, np.nan], [np.nan, np.nan]], np.float32)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 2])
def test_tree_ensemble_regressor(aggregate: str, targets: int) -> None:
    ml_check(
        "TreeEnsembleRegressor",
        ROWS,
        n_targets=targets,
        aggregate_function=aggregate,
        base_values=[0.25] * targets,
        **forest("target", targets),
    )


@pytest.mark.parametrize("transform", ["SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
def test_tree_ensemble_regressor_with_a_transform(transform: str) -> None:
    trees = forest("target", 2)
    ml_check("TreeEnsembleRegressor", ROWS, n_targets=2, post_transform=transform, **trees)


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"])
@pytest.mark.parametrize("base", [{}, {"base_values": [0.1, 0.2, -0.3]}], ids=["", "base"])
def test_tree_ensemble_classifier(transform: str, base: dict[str, Any]) -> None:
    ml_check(
        "TreeEnsembleClassifier",
        ROWS,
        outputs=2,
        classlabels_strings=["a", "b", "c"],
        post_transform=transform,
        **base,
        **forest("class", 3),
    )


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("base", [{}, {"base_values": [0.3]}], ids=["", "base"])
def test_tree_ensemble_classifier_where_one_of_two_classes_has_the_votes(
    transform: str, base: dict[str, Any]
) -> None:
    ml_check(
        "TreeEnsembleClassifier",
        ROWS,
        outputs=2,
        classlabels_int64s=[5, 6],
        post_transform=transform,
        **base,
        **forest("class", 1),
    )


def test_votes_that_are_all_positive_are_probabilities() -> None:
    trees = forest("class", 1, low=0.0, trees=1)
    ml_check("TreeEnsembleClassifier", ROWS, outputs=2, classlabels_int64s=[5, 6], **trees)


def test_votes_of_the_second_class_alone() -> None:
    trees = forest("class", 1, [1])
    ml_check("TreeEnsembleClassifier", ROWS, outputs=2, classlabels_int64s=[5, 6], **trees)


def test_a_classifier_of_two_classes_with_votes_for_both_takes_the_larger() -> None:
    trees = forest("class", 2)
    label, scores = ml_run(
        "TreeEnsembleClassifier", ROWS, outputs=2, classlabels_strings=["no", "yes"], **trees
    )
    want = np.array(["no", "yes"], object)[scores.argmax(1)]
    np.testing.assert_array_equal(label, want)


@pytest.mark.parametrize("mode", ["LEQ", "LT", "GTE", "GT", "EQ"])
def test_missing_features_go_where_a_node_says(mode: str) -> None:
    trees = forest("target", 1)
    modes = ["LEAF" if name == "LEAF" else f"BRANCH_{mode}" for name in trees["nodes_modes"]]
    trees["nodes_modes"] = modes
    ml_check("TreeEnsembleRegressor", MISSING, n_targets=1, **trees)


def test_a_missing_feature_differs_from_a_threshold_only_if_the_node_says_so() -> None:
    trees = forest("target", 1, trees=1)
    trees["nodes_modes"] = ["BRANCH_NEQ", *["LEAF"] * 6]
    trees["nodes_missing_value_tracks_true"] = [0] * 7
    trees.update(nodes_truenodeids=[3] + [0] * 6, nodes_falsenodeids=[4] + [0] * 6)
    (got,) = ml_run("TreeEnsembleRegressor", MISSING[2:], n_targets=1, **trees)
    np.testing.assert_allclose(got, [[trees["target_weights"][1]]], 1e-6)


def test_tree_ensemble_regressor_in_double_precision() -> None:
    trees = forest("target", 1)
    for name in ("nodes_values", "target_weights"):
        trees[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(trees.pop(name)), name)
    ml_check("TreeEnsembleRegressor", ROWS.astype(np.float64), n_targets=1, **trees)


def ensemble(dtype: type = np.float32, **changes: Any) -> dict[str, Any]:
    """A tree of the newest kind: a set, a comparison, three leaves."""
    attributes = {
        "n_targets": 2,
        "tree_roots": [0],
        "nodes_featureids": [0, 1],
        "nodes_modes": np.array([6, 1], np.uint8),
        "nodes_splits": np.array([0, 0.5], dtype),
        "nodes_truenodeids": [0, 1],
        "nodes_trueleafs": [1, 1],
        "nodes_falsenodeids": [1, 2],
        "nodes_falseleafs": [0, 1],
        "leaf_targetids": [0, 1, 0],
        "leaf_weights": np.array([1, 2, 4], dtype),
        "membership_values": np.array([1, -3, np.nan], dtype),
        **changes,
    }
    arrays = {k: numpy_helper.from_array(v) for k, v in attributes.items() if hasattr(v, "dtype")}
    return {**attributes, **arrays}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_tree_ensemble_asks_for_membership(dtype: type) -> None:
    x = np.array([[1, 0], [-3, 9], [0, 0], [0, 0.5], [np.nan, 0]], dtype)
    (got,) = ml_run("TreeEnsemble", x, version=5, **ensemble(dtype))
    want = [[1, 0], [1, 0], [0, 2], [4, 0], [0, 2]]
    np.testing.assert_array_equal(got, np.array(want, dtype))


def test_nan_may_count_as_a_member() -> None:
    x = np.array([[np.nan, 0]], np.float32)
    missing = {"nodes_missing_value_tracks_true": [1, 0]}
    (got,) = ml_run("TreeEnsemble", x, version=5, **ensemble(**missing))
    np.testing.assert_array_equal(got, [[1, 0]])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nodes_featureids": [0, 7]}, "it names feature 7, but there are 2"),
        ({"nodes_falsenodeids": [9, 2]}, "it names node 9, but there are 6"),
        ({"leaf_targetids": [0, 2, 0]}, "it names target 2, but there are 2"),
        ({"nodes_trueleafs": [1]}, "there are 2 nodes, but a list of 1 about them"),
    ],
)
def test_trees_name_what_there_is(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        ml_run("TreeEnsemble", X, version=5, **ensemble(**changes))


def test_a_set_that_is_missing() -> None:
    empty = {"membership_values": np.zeros(0, np.float32)}
    with pytest.raises(ModelError, match="a set that membership_values lacks"):
        ml_run("TreeEnsemble", X, version=5, **ensemble(**empty))
