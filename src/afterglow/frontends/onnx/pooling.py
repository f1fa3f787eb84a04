"""ONNX's pooling."""
