"""The classes of the protocol's messages."""

from __future__ import annotations

import gc
import weakref

from afterglow.serve.grpc_tensors import MESSAGES


def made():
    request = MESSAGES["ModelInferRequest"](model_name="net")
    tensor = request.inputs.add(name="x")
    tensor.contents.fp32_contents.append(1.0)
    tensor.parameters["a"].bool_param = True
    return [*map(type, (request, tensor, tensor.contents, tensor.parameters["a"]))]


def test_classes_of_nested_messages_outlive_their_messages():
    """Otherwise protobuf crashes if a message is read while the collector forgets its class."""
    classes = [weakref.ref(each) for each in made()]
    gc.collect()
    assert all(each() is not None for each in classes)
    assert [each() for each in classes] == made()
