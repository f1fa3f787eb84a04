"""ONNX's casts."""
