"""The reference of the server's settings, from the dataclasses that hold them."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields
from typing import Any

from afterglow.serve.config import ModelConfig, ServeConfig


def settings_page() -> str:
    """All settings of the server, and those of single models."""
    return "\n".join(
        [
            "# Settings of the server",
            "",
            "Generated from `afterglow.serve.config` by `python docs/generate.py`. How they are",
            "used: [the inference server](serve.md). Each is a line of the YAML file that",
            "`--config` names; all but `model` are also flags: `max_batch` is `--max-batch`.",
            "",
            *_table(ServeConfig),
            "",
            "## Settings of a model",
            "",
            "Under `model:` and the name of a model; what is not set is as above.",
            "",
            *_table(ModelConfig),
            "",
        ]
    )


def _table(cls: type[Any]) -> list[str]:
    rows = ["| setting | default | what it is |", "|---|---|---|"]
    return [*rows, *(f"| `{f.name}` | {_default(f)} | {f.metadata['help']} |" for f in fields(cls))]


def _default(field: Field[Any]) -> str:
    value = field.default
    if value is MISSING or value is None or value == ():
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"
