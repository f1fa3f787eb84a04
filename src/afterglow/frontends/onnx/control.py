"""ONNX's control flow."""
