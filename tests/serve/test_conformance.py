"""The script that asks any server of the protocol finds nothing wrong with this one."""

from __future__ import annotations

from benchmarks.serve_conformance import Subject, conformance, lines
from tests.serve.models import DOUBLE, save


def test_every_check_passes(tmp_path, serving):
    save(tmp_path, "double.onnx", DOUBLE)
    server = serving(grpc_port=0)
    address = f"127.0.0.1:{server.grpc_port}"
    checks = conformance(Subject(f"http://127.0.0.1:{server.http_port}", "double", address))
    assert len(checks) > 15
    assert all(check.passed for check in checks), "\n".join(lines(checks))
