"""The part of a header about extents that a run is given: the struct, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from afterglow.backends.bundling.fields import (
    Field,
    fields_of,
    identifier,
    name_in_model,
)
from afterglow.backends.bundling.template import Text
from afterglow.backends.cpu.bundle.code import EntryCode
from afterglow.support.names import NameScope
from afterglow.types.extent import Atom, Dim, Extreme, Quotient, RangedExtent, dims_of, smallest

_STRUCT = Text("""\
/* The extents of a run. Each must be within its bounds, and a multiple of its step: otherwise
 * nothing is run, and @{upper}_ERROR_EXTENT is returned. */
typedef struct {
@members
} @{prefix}_extents;

@bounds

""")

_SHAPES = Text("""\
/* Number of elements and shapes for valid extents. A tensor is contiguous for the extents of its
 * run; MAX_COUNT elements, MAX_BYTES bytes, are enough for all of them. */
@functions

""")

_GROWTH = Text("""\
/* State that grows: the extents say how much of it is filled. Empty it before the first run, and
 * advance after each run that succeeds. A run for which it has no room is refused like any other
 * with an extent out of bounds. Memory that is not filled may hold anything. */
static inline void @{prefix}_reset(@{prefix}_extents *extents) {
@reset
}

static inline void @{prefix}_advance(@{prefix}_extents *extents) {
@advance
}

""")

_COUNT = Text("""\
static inline size_t @{prefix}_@{field}_count(const @{prefix}_extents *extents) {
@{unused}    return (size_t)(@count);
}
""")

_SHAPE = Text("""\
static inline void @{prefix}_@{field}_shape(const @{prefix}_extents *extents, int64_t *shape) {
@axes
}
""")


def members_of(entry: EntryCode) -> dict[Dim, str]:
    """The dimensions of an entry in the order of its struct, with the names of their members."""
    scope = NameScope()
    return {dim: scope.claim(identifier(dim.name)) for dim in entry.interface.dims}


def parameter(entry: EntryCode) -> str:
    """The parameter of functions that run an entry; nothing if it has no dimensions."""
    return f", const {entry.prefix}_extents *extents" if entry.interface.dims else ""


def write_extents(entry: EntryCode, upper: str) -> str:
    """The struct, its bounds, and functions of it; nothing if the entry has no dimensions.

    Codes that functions return begin with `upper`.
    """
    members = members_of(entry)
    if not members:
        return ""
    ranged = [field for field in fields_of(entry) if field.type.is_ranged]
    scope = NameScope()
    macros = [f"{entry.prefix}_{member}".upper() for member in members.values()]
    struct = _STRUCT.substitute(
        upper=upper,
        prefix=entry.prefix,
        members="\n".join(map(_member, members, members.values())),
        bounds="\n".join(map(_bounds, map(scope.claim, macros), members)),
    )
    functions = "\n".join(_functions(entry.prefix, field, members) for field in ranged)
    shapes = _SHAPES.substitute(functions=functions) if ranged else ""
    return struct + shapes + _growth(entry, members)


def _growth(entry: EntryCode, members: Mapping[Dim, str]) -> str:
    """How the extents that are fill levels change; nothing if no state grows."""
    levels = [port.level for port in entry.interface.growing if port.level is not None]
    changes = {members[dims_of(level.before)[0]]: level.after for level in levels}
    if not changes:
        return ""
    computed = [
        f"    int64_t {name} = {c_extent(after, members)};" for name, after in changes.items()
    ]
    stored = [f"    extents->{name} = {name};" for name in changes]
    return _GROWTH.substitute(
        prefix=entry.prefix,
        reset="\n".join(f"    extents->{name} = 0;" for name in changes),
        advance="\n".join([*computed, *stored]),
    )


def _member(dim: Dim, member: str) -> str:
    return f"    int64_t {member}; /* {dim.range_text}{name_in_model(dim.name, member)} */"


def _bounds(macro: str, dim: Dim) -> str:
    limits = {"MIN": dim.low, "MAX": dim.high, "STEP": dim.step}
    return "\n".join(f"#define {macro}_{limit} {number}" for limit, number in limits.items())


def _functions(prefix: str, field: Field, members: Mapping[Dim, str]) -> str:
    name = f"{field.role}_{field.member}"
    axes = (
        f"    shape[{axis}] = {c_extent(extent, members)};"
        for axis, extent in enumerate(field.type.shape)
    )
    count = c_extent(field.type.size, members)
    unused = "" if "extents" in count else "    (void)extents;\n"
    counting = _COUNT.substitute(prefix=prefix, field=name, unused=unused, count=count)
    return counting + _SHAPE.substitute(prefix=prefix, field=name, axes="\n".join(axes))


def c_extent(extent: int, members: Mapping[Dim, str]) -> str:
    """An extent as an expression of C over the members of `extents`."""
    if not isinstance(extent, RangedExtent):
        return str(extent)
    text = ""
    for monomial, factor in extent.terms:
        sign = " - " if factor < 0 else " + "
        text += (sign if text else sign.strip(" +")) + _product(monomial, abs(factor), members)
    return text


def _product(monomial: Sequence[Atom], factor: int, members: Mapping[Dim, str]) -> str:
    factors: list[str] = []
    for atom in monomial:
        if isinstance(atom, Dim) and factor % atom.step == 0:
            factor //= atom.step
            factors.append(f"extents->{members[atom]}")
        else:
            factors.append(_atom(atom, members))
    return " * ".join([str(factor)] * (factor != 1 or not factors) + factors)


def _atom(atom: Atom, members: Mapping[Dim, str]) -> str:
    if isinstance(atom, Dim):
        return f"(extents->{members[atom]} / {atom.step})"
    first, second = (f"({c_extent(part, members)})" for part in atom.parts)
    if isinstance(atom, Extreme):
        return f"({first} {'>' if atom.larger else '<'} {second} ? {first} : {second})"
    sign = "/" if isinstance(atom, Quotient) else "%"
    if smallest(atom.parts[0]) >= 0:
        return f"({first} {sign} {second})"
    # C rounds towards zero: a dividend that is not negative makes up for it.
    multiple = -(smallest(atom.parts[0]) // smallest(atom.parts[1]))
    raised = f"(({first} + {second} * {multiple}) {sign} {second})"
    return f"({raised} - {multiple})" if isinstance(atom, Quotient) else raised
