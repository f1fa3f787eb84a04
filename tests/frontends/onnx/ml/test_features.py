"""ai.onnx.ml: features, labels and maps."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import afterglow
from afterglow.support.errors import ModelError, UsageError
from tests.frontends.onnx.ml.ml_node import ml_check, ml_run

X = np.array([[1, -2, 0.5], [0, 0, 0], [-3, -2, -1]], np.float32)
WORDS = np.array([["b", "zz"], ["a", "b"]], object)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 3])
def test_scaler(dtype: type, count: int) -> None:
    ml_check("Scaler", X.astype(dtype), offset=[1.0, 2.0, 3.5][:count], scale=[2.0, 3, 4][:count])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_normalizer(norm: str, dtype: type) -> None:
    ml_check("Normalizer", X.astype(dtype), norm=norm)


def test_normalizer_of_a_vector() -> None:
    ml_check("Normalizer", X[0], norm="L2")


def test_binarizer() -> None:
    ml_check("Binarizer", X, threshold=0.5)
    (got,) = ml_run("Binarizer", np.array([0, 1, 2], np.int32), threshold=0.5)
    np.testing.assert_array_equal(got, np.array([0, 1, 1], np.int32))


@pytest.mark.parametrize("count", [1, 3])
def test_imputer(count: int) -> None:
    fill = [5.0, 6.0, 7.0][:count]
    ml_check("Imputer", X, imputed_value_floats=fill, replaced_value_float=0.0)
    holes = np.where(X == 0, np.float32(np.nan), X)
    ml_check("Imputer", holes, imputed_value_floats=fill, replaced_value_float=float("nan"))
    whole = X.astype(np.int64)
    ml_check("Imputer", whole, imputed_value_int64s=[5, 6, 7][:count], replaced_value_int64=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_one_hot_encoder_of_numbers(dtype: type) -> None:
    ml_check("OneHotEncoder", X.astype(dtype), cats_int64s=[0, -2, 1])


def test_one_hot_encoder_of_texts() -> None:
    ml_check("OneHotEncoder", WORDS, cats_strings=["a", "b", "c"])


@pytest.mark.parametrize("x", [X, X[0], WORDS, X.astype(np.int64)], ids=str)
def test_array_feature_extractor(x: np.ndarray) -> None:
    ml_check("ArrayFeatureExtractor", x, np.array([[1, 0, 1]]))


def test_feature_vectorizer() -> None:
    ml_check("FeatureVectorizer", X, 2 * X[:, :2], inputdimensions=[3, 2])
    (got,) = ml_run("FeatureVectorizer", X, X[:, :1], inputdimensions=[2, 3])
    np.testing.assert_array_equal(got, np.pad(np.c_[X[:, :2], X[:, 0]], ((0, 0), (0, 2))))


def test_label_encoder_of_the_first_version_and_category_mapper() -> None:
    pairs = {"cats_strings": ["a", "b"], "cats_int64s": [7, 9]}
    numbers = np.array([[7, 9, 8]])
    ml_check("CategoryMapper", WORDS, default_int64=-3, **pairs)
    ml_check("CategoryMapper", numbers, default_string="?", **pairs)
    (got,) = ml_run("LabelEncoder", WORDS, version=1, classes_strings=["a", "b"])
    np.testing.assert_array_equal(got, [[1, -1], [0, 1]])
    (got,) = ml_run("LabelEncoder", np.array([1, 5]), version=1, classes_strings=["a", "b"])
    np.testing.assert_array_equal(got, np.array(["b", "_Unused"], object))


@pytest.mark.parametrize(
    "attributes",
    [
        {"keys_strings": ["a", "b"], "values_int64s": [4, 5], "default_int64": 8},
        {"keys_strings": ["a", "b"], "values_floats": [0.5, 1.5]},
        {"keys_strings": ["a", "zz"], "values_strings": ["x", "y"], "default_string": "none"},
        {"keys_floats": [-3.0, 0.0], "values_strings": ["x", "y"]},
        {"keys_floats": [-3.0, 1.0], "values_int64s": [4, 5]},
    ],
    ids=lambda attributes: ", ".join(attributes),
)
def test_label_encoder(attributes: dict[str, object]) -> None:
    x = X if "keys_floats" in attributes else WORDS
    ml_check("LabelEncoder", x, version=2, **attributes)


def test_label_encoder_knows_nan_and_takes_the_last_of_equal_keys() -> None:
    x = np.array([np.nan, 1, 2], np.float32)
    keys, values = [float("nan"), 1.0, 1.0], [5, 6, 7]
    (got,) = ml_run("LabelEncoder", x, version=4, keys_floats=keys, values_int64s=values)
    np.testing.assert_array_equal(got, [5, 7, -1])


def test_label_encoder_with_tensors_of_a_narrow_type() -> None:
    keys, values, default = (
        numpy_helper.from_array(np.array(numbers, dtype))
        for numbers, dtype in (([1, 2], np.int16), ([0.5, 1.5], np.float64), ([9], np.float64))
    )
    x = np.array([2, 3], np.int16)
    (got,) = ml_run(
        "LabelEncoder", x, version=4, keys_tensor=keys, values_tensor=values, default_tensor=default
    )
    np.testing.assert_array_equal(got, np.array([1.5, 9]))


@pytest.mark.parametrize(
    "labels", [{"classlabels_int64s": [4, 5, 6]}, {"classlabels_strings": ["a", "b", "c"]}], ids=str
)
def test_zip_map(labels: dict[str, object]) -> None:
    ml_check("ZipMap", X, **labels)
    (got,) = ml_run("ZipMap", X, **labels)
    assert got[0] == dict(zip(next(iter(labels.values())), X[0].tolist(), strict=True))


def test_zip_map_with_too_few_labels() -> None:
    with pytest.raises(ModelError, match=r"2 labels do not fit f32\[3, 3\]"):
        ml_run("ZipMap", X, classlabels_int64s=[1, 2])


def map_model(op_type: str, key: int, value: int, **attributes: object) -> onnx.ModelProto:
    element = helper.make_tensor_type_proto(value, None)
    type = onnx.TypeProto(map_type=onnx.TypeProto.Map(key_type=key, value_type=element))
    node = helper.make_node(op_type, ["x"], ["y"], domain="ai.onnx.ml", **attributes)
    graph = helper.make_graph(
        [node], "maps", [onnx.ValueInfoProto(name="x", type=type)], [onnx.ValueInfoProto(name="y")]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def test_dict_vectorizer() -> None:
    model = afterglow.compile(
        map_model(
            "DictVectorizer",
            TensorProto.STRING,
            TensorProto.FLOAT,
            string_vocabulary=["a", "c", "b", "z"],
        )
    )
    np.testing.assert_array_equal(model({"a": 4.0, "c": 8.0}), np.array([4, 8, 0, 0], np.float32))
    np.testing.assert_array_equal(model({"z": 1.0}), np.array([0, 0, 0, 1], np.float32))
    with pytest.raises(ModelError, match="the map has the key 'q'"):
        model({"q": 1.0})
    with pytest.raises(UsageError, match="input 'x': map cannot be a list"):
        model([1.0])


def test_cast_map() -> None:
    dense = map_model("CastMap", TensorProto.INT64, TensorProto.FLOAT, cast_to="TO_INT64")
    np.testing.assert_array_equal(afterglow.compile(dense)({3: 1.5, 1: 2.5}), [[2, 1]])
    sparse = map_model(
        "CastMap", TensorProto.INT64, TensorProto.FLOAT, map_form="SPARSE", max_map=5
    )
    want = np.array([[0, 2.5, 0, 1.5, 0]], np.float32)
    np.testing.assert_array_equal(afterglow.compile(sparse)({3: 1.5, 1: 2.5}), want)
