"""`NAME.json`: everything about a bundle, for programs."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from afterglow.backends.bundling.fields import Field, fields_of
from afterglow.backends.cpu.bundle.code import BundleCode, EntryCode
from afterglow.backends.cpu.bundle.files.extents import members_of
from afterglow.backends.cpu.bundle.files.states import shared_state
from afterglow.runtime.library import FORMAT
from afterglow.types import FillLevel
from afterglow.types.extent.text import spell_shape
from afterglow.types.quantization import spell_quantization


def digest_of(code: BundleCode) -> str:
    """A digest of code and weights: equal for equal bundles."""
    digest = hashlib.sha256(code.object)
    digest.update(code.weights.data)
    return digest.hexdigest()[:32]


def describe(code: BundleCode, version: str, digest: str) -> dict[str, Any]:
    """The description, as what JSON can hold."""
    target = code.target
    return {
        "format": FORMAT,
        "afterglow": version,
        "name": code.name,
        "digest": digest,
        "target": {
            "name": str(target),
            "triple": target.triple,
            "cpu": target.cpu,
            "features": list(target.features),
            "pointer_bits": target.pointer_bits,
        },
        "code_bytes": code.code_bytes,
        "freestanding": code.freestanding,
        "weights": {
            "embedded": code.embedded,
            "file": None if code.embedded else f"{code.name}.weights",
            "bytes": code.weights.nbytes,
            "align": code.alignment,
            "checksum": f"{code.checksum:016x}",
        },
        "state": _describe_state(code),
        "extents": [
            {"name": extent.name, "places": extent.places, "values": extent.values}
            for extent in code.extents
        ],
        "entries": [_describe_entry(entry, code) for entry in code.entries],
    }


def to_json(description: dict[str, Any]) -> str:
    """The text of the file."""
    return json.dumps(description, indent=2, ensure_ascii=False) + "\n"


def _describe_entry(entry: EntryCode, code: BundleCode) -> dict[str, Any]:
    fields = fields_of(entry)
    return {
        "prefix": entry.prefix,
        "dims": [
            {"name": dim.name, "member": name, "low": dim.low, "high": dim.high, "step": dim.step}
            for dim, name in members_of(entry).items()
        ],
        **{
            f"{role}s": [_describe_field(field) for field in fields if field.role == role]
            for role in ("input", "output", "state")
        },
        "arena_bytes": entry.layout.size,
        "arena_align": code.alignment,
        "planned_bytes": entry.layout.planned,
        "scratch_bytes": entry.layout.scratch,
        "stack_bytes": entry.stack_bytes,
        "self_check_bytes": max(entry.self_check_bytes, code.alignment),
        "flops": int(entry.work),
        "steps": list(entry.steps),
        "alarms_at": entry.layout.before_alarms,
        "checks": [check.describe() for check in entry.checks],
    }


def _describe_state(code: BundleCode) -> dict[str, Any] | None:
    state = shared_state(code)
    return None if state is None else {"bytes": state.size, "offsets": state.offsets}


def _describe_field(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "member": field.member,
        "dtype": field.type.dtype.name,
        "shape": spell_shape(field.type.shape),
        "bytes": field.type.nbytes,
        "quantization": spell_quantization(field.type.quantization),
        "donated": field.role == "input" and field.written,
        "level": _describe_level(field.level),
    }


def _describe_level(level: FillLevel | None) -> dict[str, Any] | None:
    if level is None:
        return None
    before, after = spell_shape((level.before, level.after))
    return {"axis": level.axis, "before": before, "after": after}
