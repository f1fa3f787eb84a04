"""The page of passes: what each does, in the order of the pipelines."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from afterglow.driver import pipelines
from afterglow.passes import RewritePass
from afterglow.passes.base import AnyPass
from afterglow.passes.pipeline import Pipeline, ProgramPipeline
from afterglow.quantization.convert import Convert
from references.markdown import cell, docstring, table

HEAD = """\
# Passes

Generated from the code: the pipelines of `driver/pipelines.py`, in the order in which they run, and
the rewrite rules of each pass. A pass that *needs* a property must come after one that *gives* it;
a pipeline in another order cannot be constructed. `afterglow dump MODEL --dump-changed` shows what
each pass did to a model, `--time-passes` how long it took. [Adding a pass](adding-a-pass.md).
"""


def passes_page() -> str:
    """The pipelines, then the rules of each pass that consists of rules."""
    lines = [HEAD]
    rewrites: dict[str, RewritePass] = {}
    for pipeline, meaning in _pipelines():
        rows = [_row(number, step) for number, step in enumerate(pipeline.passes, 1)]
        head = ("", "pass", "what it does", "needs", "gives")
        lines += [f"## {pipeline.name}", "", meaning, "", *table(head, rows), ""]
        rewrites |= {p.name: p for p in pipeline.passes if isinstance(p, RewritePass)}
    lines += ["## Rewrite rules", ""]
    for name, step in sorted(rewrites.items()):
        rules = [(f"`{rule.name}`", f"`{_law(rule.law)}`") for rule in step.rules]
        lines += [f"### {name}", "", *table(("rule", "before → after"), rules), ""]
    return "\n".join(lines)


def _pipelines() -> list[tuple[Pipeline | ProgramPipeline, str]]:
    """What `compile` runs, for a backend of which nothing is asked."""
    nothing: Any = None
    made = (
        (pipelines.optimising_pipeline, pipelines.optimising_pipeline()),
        (pipelines.quantizing_pipeline, pipelines.quantizing_pipeline(Convert({}))),
        (pipelines.lowering_pipeline, pipelines.lowering_pipeline(nothing, optimize=True)),
        (pipelines.tidying_pipeline, pipelines.tidying_pipeline(nothing, optimize=True)),
        (
            pipelines.placing_pipeline,
            pipelines.placing_pipeline(
                nothing, nothing, optimize=True, donate=True, side_by_side=True
            ),
        ),
    )
    return [(pipeline, docstring(maker)) for maker, pipeline in made]


def _row(number: int, step: AnyPass) -> tuple[str, ...]:
    needs, gives = (", ".join(sorted(p.value for p in s)) for s in (step.requires, step.provides))
    return str(number), f"`{step.name}`", _meaning(step), needs, gives


def _meaning(step: AnyPass) -> str:
    """The docstring of the pass, or of the file of its rules."""
    home = sys.modules[step.rules[0].apply.__module__] if isinstance(step, RewritePass) else step
    return cell((inspect.getdoc(home) or "").split("\n\n")[0])


def _law(text: str) -> str:
    return cell(text.split("\n\n")[0])
