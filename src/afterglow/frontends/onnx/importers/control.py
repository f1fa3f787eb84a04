"""ONNX's control flow, whose form all other formats are given, too."""

from __future__ import annotations

from afterglow.frontends.common.branches import choice
from afterglow.frontends.common.control import loop
from afterglow.frontends.common.scan import batched_scan, scan
from afterglow.frontends.onnx.registry import onnx_op

onnx_op("If")(choice)
onnx_op("Loop")(loop)
onnx_op("Scan", since=8)(batched_scan)
onnx_op("Scan", since=9)(scan)
