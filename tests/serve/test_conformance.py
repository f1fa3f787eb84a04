"""The script that asks any server of the protocol finds nothing wrong with this one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.serve_conformance.__main__ import conformance, lines
from benchmarks.serve_conformance.subject import Subject
from benchmarks.serve_conformance.with_kserve import has_kserve, with_kserve
from tests.serve.models import DOUBLE, save


@pytest.fixture
def subject(tmp_path, serving):
    save(tmp_path, "double.onnx", DOUBLE)
    save(tmp_path, "wide.onnx", DOUBLE.replace("4]", "5]"))
    server = serving(grpc_port=0)
    address = f"127.0.0.1:{server.grpc_port}"
    return Subject(f"http://127.0.0.1:{server.http_port}", "double", address)


def test_every_check_passes(subject):
    checks = conformance(subject)
    assert len(checks) > 15
    assert all(check.passed for check in checks), "\n".join(lines(checks))


def test_a_model_whose_answers_cannot_be_compared_is_not_asked(subject):
    assert subject.unfit() == ""
    assert "has no model 'other' (404)" in replace(subject, model="other").unfit()
    assert "takes [('FP32', [-1, 5])]" in replace(subject, model="wide").unfit()
    assert "does not answer" in replace(subject, url="http://127.0.0.1:1").unfit()


@pytest.mark.skipif(not has_kserve(), reason="KServe is not installed: pip install kserve")
def test_clients_of_kserve_find_nothing_wrong(subject):
    with_kserve(subject)
    assert len(subject.checks) == 13
    assert all(check.passed for check in subject.checks), "\n".join(lines(subject.checks))
