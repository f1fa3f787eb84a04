from __future__ import annotations

import json

import numpy as np
import pytest

from afterglow.runtime.content import content_of, describe_content, restore_content

VALUES = [
    np.arange(6).reshape(2, 3),
    np.array(True),
    np.zeros((0, 3), np.float32),
    np.array([1.5, np.nan, -0.0]),
    np.array(["a", 'b"'], object),
    [np.arange(3), np.arange(4)],
    [],
    None,
    {"key": 1.5},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_content_comes_back_from_json(value):
    content = content_of(value)
    restored = restore_content(json.loads(json.dumps(describe_content(content))))
    assert restored == content
    assert hash(restored) == hash(content)


def test_contents_tell_values_apart():
    contents = [content_of(value) for value in VALUES]
    assert len(set(contents)) == len(VALUES)
    assert content_of(np.zeros(2, np.int32)) != content_of(np.zeros(1, np.int64))


def test_content_is_shown_as_a_list():
    assert str(content_of(np.array([[1, 2], [3, 4]]))) == "[[1, 2], [3, 4]]"
    assert str(content_of(np.array(["a"], object))) == "['a']"
