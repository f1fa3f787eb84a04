"""State that the entries of a bundle share: one block of memory, and where each lies in it."""

from __future__ import annotations

from afterglow.backends.bundling.fields import Field, fields_of
from afterglow.backends.bundling.template import Text
from afterglow.backends.cpu.bundle.code import BundleCode, EntryCode
from afterglow.support.lazy_dataclass import dataclass

_STATE = Text("""
/* The state that entries share, as one block of memory that is aligned like the arena.@filled */
#define @{upper}_STATE_BYTES @size
@binds""")

_BIND = Text("""
/* Have an entry use the state in a block. */
static inline void @{prefix}_bind(@{prefix}_io *io, void *state) {
@lines
}
""")


@dataclass(frozen=True)
class SharedState:
    """Where each state lies in the block, by the model's name, and the size of the block."""

    offsets: dict[str, int]
    size: int


def shared_state(code: BundleCode) -> SharedState | None:
    """The block of memory for the states of all entries; None if there is but one entry."""
    ports = {port.name: port for entry in code.entries for port in entry.interface.states}
    if len(code.entries) == 1 or not ports:
        return None
    offsets, size = {}, 0
    for name, port in ports.items():
        offsets[name] = size
        size += -(-port.type.nbytes // code.alignment) * code.alignment
    return SharedState(offsets, size)


def initialiser(code: BundleCode) -> EntryCode | None:
    """The entry that takes and gives nothing: it fills the state."""
    nothing = (e for e in code.entries if not (e.interface.inputs or e.interface.outputs))
    return next(nothing, None) if len(code.entries) > 1 else None


def write_states(code: BundleCode) -> str:
    """The part of a header about state that entries share."""
    state, first = shared_state(code), initialiser(code)
    if state is None:
        return ""
    return _STATE.substitute(
        upper=code.name.upper(),
        size=state.size,
        filled="" if first is None else f"\n * {first.prefix}_run fills it, before all others.",
        binds="".join(_bind(entry, state) for entry in code.entries),
    )


def _bind(entry: EntryCode, state: SharedState) -> str:
    states = [field for field in fields_of(entry) if field.role == "state"]
    if not states:
        return ""
    lines = "\n".join(_pointing(field, state.offsets[field.name]) for field in states)
    return _BIND.substitute(prefix=entry.prefix, lines=lines)


def _pointing(field: Field, offset: int) -> str:
    return f"    io->{field.member} = ({field.c_type} *)(void *)((char *)state + {offset});"
