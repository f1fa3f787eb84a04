"""The parts of `main.c` about extents: options that give them, and sizes that follow from them."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.bundling.fields import Field
from afterglow.backends.bundling.template import Text
from afterglow.backends.cpu.bundle.code import EntryCode
from afterglow.backends.cpu.bundle.files.extents import members_of

_DEFINITIONS = Text(r"""
static @{prefix}_extents extents;

static struct {
    const char *name;
    int64_t low, high, step, *extent;
    int given;
} dimensions[] = {
@rows
};

static void set_extent(const char *argument) {
    const char *equals = strchr(argument, '=');
    char *end;
    if (equals == NULL) fail("write --extent NAME=N", argument);
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++) {
        size_t length = (size_t)(equals - argument);
        int64_t extent = strtoll(equals + 1, &end, 10);
        if (strlen(dimensions[i].name) != length) continue;
        if (memcmp(dimensions[i].name, argument, length) != 0) continue;
        if (*end != 0 || extent < dimensions[i].low || extent > dimensions[i].high ||
            extent % dimensions[i].step != 0)
            fail("the model was not compiled for this extent", argument);
        *dimensions[i].extent = extent;
        dimensions[i].given = 1;
        return;
    }
    fail("no such extent", argument);
}
@set_size
static void check_extents(void) {
    for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++)
        if (!dimensions[i].given)
            fail("give each extent as --extent NAME=N; the extents are", "@names");
}
@set_sizes""")

_SET_SIZE = r"""
/* Size and shape of a tensor, in the format of .npy files. */
static void set_size(tensor *t, size_t count, const int64_t *shape, int rank) {
    char *text = allocate(24 * (size_t)rank + 3), *end = text;
    t->bytes = t->bytes / t->count * count;
    t->count = count;
    t->shape = text;
    *end++ = '(';
    for (int axis = 0; axis < rank; axis++) end += sprintf(end, "%lld, ", (long long)shape[axis]);
    *end = ')';
}
"""

_SET_SIZES = Text("""
static void set_sizes(void) {
    int64_t shape[@rank];
@sizes
}
""")

_SIZE = Text("""\
    @{prefix}_@{field}_shape(&extents, shape);
    set_size(&tensors[@number], @{prefix}_@{field}_count(&extents), shape, @rank);""")

_OPTION = """\
        } else if (strcmp(argv[i], "--extent") == 0) {
            set_extent(argv[++i]);
"""


def program_extents(entry: EntryCode, fields: Sequence[Field]) -> dict[str, str]:
    """What fills the gaps of `main.c`, by their names."""
    members = members_of(entry)
    if not members:
        return dict.fromkeys(("usage", "extents", "option", "sizes", "extent"), "")
    rows = (
        f'    {{"{member}", {dim.low}, {dim.high}, {dim.step}, &extents.{member}, 0}},'
        for dim, member in members.items()
    )
    names = ", ".join(f"{member} ({dim.range_text})" for dim, member in members.items())
    ranged = [(number, field) for number, field in enumerate(fields) if field.type.is_ranged]
    set_sizes = _SET_SIZES.substitute(
        rank=max((field.type.rank for _, field in ranged), default=0),
        sizes="\n".join(_size(entry.prefix, number, field) for number, field in ranged),
    )
    definitions = _DEFINITIONS.substitute(
        prefix=entry.prefix,
        rows="\n".join(rows),
        names=names,
        set_size=_SET_SIZE if ranged else "",
        set_sizes=set_sizes if ranged else "",
    )
    return {
        "usage": " *          --extent NAME=N...\n",
        "extents": definitions,
        "option": _OPTION,
        "sizes": "    check_extents();\n" + "    set_sizes();\n" * bool(ranged),
        "extent": ", &extents",
    }


def _size(prefix: str, number: int, field: Field) -> str:
    name = f"{field.role}_{field.member}"
    return _SIZE.substitute(prefix=prefix, field=name, number=number, rank=field.type.rank)
