"""ONNX's domain ai.onnx.ml: trees, linear models, and what stands before and after them."""

from afterglow.frontends.onnx.ml import features, labels, linear, maps, support_vectors, trees

__all__ = ["features", "labels", "linear", "maps", "support_vectors", "trees"]
