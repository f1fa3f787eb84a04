"""Models on an NVIDIA GPU: Afterglow beside `torch.compile` and ONNX Runtime, in one run."""
