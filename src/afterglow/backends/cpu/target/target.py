"""The machine that code is generated for: facts that kernels ask for, never names.

Every fact follows from the architecture and the set of features, in one place; a CPU's name only
tells LLVM how to schedule, and plans which instructions are slow. So code needs exactly the
features that its target lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from afterglow.backends.cpu.target.host import host_cpu, host_features, host_triple
from afterglow.backends.cpu.target.llvm_names import unknown_names
from afterglow.memory import MAIN_MEMORY, MemorySpace
from afterglow.runtime.native.machine import (
    TILES,
    Needs,
    allows_tiles,
    architecture_of,
    cache_sizes,
    cores_per_cache,
    usable_cores,
)
from afterglow.support.errors import UsageError
from afterglow.types import DType
from afterglow.types.dtype import f16

_X86_V1 = "64bit cmov cx8 fxsr mmx sse sse2"
_X86_V2 = f"{_X86_V1} cx16 popcnt sahf sse3 sse4.1 sse4.2 ssse3"
_X86_V3 = f"{_X86_V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
_X86_V4 = f"{_X86_V3} avx512bw avx512cd avx512dq avx512f avx512vl"

_AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
_SLOW_DOT_BF16 = {
    *("cooperlake", "sapphirerapids", "emeraldrapids"),
    *("graniterapids", "graniterapids-d", "graniterapids_d", "diamondrapids", "novalake"),
}
"""LLVM's names of Intel's processors with `vdpbf16ps`, of which FMAs do the work of one sooner."""


HOST = "host"
"""Stands for this machine."""
HOST_WITHOUT_TILES = "host-without-tiles"
"""This machine, for programs that do not ask the system for the registers of AMX."""
GENERIC = "generic"
"""Stands for any processor of an architecture."""
SCALAR_BITS = 32
"""Bits of a vector where there are no vector registers: one lane of f32."""


@dataclass(frozen=True)
class Caches:
    """Bytes of the data caches of one core, and of the last level; 0 where there is none."""

    l1: int
    l2: int
    l3: int
    l3_cores: int | None = None
    """Cores that share the last level; None if all do."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts that follow from the features of an architecture."""

    vector_bits: int
    """Bits of a vector register."""
    vector_registers: int
    """How many vectors fit in registers."""
    general_registers: int
    """How many integers fit in general registers."""
    fma: bool
    """Whether a * b + c is one instruction, rounded once."""
    half_conversions: bool
    """Whether instructions convert between f16 and f32."""
    rounding: bool = True
    """Whether instructions round floats to whole numbers."""
    rounding_conversion: bool = False
    """Whether an instruction makes the nearest i32 of an f32, rather than cut its fraction off."""
    subnormals: bool = True
    """Whether vectors of f32 compute with subnormal numbers, rather than take them for zero."""
    double_precision: bool = True
    """Whether there is arithmetic of f64, rather than routines that compute it."""
    dot_mixed_signs: bool = False
    """Whether an instruction adds four products of u8 and i8 into each i32."""
    dot_same_sign: bool = False
    """Whether an instruction adds four products of i8, or of u8, into each 32-bit integer."""
    dot_pairs: bool = False
    """Whether an instruction adds two products of i16 into each i32."""
    saturation: bool = False
    """Whether an instruction makes the nearest number of fewer bits of a 32-bit integer."""
    bytes_of_scalars: bool = False
    """Whether instructions work on the four bytes of a general register, each for itself."""
    byte_pairs: bool = False
    """Whether an instruction multiplies u8 and i8 and adds neighbouring products into i16."""
    byte_tiles: bool = False
    """Whether instructions multiply matrices of bytes that registers hold: AMX."""
    bf16_tiles: bool = False
    """Whether instructions multiply matrices of bf16 that registers hold: AMX."""
    byte_tables: bool = False
    """Whether an instruction looks up 64 bytes in a table of 128."""
    bf16: bool = False
    """Whether an instruction rounds f32 to bf16."""
    dot_bf16: bool = False
    """Whether an instruction adds two products of bf16 into each f32."""
    slow_dot_bf16: bool = False
    """Whether that instruction takes as long as the products of f32 that it replaces, or longer."""
    avx512: bool = False
    """Whether vectors of 512 bits and mask registers are there."""


