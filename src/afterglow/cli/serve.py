"""`afterglow serve`: an inference server for the models of a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from afterglow.cli.session import Session, general_options
from afterglow.cli.verb_command import VerbCommand
from afterglow.serve.config import ServeConfig, read_config
from afterglow.serve.logs import Log
from afterglow.support.errors import UsageError

_TYPES: dict[str, Any] = {
    "count": int,
    "count0": int,
    "port": int,
    "seconds": float,
    "file": click.Path(path_type=Path),
}
"""What click reads for a kind of setting; text, and checked later, for all others."""
_IN_FILE_ONLY = ("models", "model")


def _takes_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for each setting of the server."""
    for each in reversed(fields(ServeConfig)):
        if each.name not in _IN_FILE_ONLY:
            command = _option(each)(command)
    return command


def _option(setting: Any) -> Any:
    flag, kind = setting.name.replace("_", "-"), setting.metadata["kind"]
    help, default = setting.metadata["help"], setting.default
    if kind == "flag":
        told = f"{help}  [default: {'yes' if default else 'no'}]"
        return click.option(f"--{flag}/--no-{flag}", default=None, help=told)
    if kind == "names":
        return click.option(f"--{flag}", multiple=True, metavar="NAME", help=help)
    is_told = default is not None and default is not MISSING
    told = f"{help}  [default: {default}]" if is_told else help
    return click.option(f"--{flag}", type=_TYPES.get(kind, str), default=None, help=told)


@click.command(cls=VerbCommand)
@click.argument("models", type=click.Path(path_type=Path), required=False)
@click.option("--config", type=click.Path(path_type=Path), help="A YAML file with these settings.")
@_takes_settings
@general_options
@click.pass_obj
def serve(session: Session, /, models: Path | None, config: Path | None, **flags: Any) -> int:
    """Serve the models of the folder MODELS over HTTP and gRPC.

    The protocol is the Open Inference Protocol (KServe V2), with the extensions of Triton's
    clients; language models answer as OpenAI's completions do. Models are NAME.onnx, NAME.agc,
    NAME.gguf, or NAME/VERSION/model.onnx. Logs are JSON lines on standard error.

    \b
    Examples:
      afterglow serve models/
      afterglow serve models/ --max-batch 16 --max-delay 0.002 --poll 5
      afterglow serve --config serve.yaml
    """  # noqa: D301  click keeps lines after its mark as they are
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    settings = read_config(config, {"models": models, **given})
    try:
        # by name, because only this command needs a web server
        server = import_module("afterglow.serve.server").Server(settings, Log())
    except ModuleNotFoundError as error:
        raise UsageError(
            f"serving needs the package {error.name}, which is not installed",
            help="pip install 'afterglow[serve]'",
        ) from None
    server.run()
    return 0
