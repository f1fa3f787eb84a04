"""ONNX's recurrent layers."""
