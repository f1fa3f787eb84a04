"""The facts about a model that is not compiled, by the front end that reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from afterglow.cli.survey import Survey, survey
from afterglow.driver.options import Options
from afterglow.driver.sources import open_source
from afterglow.frontends.definition.defined import DefinedSource
from afterglow.frontends.definition.signature import Signature as DefinedSignature
from afterglow.runtime.signature import Signature


def model_facts(path: Path) -> dict[str, Any]:
    """The interface of a model, and what its file says about it."""
    source = open_source(path)
    known = survey(source.model) if isinstance(source, DefinedSource) else None
    signature = source.signature(Options()) if known is None else known.signature
    format = path.suffix.removeprefix(".") if known is None else known.format
    return {
        "kind": f"{format} model",
        **_interface(signature),
        "facts": {} if known is None else _facts(known),
    }


def _interface(signature: Signature | DefinedSignature) -> dict[str, list[str]]:
    return {
        "inputs": list(map(str, signature.inputs)),
        "outputs": list(map(str, signature.outputs)),
    }


def _facts(known: Survey) -> dict[str, str]:
    opsets = ", ".join(f"{domain} {number}" for domain, number in known.opsets.items())
    most = ", ".join(f"{count} {op}" for op, count in [*known.ops.items()][:8])
    facts = {
        "made by": known.producer,
        "opsets": opsets,
        "nodes": f"{sum(known.ops.values()):,}: {most}{', …' if len(known.ops) > 8 else ''}",
        "weights": f"{known.weight_bytes:,} B",
        "dynamic dimensions": ", ".join(known.free_dimensions),
        "unsupported ops": ", ".join(known.unknown_ops),
    }
    return {name: text for name, text in facts.items() if text}
