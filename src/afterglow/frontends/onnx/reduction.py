"""ONNX's reductions."""
