"""ONNX's ops that make tensors: constants, ranges, windows."""
