"""Floats of 16 bits as f32, and back: no device needs to have them."""

from __future__ import annotations

from afterglow.backends.opencl.clc.value import Value
from afterglow.types.dtype import DType, bf16, f16, f32, f64

_FROM_F16 = """float# NAME(ushort# code) {
  const uint# wide = convert_uint#(code);
  const uint# size = wide & 0x7fffu;
  const uint# number = as_uint#(as_float#(size << 13) * 0x1p+112f);
  const uint# bits = size >= 0x7c00u ? number | 0x7f800000u : number;
  return as_float#(bits | ((wide & 0x8000u) << 16));
}"""
_TO_F16 = """ushort# NAME(float# x) {
  const uint# bits = as_uint#(x) & 0x7fffffffu;
  const uint# normal = ((bits + (((bits >> 13) & 1u) + 0xfffu)) >> 13) - (112u << 10);
  const uint# subnormal = as_uint#(as_float#(bits) + 0.5f) - as_uint(0.5f);
  uint# size = bits < 0x38800000u ? subnormal : normal;
  size = size > 0x7c00u ? (uint#)(0x7c00u) : size;
  size = bits > 0x7f800000u ? (uint#)(0x7e00u) : size;
  return convert_ushort#(size | ((as_uint#(x) >> 16) & 0x8000u));
}"""
_FROM_BF16 = """float# NAME(ushort# code) {
  return as_float#(convert_uint#(code) << 16);
}"""
_TO_BF16 = """ushort# NAME(float# x) {
  const uint# bits = as_uint#(x);
  const uint# rounded = (bits + (((bits >> 16) & 1u) + 0x7fffu)) >> 16;
  return convert_ushort#((bits & 0x7fffffffu) > 0x7f800000u ? (uint#)(0x7fc0u) : rounded);
}"""
_TO_ODD = """float to_odd(double x) {
  const float near = (float)x;
  const double back = (double)near;
  uint bits = as_uint(near);
  bits = fabs(back) > fabs(x) ? bits - 1u : bits;
  return as_float(back == x || back != back ? as_uint(near) : bits | 1u);
}"""
_DECODERS = {f16: ("from_f16", _FROM_F16), bf16: ("from_bf16", _FROM_BF16)}
_ENCODERS = {f16: ("to_f16", _TO_F16), bf16: ("to_bf16", _TO_BF16)}
"""Functions: their names, and their texts with # for the number of lanes."""


def decode(x: Value) -> Value:
    """Floats of 16 bits as f32: every one of them has its equal there."""
    return _of_lanes(x, *_DECODERS[x.dtype], f32)


def encode(x: Value, dtype: DType, *, saturate: bool = False) -> Value:
    """The nearest floats of 16 bits, of two the even one, from f32 or f64."""
    if saturate:
        raise TypeError(f"{dtype} is not saturated")
    if x.dtype is f64:  # what lies between two f32 becomes the odd one, and so never a tie
        x = _each_lane(x, "to_odd", _TO_ODD, f32)
    return _of_lanes(x, *_ENCODERS[dtype], dtype)


def _of_lanes(x: Value, name: str, text: str, dtype: DType) -> Value:
    """A function of vectors, in the form for those of x."""
    lanes, own = ("", name) if x.lanes == 1 else (str(x.lanes), f"{name}_{x.lanes}")
    function = x.code.helper(own, text.replace("NAME", own).replace("#", lanes))
    return x.derive(f"{function}({x.text})", dtype)


def _each_lane(x: Value, name: str, text: str, dtype: DType) -> Value:
    """A function of scalars, applied to every lane."""
    x.code.helper(name, text)
    if x.lanes == 1:
        return x.derive(f"{name}({x.text})", dtype)
    lanes = ", ".join(f"{name}({x.text}.s{lane:x})" for lane in range(x.lanes))
    return x.derive(f"({x.of_type(dtype, 0).type})({lanes})", dtype)
