"""The com.microsoft domain: fused ops that ONNX Runtime's exporters write."""
