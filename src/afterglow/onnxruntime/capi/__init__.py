"""The place where programs for ONNX Runtime import its exceptions and native names from."""

from afterglow.onnxruntime.capi import _pybind_state, onnxruntime_pybind11_state

__all__ = ["_pybind_state", "onnxruntime_pybind11_state"]
