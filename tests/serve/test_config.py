"""The configuration is checked whole: each problem is told at once."""

from __future__ import annotations

import inspect

import pytest

from afterglow.serve.config import ModelConfig, read_config
from afterglow.support.errors import UsageError


def test_flags_win_over_the_file(tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text(f"models: {tmp_path}\nmax_batch: 4\nmax_body: 2MiB\npoll: 1\n")
    config = read_config(file, {"max_batch": 16, "poll": None})
    assert (config.max_batch, config.max_body, config.poll) == (16, 2 << 20, 1.0)


def test_a_model_has_its_own_settings(tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text(
        inspect.cleandoc(f"""
            models: {tmp_path}
            max_batch: 4
            instances: 1
            model:
              bert:
                max_batch: 32
                dims: {{sequence: [1, 512]}}
        """)
    )
    config = read_config(file, {})
    assert config.of_model("bert") == ModelConfig(32, 0.0, 1, {"sequence": (1, 512)}, "float32")
    assert config.of_model("other").max_batch == 4


def test_every_problem_is_told(tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text(
        inspect.cleandoc("""
            models: /there/is/none
            max_batch: many
            http_port: 70000
            colour: blue
            versions: some
            tls_cert: /there/is/none
            control: 1
            model:
              bert: {max_delay: -1, size: 3}
              other: 5
        """)
    )
    with pytest.raises(UsageError) as caught:
        read_config(file, {})
    assert str(caught.value) == inspect.cleandoc(f"""
        error: the configuration has 10 problems
          in {file}
            models: /there/is/none is not a folder
            max_batch: must be a whole number from 0 to 2,147,483,648, got 'many'
            http_port: must be a whole number from -1 to 65,535, got 70000
            colour: there is no such setting
            versions: must be latest or all, got 'some'
            tls_cert: /there/is/none is not a file that can be read
            control: must be true or false, got 1
            model.bert.max_delay: must be a number of seconds, got -1
            model.bert.size: there is no such setting
            model.other: must have settings, got 5
          help: docs/serve-settings.md lists all settings
    """)


def test_a_certificate_needs_its_key(tmp_path):
    (tmp_path / "cert.pem").write_text("")
    with pytest.raises(UsageError) as caught:
        read_config(None, {"models": tmp_path, "tls_cert": tmp_path / "cert.pem"})
    assert caught.value.excerpt == ("tls_cert, tls_key: one needs the other",)


def test_a_file_that_is_not_yaml(tmp_path):
    file = tmp_path / "serve.yaml"
    file.write_text("models: [")
    with pytest.raises(UsageError, match="is not YAML"):
        read_config(file, {})


def test_a_model_instead_of_its_folder(tmp_path):
    file = tmp_path / "net.onnx"
    file.write_bytes(b"")
    with pytest.raises(UsageError) as caught:
        read_config(None, {"models": file})
    told = f"models: {file} is a file: give the folder that it is in, {tmp_path}"
    assert caught.value.excerpt == (told,)
