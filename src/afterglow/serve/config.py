"""The configuration of the server: one dataclass, from flags and a YAML file, checked whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.sizes import as_size

TRIED_ROWS = 8
"""Most rows that requests are joined to if nothing is set."""


def _about(help: str, kind: str) -> dict[str, str]:
    """What a setting means, and how it is checked."""
    return {"help": help, "kind": kind}


@dataclass(frozen=True)
class ModelConfig:
    """How one model is served; what is None is as the server has it."""

    max_batch: int | None = field(
        default=None,
        metadata=_about("Most rows that requests are joined to; 0 for what pays.", "count0"),
    )
    max_delay: float | None = field(
        default=None, metadata=_about("Longest wait for a fuller batch, in s.", "seconds")
    )
    instances: int | None = field(default=None, metadata=_about("Runs at the same time.", "count"))
    dims: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=_about("Extents of dimensions, as `compile` takes them.", "dims"),
    )
    precision: str = field(default="float32", metadata=_about("As `compile` takes it.", "text"))


@dataclass(frozen=True)
class ServeConfig:
    """All settings of the server. Flags have the same names, and win over the file."""

    models: Path = field(metadata=_about("The folder of models.", "folder"))
    host: str = field(
        default="127.0.0.1", metadata=_about("Address to listen at; 0.0.0.0 for all.", "text")
    )
    http_port: int = field(
        default=8000, metadata=_about("Port of HTTP; 0 for any that is free.", "port")
    )
    grpc_port: int = field(
        default=8001, metadata=_about("Port of gRPC; 0 for any that is free, -1 for none.", "port")
    )
    instances: int = field(
        default=0,
        metadata=_about("Runs of a model at the same time; 0 for one per core.", "count0"),
    )
    threads: int = field(
        default=0,
        metadata=_about("Threads of each run; 0 for the cores that instances leave.", "count0"),
    )
    max_batch: int = field(
        default=0,
        metadata=_about(
            "Most rows that requests are joined to; 1 for no joining, 0 for as many as pay in a "
            f"trial, up to {TRIED_ROWS}.",
            "count0",
        ),
    )
    max_delay: float = field(
        default=0.0,
        metadata=_about("Longest wait of a request for a fuller batch, in s.", "seconds"),
    )
    max_queue: int = field(
        default=256,
        metadata=_about("Requests of a model that may wait; more are refused.", "count"),
    )
    max_body: int = field(
        default=64 << 20, metadata=_about("Largest body of a request, such as 64MiB.", "size")
    )
    versions: str = field(
        default="latest", metadata=_about("Which versions of a model: latest, or all.", "versions")
    )
    poll: float = field(
        default=0.0,
        metadata=_about("Seconds between looks for changed files; 0 for none.", "seconds"),
    )
    load: tuple[str, ...] = field(
        default=(), metadata=_about("Names of models to load; without any, all.", "names")
    )
    control: bool = field(
        default=True, metadata=_about("Let clients load and unload models.", "flag")
    )
    warm_up: bool = field(
        default=True, metadata=_about("Run each model once before it is ready.", "flag")
    )
    shared_memory: bool = field(
        default=False, metadata=_about("Let local clients use shared memory.", "flag")
    )
    drain: float = field(
        default=30.0,
        metadata=_about("Seconds that a shutdown waits for running requests.", "seconds"),
    )
    idle_timeout: float = field(
        default=30.0, metadata=_about("Seconds after which an idle connection ends.", "seconds")
    )
    max_connections: int = field(
        default=1000, metadata=_about("Connections of HTTP at a time.", "count")
    )
    token_file: Path | None = field(
        default=None, metadata=_about("File with the tokens, one a line.", "file")
    )
    tls_cert: Path | None = field(
        default=None, metadata=_about("Certificate chain, as PEM.", "file")
    )
    tls_key: Path | None = field(default=None, metadata=_about("Its private key, as PEM.", "file"))
    signing_key: Path | None = field(
        default=None, metadata=_about("Key that each .agc must be signed with.", "file")
    )
    access_log: bool = field(default=False, metadata=_about("Log each request.", "flag"))
    model: Mapping[str, ModelConfig] = field(
        default_factory=dict,
        metadata=_about("Settings of single models, by name; in the file only.", "model"),
    )

    def joins_what_pays(self, name: str) -> bool:
        """Whether the rows that requests of a model are joined to are found by a trial."""
        own = self.model.get(name, ModelConfig()).max_batch
        return not (self.max_batch if own is None else own)

    def of_model(self, name: str) -> ModelConfig:
        """The settings of a model, with those of the server where it has none."""
        own = self.model.get(name, ModelConfig())
        return ModelConfig(
            (self.max_batch if own.max_batch is None else own.max_batch) or TRIED_ROWS,
            self.max_delay if own.max_delay is None else own.max_delay,
            self.most_instances if own.instances is None else own.instances,
            own.dims,
            own.precision,
        )

    @property
    def most_instances(self) -> int:
        """How many runs of a model there may be at the same time."""
        return self.instances or _cores()

    @property
    def threads_each(self) -> int:
        """The threads of each run."""
        return self.threads or max(1, _cores() // self.most_instances)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def read_config(file: Path | None, flags: Mapping[str, Any]) -> ServeConfig:
    """The configuration of a file and of flags; every problem is in the error."""
    problems: list[str] = []
    found = {} if file is None else _read_yaml(file)
    given = {**found, **{name: value for name, value in flags.items() if value is not None}}
    values = _checked(ServeConfig, given, "", problems)
    if "models" not in given:
        problems.append("models: the folder of models is missing")
    if ("tls_cert" in values) != ("tls_key" in values):
        problems.append("tls_cert, tls_key: one needs the other")
    if problems:
        raise UsageError(
            f"the configuration has {len(problems)} problem{'s' * (len(problems) > 1)}",
            where=f"in {file}" if file is not None else "",
            excerpt=problems,
            help="docs/serve-settings.md lists all settings",
        )
    return ServeConfig(**values)


def _read_yaml(file: Path) -> dict[str, Any]:
    # here, because a server without a file needs no YAML
    yaml = import_module("yaml")
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {(error.strerror or '').lower()}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise UsageError(f"{file} is not a configuration", help="write NAME: VALUE on each line")
    return {str(name): value for name, value in found.items()}


def _checked(
    cls: type[Any], given: Mapping[str, Any], where: str, problems: list[str]
) -> dict[str, Any]:
    """The values of the fields of a class; what is wrong with them is added to the problems."""
    kinds = {each.name: each.metadata["kind"] for each in fields(cls)}
    values = {}
    for name, value in given.items():
        if name not in kinds:
            problems.append(f"{where}{name}: there is no such setting")
            continue
        try:
            if kinds[name] == "model":
                values[name] = _models(value, problems)
            else:
                values[name] = _KINDS[kinds[name]](value)
        except AfterglowError as error:
            problems.append(f"{where}{name}: {error.what}")
        except (TypeError, ValueError) as error:
            problems.append(f"{where}{name}: {error}")
    return values


def _models(given: Any, problems: list[str]) -> dict[str, ModelConfig]:
    if not isinstance(given, dict):
        raise ValueError("must have a section for each model")
    found = {}
    for name, section in given.items():
        if not isinstance(section, dict):
            problems.append(f"model.{name}: must have settings, got {section!r}")
            continue
        values = _checked(ModelConfig, section, f"model.{name}.", problems)
        found[str(name)] = ModelConfig(**values)
    return found


def _whole(low: int, high: int = 1 << 31) -> Any:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError(f"must be a whole number from {low} to {high:,}, got {value!r}")
        return value

    return check


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e6:
        raise ValueError(f"must be a number of seconds, got {value!r}")
    return float(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, got {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a text, got {value!r}")
    return value


def _versions(value: Any) -> str:
    if value not in ("latest", "all"):
        raise ValueError(f"must be latest or all, got {value!r}")
    return str(value)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"must be a list of names, got {value!r}")
    return tuple(_text(each) for each in value)


def _file(value: Any) -> Path:
    path = Path(_text(str(value)))
    if not path.is_file() or not os.access(path, os.R_OK):
        raise ValueError(f"{path} is not a file that can be read")
    return path


def _folder(value: Any) -> Path:
    path = Path(_text(str(value)))
    if path.is_file():
        raise ValueError(f"{path} is a file: give the folder that it is in, {path.parent}")
    if not path.is_dir():
        raise ValueError(f"{path} is not a folder")
    return path


def _dims(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"must have an extent for each dimension, got {value!r}")
    return {str(name): tuple(v) if isinstance(v, list) else v for name, v in value.items()}


_KINDS = {
    "count": _whole(1),
    "count0": _whole(0),
    "port": _whole(-1, 65535),
    "size": as_size,
    "seconds": _seconds,
    "flag": _flag,
    "text": _text,
    "versions": _versions,
    "names": _names,
    "file": _file,
    "folder": _folder,
    "dims": _dims,
}
"""How the values of settings are checked and converted."""
