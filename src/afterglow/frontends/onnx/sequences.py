"""ONNX's sequences, where their length is known."""