@dataclass(frozen=True, kw_only=True)
class Target(Facts):
    """A machine to make code for; `Target.of("host")` is this one.

    `cpu` is the base of the instruction set, which `features` extend; `tuning` is the processor
    that LLVM schedules for, and adds no instruction.
    """

    triple: str
    cpu: str
    features: tuple[str, ...]
    caches: Caches
    tuning: str = ""
    abi: str = ""
    pointer_bits: int = 64
    cores: int = 1

    @staticmethod
    def of(text: str) -> Target:
        """This machine (`host`), a named one, or `triple+cpu+features` (features by commas).

        The CPU of the last form brings the features of the target of that name, if there is one.
        """
        if not isinstance(text, str):
            raise UsageError(f"target must be a name, got {text!r}", help=_known())
        if text == HOST:
            return Target.host()
        if text == HOST_WITHOUT_TILES:
            return Target.host().without_tiles()
        if text in NAMED:
            return NAMED[text]
        triple, *rest = text.split("+", 2)
        if "-" not in triple or not rest:
            raise UsageError(f"no target is called '{text}'", help=_known())
        return _custom(triple, rest[0], rest[1] if len(rest) > 1 else "")

    @staticmethod
    def host() -> Target:
        """This machine, with everything it has."""
        return _host()

    @property
    def architecture(self) -> str:
        """The family of machines: x86, aarch64, arm, riscv32, riscv64 or wasm."""
        return _architecture(self.triple)

    @property
    def has_vectors(self) -> bool:
        """Whether a register holds several numbers; otherwise vectors have one lane."""
        return self.vector_bits > SCALAR_BITS

    @property
    def needs(self) -> Needs:
        """What code for it needs of the machine that it runs on."""
        return Needs(str(self), self.architecture, self.features)

    @property
    def memories(self) -> tuple[MemorySpace, ...]:
        """One, whose size is not known here."""
        return (MAIN_MEMORY,)

    def without_tiles(self) -> Target:
        """The same machine, for programs that do not ask the system for tiles."""
        rest = _without_tiles(self.features)
        return replace(self, features=rest, byte_tiles=False, bf16_tiles=False)

    def missing_here(self) -> Sequence[str]:
        """What code for this target needs that this machine lacks."""
        return self.missing_on(Target.host())

    def reads(self, storage: DType) -> bool:
        """Whether weights in a narrower type are read at full speed: f16 needs conversions."""
        return storage is not f16 or self.half_conversions

    def missing_on(self, machine: Target) -> list[str]:
        """What code for this target needs that a machine lacks; empty if it can run there."""
        if self.architecture != machine.architecture:
            return [f"the architecture {self.architecture}"]
        return sorted(set(self.features) - set(machine.features))

    def __str__(self) -> str:
        names = [name for name, target in NAMED.items() if target == self]
        return names[0] if names else f"{self.triple}+{self.tuning or self.cpu}"


def _architecture(triple: str) -> str:
    architecture = architecture_of(triple)
    if architecture is not None:
        return architecture
    raise UsageError(f"no code can be made for '{triple.split('-')[0]}'", help=_known())


