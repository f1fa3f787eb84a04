"""ONNX's image ops."""
