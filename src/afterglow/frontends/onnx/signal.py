"""ONNX's signal processing."""
