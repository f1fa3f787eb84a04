"""The place where programs for ONNX Runtime import its exceptions from."""

from afterglow.onnxruntime.capi import onnxruntime_pybind11_state

__all__ = ["onnxruntime_pybind11_state"]
