"""ONNX's gathers, scatters and searches."""
