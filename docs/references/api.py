"""The page of the Python API: what `afterglow.__all__` lists."""

from __future__ import annotations

import inspect
import re
from types import ModuleType

import afterglow as ag
from references.markdown import docstring, summary, table

WIDTH = 88
HEAD = """\
# Python API

Generated from the code: the {count} public names of the package, `import afterglow as ag`. Errors
are in [a page of their own](error-types.md).
"""
PAGES = {"nn": "nn.md", "optim": "optim.md", "text": "text.md"}
"""Guides to the modules."""


def api_page() -> str:
    """Functions, then classes with their methods, then modules."""
    named = {name: getattr(ag, name) for name in ag.__all__}
    functions = {name: f for name, f in named.items() if inspect.isfunction(f)}
    modules = {name: m for name, m in named.items() if isinstance(m, ModuleType)}
    classes = {name: c for name, c in named.items() if inspect.isclass(c) and not _is_raised(c)}
    lines = [HEAD.format(count=len(named)), "## Functions", ""]
    for name, function in functions.items():
        lines += [f"### {name}", "", *_signature(name, function), docstring(function), ""]
    lines += ["## Classes", ""]
    for name, cls in classes.items():
        lines += _class(name, cls)
    lines += ["## Modules", ""]
    for name, module in modules.items():
        lines += _module(name, module)
    return "\n".join(lines)


def _is_raised(cls: type) -> bool:
    return issubclass(cls, Exception)


def _class(name: str, cls: type) -> list[str]:
    """A class with its constructor, its properties and its methods."""
    members = [(n, m) for n, m in inspect.getmembers(cls) if _is_public(cls, n, m)]
    properties = [(n, m) for n, m in members if not callable(m)]
    methods = [(n, m) for n, m in members if callable(m)]
    lines = [f"### {name}", "", *_signature(name, cls), docstring(cls), ""]
    if properties:
        rows = [(f"`{n}`", summary(m)) for n, m in properties]
        lines += [*table(("property", "meaning"), rows), ""]
    if methods:
        rows = [(f"`{n}{_short(m)}`", summary(m)) for n, m in methods]
        lines += [*table(("method", "meaning"), rows), ""]
    return lines


def _is_public(cls: type, name: str, member: object) -> bool:
    """Whether a class of this package documents the member under a public name."""
    owner = next((c for c in cls.__mro__ if name in vars(c)), object)
    ours = owner.__module__.startswith("afterglow")
    described = isinstance(member, property) or inspect.isroutine(member)
    return ours and described and not name.startswith("_") and bool(inspect.getdoc(member))


def _module(name: str, module: ModuleType) -> list[str]:
    names = getattr(module, "__all__", [])
    rows = [(f"`{n}`", summary(getattr(module, n))) for n in names]
    guide = f" Guide: [{PAGES[name]}]({PAGES[name]})." if name in PAGES else ""
    lines = [f"### {name}", "", docstring(module) + guide, ""]
    return [*lines, *table(("name", "meaning"), rows), ""] if rows else lines


def _signature(name: str, thing: object) -> list[str]:
    """The call as a block of code, one parameter a line if it is long."""
    try:
        text = name + _plain(str(inspect.signature(thing)))  # type: ignore[arg-type]
        text = text.removesuffix(" -> None") if inspect.isclass(thing) else text
    except ValueError:
        return []
    if len(text) > WIDTH:
        parameters, _, result = text.partition("(")[2].rpartition(")")
        rows = "".join(f"    {part},\n" for part in _split(parameters))
        text = f"{name}(\n{rows}){result}"
    return ["```py", text, "```", ""]


def _short(method: object) -> str:
    """The parameters of a method by name alone, without the first one."""
    parameters = inspect.signature(method).parameters.values()  # type: ignore[arg-type]
    names = [
        str(p.replace(annotation=p.empty)) for p in parameters if p.name not in ("self", "cls")
    ]
    return f"({_plain(', '.join(names))})".replace("|", "\\|")


def _plain(signature: str) -> str:
    """A signature without the quotes of annotations that are texts, and without addresses."""
    plain = re.sub(r"((?::|->) )'([^']*)'", r"\1\2", signature)
    return re.sub(r"<(\w+ )?([\w.]+)( object)? at 0x[0-9a-f]+>|<factory>", "…", plain)


def _split(parameters: str) -> list[str]:
    """Parameters, at commas that are in no brackets."""
    parts, depth = [""], 0
    for character in parameters:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
