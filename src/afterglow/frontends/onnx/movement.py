"""ONNX's ops that move elements."""
