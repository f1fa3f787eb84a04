"""What is known of the ops that users declare: what they are bound to, and what they were made of.

It is kept here, below everything, because the cache asks for it before the compiler is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from afterglow.support.digest import digest_of_texts
from afterglow.support.errors import AfterglowError, UsageError

_DIGESTS: dict[str, str] = {}
"""A digest of the source of each op, by its mnemonic."""
_BOUND: dict[tuple[str, str, str], Any] = {}
"""Classes of ops by dialect, domain and the name in that."""

_TOLD: set[str] = set()
"""Ops of which users have been told that the host runs them."""
_FILES: list[Path] = []
"""The files that `--ops` of the command has given."""


def add_own_op(mnemonic: str, cls: Any, digest: str, bindings: Iterable[tuple[str, str]]) -> None:
    """Note an op, and the ops of dialects that it is bound to: `("onnx", "com.acme::Swirl")`."""
    remove_own_op(mnemonic)
    _DIGESTS[mnemonic] = digest
    for dialect, name in bindings:
        domain, _, op_type = name.rpartition("::")
        _BOUND[dialect, domain, op_type] = cls


def remove_own_op(mnemonic: str) -> None:
    """Forget an op, and what it was bound to."""
    _DIGESTS.pop(mnemonic, None)
    _TOLD.discard(mnemonic)
    for key in [key for key, cls in _BOUND.items() if cls.mnemonic == mnemonic]:
        del _BOUND[key]


def bound_op(dialect: str, domain: str, op_type: str) -> Any:
    """The class of the op that is bound to one of a dialect; None if there is none."""
    return _BOUND.get((dialect, domain, op_type)) if _BOUND else None


def bound_name(dialect: str, cls: Any) -> tuple[str, str] | None:
    """The domain and the name of an op that a class is bound to; None if it is not."""
    named = (
        (key[1], key[2]) for key, bound in _BOUND.items() if key[0] == dialect and bound is cls
    )
    return next(named, None)


def tell_once(mnemonic: str) -> bool:
    """Whether users are to be told something about an op: the first time it is asked."""
    is_new = mnemonic not in _TOLD
    _TOLD.add(mnemonic)
    return is_new


def own_ops_digest() -> str:
    """A digest of all ops that users declared in this process; empty if there are none."""
    if not _DIGESTS:
        return ""
    return digest_of_texts([f"{name} {digest}" for name, digest in sorted(_DIGESTS.items())])


def declare_ops(paths: Sequence[str]) -> None:
    """Run Python files that declare ops, as `--ops` of the command line does."""
    _FILES.clear()
    for path in paths:
        _declare(Path(path))
        _FILES.append(Path(path).absolute())


def own_op_files() -> list[str]:
    """The files that were run so, for other processes to run them, too."""
    return [str(path) for path in _FILES]


def _declare(path: Path) -> None:
    name = f"afterglow_ops_{path.stem}"
    spec = spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UsageError(f"--ops: {path} is not a Python file", help="write --ops FILE.py")
    sys.modules[name] = module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except AfterglowError:
        raise
    except Exception as error:  # whatever the code of a stranger raises
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise UsageError(f"--ops: {path} failed: {why}") from error
