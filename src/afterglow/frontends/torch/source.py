"""PyTorch's programs as sources."""

from __future__ import annotations

import inspect
import io
import logging
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram

from afterglow.frontends.base import FileDigests, KeptState
from afterglow.frontends.content import Content
from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.torch.archive import check_archive, plain_tensors
from afterglow.frontends.torch.decompositions import decompositions
from afterglow.frontends.torch.translate import translate_program
from afterglow.support.digest import digest_of_bytes
from afterglow.support.errors import ModelError, UnsupportedError, UsageError


class TorchSource(DefinedSource):
    """An exported program, taken apart into what is imported, and imported for each binding."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = _decomposed(program)
        translated = translate_program(self.program)
        super().__init__(translated.model)
        self._state = translated.state

    @property
    def state(self) -> tuple[KeptState, ...]:
        """The buffers that the program writes."""
        return self._state


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    """The program with functional calls of ops that are imported, as far as they can be had."""
    try:
        with _quiet():
            return program.run_decompositions(decompositions())
    except Exception as error:  # PyTorch traces the program once more, and may raise any
        raise ModelError(
            f"PyTorch cannot take the program apart: {_first_line(error)}",
            help="see the error that this one comes from",
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


class TorchFile(TorchSource):
    """A program that `torch.export.save` wrote."""

    def __init__(self, content: Content) -> None:
        self.content = content
        with content.located():
            super().__init__(_read(content))

    @property
    def path(self) -> Path | None:
        """The program's file, if it came from one."""
        return self.content.path

    @cached_property
    def _digest(self) -> str:
        return digest_of_bytes(self.content.data)

    def digest(self, files: FileDigests) -> str | None:
        """A digest of the file."""
        return self._digest if self.path is None else files.note_files(self.path, [])

    def files(self) -> list[Path]:
        """The program's file."""
        return [] if self.path is None else [self.path]


def _read(content: Content) -> ExportedProgram:
    file = io.BytesIO(content.data)
    if not zipfile.is_zipfile(file):
        raise ModelError("the program is damaged: its archive does not end as it should")
    check_archive(content.data)
    file.seek(0)
    try:
        with _quiet(), plain_tensors():
            return torch.export.load(file)
    except Exception as error:  # PyTorch reads damaged files with any
        raise ModelError(
            f"PyTorch cannot read the program: {_first_line(error)}",
            help=f"export it anew with the PyTorch that is installed, {torch.__version__}",
        ) from error


def export_module(module: torch.nn.Module, inputs: Any, dynamic_shapes: Any) -> ExportedProgram:
    """The program of a module in evaluation mode; the module stays as it is."""
    if isinstance(module, torch.jit.ScriptModule):
        raise UnsupportedError(
            "a module of TorchScript cannot be exported",
            help="give the torch.nn.Module that it was made of",
        )
    if inputs is None:
        raise UsageError(
            "a module of PyTorch is traced with example inputs",
            help="give some: afterglow.compile(module, (x,)), or a dictionary by name",
        )
    args, kwargs = _arguments(inputs)
    _check_arguments(module, args, kwargs)
    with _evaluating(module), torch.no_grad(), _quiet():
        try:
            return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
        except Exception as error:  # whatever the module's own code raises, too
            raise UnsupportedError(
                f"torch.export cannot trace the module: {_first_line(error)}",
                help="see that the module runs on these inputs; if it does, export it yourself, "
                "and give the program: torch.export.export(module, …)",
            ) from error


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and named arguments, with tensors for arrays."""
    inputs = pytree.tree_map_only(np.ndarray, torch.from_numpy, inputs)
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, (tuple, list)):
        return tuple(inputs), {}
    return (inputs,), {}


def _check_arguments(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Refuse example inputs that are not the arguments of the module."""
    signature = inspect.signature(module.forward)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise UsageError(
            f"the example inputs are not the arguments of the module: {error}",
            help=f"it is called as module{signature}: give a tuple, or a dictionary by name",
        ) from None


@contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Let a module be in evaluation mode, all of it, and be as before afterwards."""
    training = [each for each in module.modules() if each.training]
    module.eval()
    try:
        yield
    finally:
        for each in training:
            each.training = True


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what PyTorch warns of its own code, and the errors that it logs and then raises."""
    log = logging.getLogger("torch")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        log.setLevel(before)
