"""The conformance kit as one class: what a backend is tested with, ours or another's."""

from __future__ import annotations

from afterglow.testing.artifact_checks import ArtifactChecks
from afterglow.testing.device_checks import DeviceChecks
from afterglow.testing.onnx_checks import OnnxChecks
from afterglow.testing.op_checks import OpChecks
from afterglow.testing.random_checks import RandomProgramChecks
from afterglow.testing.ranged_op_checks import RangedOpChecks


class BackendConformance(
    ArtifactChecks, DeviceChecks, OpChecks, RangedOpChecks, RandomProgramChecks, OnnxChecks
):
    """Tests for pytest of a backend: a subclass says its name, and what is special about it.

    Every op in the forms in which models have it, for ranges too, random programs, ONNX's own
    suite, and what the contract promises of targets, artifacts, buffers, runs and errors. See
    docs/adding-a-backend.md.
    """