def _facts(architecture: str, features: set[str], tuning: str) -> Facts:
    match architecture:
        case "x86":
            return _x86_facts(features, tuning)
        case "aarch64":
            return Facts(
                vector_bits=128,
                vector_registers=32,
                general_registers=28,
                fma=True,
                half_conversions=True,
                dot_mixed_signs="i8mm" in features,
                dot_same_sign="dotprod" in features,
                bf16="bf16" in features,
            )
        case "arm":
            return _arm_facts(features)
        case "wasm":
            return Facts(
                vector_bits=128 if "simd128" in features else SCALAR_BITS,
                vector_registers=16,
                general_registers=16,
                fma=False,
                half_conversions=False,
                dot_pairs="simd128" in features,
            )
        case _:
            return Facts(
                vector_bits=128 if "v" in features else SCALAR_BITS,
                vector_registers=32,
                general_registers=27,
                fma="f" in features,
                half_conversions=bool({"zfh", "zfhmin"} & features),
                rounding=architecture == "riscv64",
                double_precision="d" in features,
            )


def _arm_facts(features: set[str]) -> Facts:
    units = {name for name in features if name.startswith(("vfp", "fp-armv8", "neon"))}
    fused = any(name.startswith(("vfp4", "fp-armv8")) for name in units)
    neon = "neon" in units
    return Facts(
        vector_bits=128 if neon else SCALAR_BITS,
        vector_registers=16 if neon else 32,
        general_registers=13,
        fma=fused,
        half_conversions=fused,
        rounding=any(name.startswith("fp-armv8") for name in units),
        rounding_conversion=bool(units) and not neon,
        subnormals=not neon,
        double_precision=any(not name.endswith("sp") for name in units),
        dot_pairs="dsp" in features and not neon,
        saturation="dsp" in features,
        bytes_of_scalars="dsp" in features and not neon,
    )


def _x86_facts(features: set[str], tuning: str) -> Facts:
    avx512 = features >= _AVX512
    dot_bf16 = avx512 and "avx512bf16" in features
    return Facts(
        vector_bits=512 if avx512 else 256 if "avx2" in features else 128,
        vector_registers=32 if avx512 else 16,
        general_registers=14,
        fma="fma" in features,
        half_conversions="f16c" in features,
        rounding="sse4.1" in features,
        dot_mixed_signs=bool({"avx512vnni", "avxvnni"} & features),
        dot_pairs=True,
        byte_pairs="ssse3" in features,
        byte_tiles=avx512 and {"amx-tile", "amx-int8", "avx512vnni"} <= features,
        bf16_tiles=avx512 and {"amx-tile", "amx-bf16", "avx512bf16"} <= features,
        byte_tables=avx512 and "avx512vbmi" in features,
        bf16=dot_bf16,
        dot_bf16=dot_bf16,
        slow_dot_bf16=dot_bf16 and (TILES in features or tuning in _SLOW_DOT_BF16),
        avx512=avx512,
    )


_BASE_CPU = {"x86": "x86-64", "riscv32": "generic-rv32", "riscv64": "generic-rv64"}
_SERVER = Caches(l1=32 << 10, l2=512 << 10, l3=8 << 20)


def _make(
    triple: str,
    features: str,
    *,
    cpu: str = "",
    abi: str = "",
    caches: Caches = _SERVER,
    cores: int = 1,
) -> Target:
    """A target with the facts of its features; an Arm core's name is the base itself."""
    architecture = _architecture(triple)
    names = set(features.split())
    by_name = architecture == "arm" and bool(cpu)
    return Target(
        triple=triple,
        cpu=cpu if by_name else _BASE_CPU.get(architecture, "generic"),
        features=tuple(sorted(names)),
        caches=caches,
        tuning="" if by_name else cpu,
        abi=abi,
        pointer_bits=32 if architecture in ("arm", "riscv32", "wasm") else 64,
        cores=cores,
        **vars(_facts(architecture, names, cpu)),
    )


_LINUX = "unknown-linux-gnu"
_FIRMWARE = "unknown-none-gnueabihf"  # plain eabihf has other names for memcpy and its like
_SMALL = Caches(l1=32 << 10, l2=512 << 10, l3=0)
_NONE = Caches(0, 0, 0)

