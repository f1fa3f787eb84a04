"""Ops of torchvision, by the definition of their calls: its compiled library is not needed."""

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import afterglow as ag  # noqa: E402
from tests.frontends.torch.agreement import Calls, randn  # noqa: E402


@pytest.fixture(scope="module")
def vision():
    """The ops, known to PyTorch by their types alone."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in (
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
        "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    ):
        if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
            library.define(schema)
    library.impl("roi_align", _regions, "Meta", allow_override=True)
    torch.library.register_fake("torchvision::nms", _chosen, lib=library, allow_override=True)
    yield torch.ops.torchvision
    library._destroy()


def _regions(x, rois, scale, height, width, samples, aligned):
    return x.new_empty((rois.shape[0], x.shape[1], height, width))


def _chosen(boxes, scores, overlap):
    count = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty(count, dtype=torch.int64)


def test_regions_are_pooled_and_boxes_chosen(vision):
    def detect(image, regions, boxes, scores):
        pooled = vision.roi_align(image, regions, 0.5, 2, 2, 1, True)
        return pooled, boxes[vision.nms(boxes, scores, 0.5)]

    regions = torch.tensor([[0.0, 2, 2, 6, 6], [1.0, 0, 0, 8, 8]])
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 3.9], [5, 5, 6, 6]])
    scores = torch.tensor([0.5, 0.9, 0.1])
    image = randn(2, 1, 4, 4)
    inputs = image, regions, boxes, scores
    program = torch.export.export(Calls(detect), inputs)
    pooled, kept = ag.compile(program)(*(x.numpy() for x in inputs))
    np.testing.assert_array_equal(kept, boxes[[1, 2]])
    # cells of the first region are centred on pixels (1, 1) to (2, 2)
    np.testing.assert_allclose(pooled[0, 0], image[0, 0, 1:3, 1:3], rtol=1e-5)
    assert pooled.shape == (2, 1, 2, 2)
