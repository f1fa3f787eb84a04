"""ONNX's activation functions."""
