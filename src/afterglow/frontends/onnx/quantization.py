"""ONNX's quantization."""