NAMED: dict[str, Target] = {
    "x86-64": _make(f"x86_64-{_LINUX}", _X86_V1),
    "x86-64-v2": _make(f"x86_64-{_LINUX}", _X86_V2),
    "x86-64-v3": _make(f"x86_64-{_LINUX}", _X86_V3),
    "x86-64-v4": _make(f"x86_64-{_LINUX}", _X86_V4),
    "aarch64": _make(f"aarch64-{_LINUX}", "fp-armv8 neon"),
    "aarch64-dotprod": _make(f"aarch64-{_LINUX}", "dotprod fp-armv8 fullfp16 lse neon rdm"),
    "cortex-m4": _make(f"thumbv7em-{_FIRMWARE}", "dsp vfp4d16sp", cpu="cortex-m4", caches=_NONE),
    "cortex-m7": _make(
        f"thumbv7em-{_FIRMWARE}",
        "dsp fp-armv8d16",
        cpu="cortex-m7",
        caches=Caches(l1=16 << 10, l2=0, l3=0),
    ),
    "cortex-m33": _make(
        f"thumbv8m.main-{_FIRMWARE}", "dsp fp-armv8d16sp", cpu="cortex-m33", caches=_NONE
    ),
    "armv7a": _make("armv7a-unknown-linux-gnueabihf", "neon", caches=_SMALL),
    "riscv32": _make("riscv32-unknown-elf", "a c d f m", abi="ilp32d", caches=_SMALL),
    "riscv64": _make(f"riscv64-{_LINUX}", "a c d f m", abi="lp64d", caches=_SMALL),
    "riscv64-v": _make(f"riscv64-{_LINUX}", "a c d f m v", abi="lp64d", caches=_SMALL),
    "wasm32": _make("wasm32-unknown-unknown", "simd128", caches=_SMALL),
}
"""Machines by name. Code for one of them runs wherever its features are."""


@cache
def _custom(triple: str, cpu: str, features: str) -> Target:
    base = NAMED.get(cpu)
    listed = {name.strip().removeprefix("+") for name in features.split(",") if name.strip()}
    removed = {name[1:] for name in listed if name.startswith("-")}
    kept = {name for name in listed if not name.startswith("-")}
    if base is not None and base.architecture == _architecture(triple):
        kept |= set(base.features)
        cpu = base.tuning or (base.cpu if base.architecture == "arm" else "")
    _check_names(triple, cpu, sorted(listed))
    caches = base.caches if base is not None else _SMALL
    abi = base.abi if base is not None else ""
    return _make(triple, " ".join(kept - removed), cpu=cpu, abi=abi, caches=caches)


def _check_names(triple: str, cpu: str, features: Sequence[str]) -> None:
    """Refuse a processor or features that LLVM does not know, and would ignore."""
    _architecture(triple)
    named = "" if cpu == GENERIC else cpu
    processors, unknown = unknown_names(triple, named, [name.lstrip("-") for name in features])
    if processors:
        raise UsageError(
            f"no CPU of {triple.split('-')[0]} is called {processors[0]!r}",
            help=f"give a name that LLVM knows, or {GENERIC!r}, and features",
        )
    if unknown:
        raise UsageError(
            f"{triple.split('-')[0]} has no feature {unknown[0]!r}",
            help="give features by LLVM's names, with commas between them",
        )


@cache
def _host() -> Target:
    sizes = cache_sizes()
    return _make(
        host_triple(),
        " ".join(_allowed(host_features())),
        cpu=host_cpu(),
        caches=Caches(
            sizes.get(1, _SERVER.l1),
            sizes.get(2, _SERVER.l2),
            sizes.get(3, _SERVER.l3),
            cores_per_cache(3),
        ),
        cores=usable_cores(),
    )


def _allowed(features: Sequence[str]) -> Sequence[str]:
    """Features without those that the system withholds from this process."""
    return _without_tiles(features) if TILES in features and not allows_tiles() else features


def _without_tiles(features: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in features if not name.startswith("amx"))


def _known() -> str:
    names = ", ".join([HOST, *NAMED])
    return f"the names are {names}; or write triple+cpu+features"
