"""The part of a header for several entries: the table, and how to select one."""

from __future__ import annotations

from afterglow.backends.bundling.fields import Field, fields_of
from afterglow.backends.bundling.template import Text
from afterglow.backends.capabilities import BundleExtent
from afterglow.backends.cpu.bundle.code import BundleCode, EntryCode

_TABLE = Text("""
/* All entries, for selection at run time; io is a pointer to the struct of that entry. */
typedef struct {
    const char *name;
    int32_t (*run)(const void *io, void *arena@given);
    int32_t (*run_team)(const void *io, void *arena@given, afterglow_team *team);
    int32_t (*self_check)(void *arena@given, void *memory);
    const char *(*step_name)(uint32_t step);
    size_t arena_bytes;
    size_t scratch_bytes;
    size_t self_check_bytes;
    size_t steps;
} @{name}_entry;

/* The table; its length is stored in *count. */
const @{name}_entry *@{name}_entries(int32_t *count);

/* Sizes that are sufficient for every entry. */
#define @{upper}_ARENA_BYTES @arena
#define @{upper}_ARENA_ALIGN @align
#define @{upper}_SCRATCH_BYTES @scratch
#define @{upper}_STACK_BYTES @stack
""")

_COMMON_IO = Text("""
/* The members that the structs of all entries share: every run accepts it as io. */
typedef struct {
@members
} @{name}_io;
""")

_FIND = Text("""
/* Find the entry for given extents:
@parameters
 * It is stored in *entry. If there is none, @{upper}_ERROR_EXTENT is returned, and *entry is
 * unchanged. The entries are for:
@choices */
int32_t @{name}_find(@declared, const @{name}_entry **entry);
""")


def write_choosing(code: BundleCode, given: str) -> str:
    """The table of entries, with what a caller needs to choose one; nothing if there is but one."""
    if len(code.entries) == 1:
        return ""
    upper, layouts = code.name.upper(), [entry.layout for entry in code.entries]
    table = _TABLE.substitute(
        name=code.name,
        upper=upper,
        given=given,
        arena=max(layout.size for layout in layouts),
        align=code.alignment,
        scratch=max(layout.scratch for layout in layouts),
        stack=max(entry.stack_bytes for entry in code.entries),
    )
    return table + _common_io(code) + _find(code, upper)


def _common_io(code: BundleCode) -> str:
    """A struct of pointers that serves all entries, if there is one."""
    members = [[_member(field) for field in fields_of(entry)] for entry in code.entries]
    if any(each != members[0] for each in members):
        return ""
    return _COMMON_IO.substitute(name=code.name, members="\n".join(members[0]))


def _member(field: Field) -> str:
    constant = "" if field.written else "const "
    return f"    {constant}{field.c_type} *{field.member};"


def _find(code: BundleCode, upper: str) -> str:
    if not code.extents:
        return ""
    entries = enumerate(code.entries)
    return _FIND.substitute(
        name=code.name,
        upper=upper,
        parameters="\n".join(map(_parameter, code.extents)),
        choices="\n".join(_choice(code, place, entry) for place, entry in entries),
        declared=", ".join(f"int32_t {extent.name}" for extent in code.extents),
    )


def _parameter(extent: BundleExtent) -> str:
    places = ", ".join(f"axis {axis} of {name}" for name, axis in extent.places)
    return f" *   {extent.name}: {places}"


def _choice(code: BundleCode, place: int, entry: EntryCode) -> str:
    extents = ", ".join(f"{extent.name} = {extent.values[place]}" for extent in code.extents)
    return f" *   {extents}: {entry.prefix}"
