"""ONNX's matrix products and convolutions."""
