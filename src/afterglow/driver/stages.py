"""The way of a model, stage by stage: import, optimise, lower, select, plan, emit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from afterglow.backends.backend import Backend, Settings
from afterglow.backends.capabilities import (
    Caching,
    Concurrent,
    ExactExtents,
    Listing,
    Tuning,
    Verifying,
    WarmingUp,
)
from afterglow.backends.policy import Policy
from afterglow.backends.registry import backend_factory
from afterglow.driver.cache import CompileCache
from afterglow.driver.devices import find_device
from afterglow.driver.limits import check_run
from afterglow.driver.micro_batches import divide_batches
from afterglow.driver.options import PRECISIONS, Options, is_duration
from afterglow.driver.pipelines import (
    activations_pipeline,
    converting_pipeline,
    dynamic_pipeline,
    lowering_pipeline,
    mixing_pipeline,
    narrowing_pipeline,
    optimising_pipeline,
    placing_part_pipeline,
    placing_pipeline,
    quantizing_pipeline,
    replacing_pipeline,
    scheduling,
    tidying_pipeline,
)
from afterglow.driver.precision import check_precision
from afterglow.driver.ranges import NoRangesError
from afterglow.driver.tuning import tuned_policy
from afterglow.graph import Function, Module, Node
from afterglow.graph.function import subgraphs_of
from afterglow.graph.index_check import check_constants
from afterglow.instr import (
    ON_HOST,
    KernelPlan,
    OpInstr,
    Program,
    Stack,
    interface_of,
    origins_of,
    print_program,
    verify_program,
)
from afterglow.lowering import HasKernel, select_instructions, step_of, unsupported_nodes
from afterglow.lowering.batch_traffic import CacheSharing
from afterglow.lowering.recompute import Planning, Recompute
from afterglow.lowering.select import Carried
from afterglow.lowering.splitting import FitArena, Memory
from afterglow.memory import Memories, PlanStep
from afterglow.passes import AnyPass, Instrument, Pipeline, ProgramPipeline, VerifyEach
from afterglow.quantization.config import QuantizationConfig
from afterglow.quantization.convert import Convert
from afterglow.quantization.convert_floats import ConvertFloats
from afterglow.quantization.mixed_precision import MixedPrecision, choose_halves
from afterglow.quantization.rounding import Rounding
from afterglow.runtime import CompiledFunction
from afterglow.runtime.artifact import Artifact
from afterglow.runtime.micro_batches import MicroBatches
from afterglow.support.errors import UnsupportedError, UsageError, VerifyError, warn
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.own_ops import tell_once
from afterglow.types import MemoryPlan
from afterglow.types.extent import UndecidedExtentError


@dataclass(frozen=True)
class Stages:
    """Runs stages with given options; each takes what the one before gave."""

    options: Options

    @cached_property
    def backend(self) -> Backend:
        """The backend asked for."""
        return find_backend(self.options)

    @property
    def narrowing(self) -> Pipeline:
        """The passes that store values in fewer bits, if the options ask for it."""
        options, precision = self.options, PRECISIONS[self.options.precision]
        if precision.by_row:
            return dynamic_pipeline(self._rounding)
        if precision.floats is not None:
            whole = options.partition is None
            return mixing_pipeline(ConvertFloats(precision.floats, self._mixed, whole=whole))
        if not precision.by_profile:
            every = options.policy.small_weights
            return narrowing_pipeline(precision.weights, every, self._rounding)
        return quantizing_pipeline(self._conversion)

    @property
    def _rounding(self) -> Rounding | None:
        """What rounds weights by what layers read, if there are samples."""
        samples = self.options.rounding
        return None if samples is None else samples.rounding

    @property
    def _mixed(self) -> MixedPrecision:
        profile = self.options.profile
        seen = {} if profile is None else profile.observations
        reaches = {name: max(-o.low, o.high) for name, o in seen.items()}
        return MixedPrecision(self.options.keep, self.options.allow, reaches)

    @property
    def _conversion(self) -> Convert:
        """The pass that stores values as integers, by what was observed of them."""
        options, profile = self.options, self.options.profile
        assert profile is not None, "refused when the backend was found"
        given = options.quantization or QuantizationConfig()
        config = given.keeping((*profile.keep, *options.keep), profile.int16)
        whole = options.partition is None
        return Convert(profile.observations, config, whole=whole, rounding=self._rounding)

    @cached_property
    def stacking_backend(self) -> Backend:
        """The backend that stacks are formed by: they do not depend on variants that are chosen."""
        if not self.options.policy.variants:
            return self.backend  # which then knows the plans of what was stacked
        return find_backend(replace(self.options, policy=replace(self.options.policy, variants={})))

    @cached_property
    def frugal_backend(self) -> Backend:
        """The backend with a policy that prefers kernels with little workspace."""
        policy = replace(self.options.policy, least_workspace=True)
        return find_backend(replace(self.options, policy=policy))

    @property
    def memory(self) -> Memory:
        """The estimates of memory that splitting nodes needs."""
        return Memory(
            self.tidying.run,
            lambda program: self._least_arena(program, self._place),
            lambda program: self._least_arena(program, self._place_part),
        )

    def _least_arena(self, program: Program, place: Callable[[Program, Backend], None]) -> int:
        place(program, self.frugal_backend)
        return program.planned.arena_bytes

    @property
    def tidying(self) -> ProgramPipeline:
        """The passes that remove copies, add halos and form stacks."""
        return tidying_pipeline(first_plan(self.stacking_backend), optimize=self.options.optimize)

    def placing(self, backend: Backend) -> ProgramPipeline:
        """The passes that plan the kernels of a backend, and memory."""
        options = self.options
        return placing_pipeline(
            first_plan(backend),
            backend.plans,
            optimize=options.optimize,
            donate=options.donate_inputs,
            side_by_side=self._runs_side_by_side(backend),
            memories=Memories.of(backend.target.memories),
            most_weights=options.policy.most_weights,
        )

    def _runs_side_by_side(self, backend: Backend) -> bool:
        """Whether instructions are put side by side; not where each byte of the arena counts."""
        is_concurrent = isinstance(backend, Concurrent) and backend.side_by_side
        return is_concurrent and self.options.max_arena is None

    @property
    def memory_passes(self) -> tuple[AnyPass, ...]:
        """The passes that give a program its memory, in order."""
        return (*self.tidying.passes, *self.placing(self.backend).passes)

    def optimise(self, module: Module) -> Module:
        """Run the passes of the backend, then those that serve every backend, in place."""
        self._check_extents(module)
        self._optimise(module)
        self._narrow(module, self.narrowing)
        return module

    def _check_extents(self, module: Module) -> None:
        """Raise if the backend has no programs for the extents of a module."""
        backend = self.backend
        ranged = any(x.type.is_ranged for x in module.main.inputs)
        if ranged and isinstance(backend, ExactExtents) and backend.exact_extents:
            raise NoRangesError(
                f"backend {backend.name!r} has no programs for ranges of extents",
                help="give each dimension one extent, or use the default backend",
            )

    def convert(self, module: Module) -> Module:
        """The same for other engines: quantized values are pairs of ops around what reads them."""
        self._optimise(module)
        by_profile = PRECISIONS[self.options.precision].by_profile
        narrowing = converting_pipeline(self._conversion) if by_profile else self.narrowing
        self._narrow(module, narrowing)
        return module

    def _narrow(self, module: Module, narrowing: Pipeline) -> None:
        narrowing.run(module, self._instruments())
        activations_pipeline(self.options.activations).run(module, self._instruments())
        if self._rounding is not None:
            self._rounding.release()

    def kept_floats(self, module: Module) -> Mapping[Node, str]:
        """Nodes of an imported module that stay in f32 among 16-bit floats, with the reasons.

        They are those of an optimised copy.
        """
        dtype = PRECISIONS[self.options.precision].floats
        if dtype is None:
            return {}
        copy = module.clone()
        replace(self, options=replace(self.options, progress=None))._optimise(copy)
        return choose_halves(copy.main, dtype, self._mixed).kept

    def _optimise(self, module: Module) -> None:
        self._tell("optimise")
        self._check_indices(module)
        self._prepare(module)
        if self.options.optimize:
            optimising_pipeline().run(module, self._instruments())
            self._check_indices(module)  # again: more is constant by now

    def _check_indices(self, module: Module) -> None:
        if not self.options.policy.unchecked:
            check_constants(module.main)

    def lower(self, module: Module) -> Module:
        """Lower what the backend has no kernel for, and schedule the result, in place."""
        self._tell("lower")
        has_kernel = kernels_of(self.backend)
        lowering = lowering_pipeline(has_kernel, optimize=self.options.optimize)
        lowering.run(module, self._instruments())
        left = unsupported_nodes(module.main, has_kernel)
        missing = [node for node in left if not self._has_plan(node)]
        if missing:
            raise self._no_kernel([(n.op.mnemonic, n.name, n.origin) for n in missing])
        _warn_of_own(left)
        self._recompute(module)
        if self.options.max_arena is not None:
            self._fit_arena(module, self.options.max_arena)
        return module

    def _no_kernel(self, nodes: Sequence[tuple[str, str, str]]) -> UnsupportedError:
        """The error about nodes, by op, name and origin."""
        return UnsupportedError(
            f"backend {self.backend.name!r} has no kernel for {len(nodes)} "
            + ("node" if len(nodes) == 1 else "nodes"),
            excerpt=[f"{op} (%{name}, {origin})" for op, name, origin in nodes],
            help="use backend='interpreter', which runs every op",
        )

    def _check_planned(self, program: Program) -> None:
        """Raise if an op that was selected for another one has no kernel."""
        steps = [s for s in program.body if isinstance(s, OpInstr) and s.plan is None]
        if steps:
            raise self._no_kernel([(s.op.mnemonic, s.outs[0].name, s.origin) for s in steps])

    def _has_plan(self, node: Node) -> bool:
        """Whether the backend has the host run a node that it has no kernel for."""
        return bool(self.backend.plans(step_of(node)))

    def plan(self, module: Module) -> tuple[Program, MemoryPlan]:
        """Select instructions, remove copies, plan kernels, and give every buffer its address."""
        program = self.instructions(module)
        return program, self.check_memory(program)

    def instructions(self, module: Module) -> Program:
        """Select instructions and run the passes over them, as far as instruments let them run."""
        self._tell("plan memory")
        program = select_instructions(module.main)
        instruments = self._instruments()
        self.tidying.run(program, instruments)
        self._place(program, self.backend, instruments)
        return program

    def check_memory(self, program: Program) -> MemoryPlan:
        """Make a planned program fit the arena that options allow, and verify it if asked to."""
        self._check_planned(program)
        plan = program.planned
        budget = self.options.max_arena
        if budget is not None and plan.arena_bytes > budget:
            plan = self.replan(program, self.frugal_backend)
        if self.options.verify:
            _verify_plan(program)
        return plan

    def replan(self, program: Program, backend: Backend) -> MemoryPlan:
        """Plan the kernels of a planned program anew, and give its buffers other addresses."""
        for body in _bodies(program):
            self.replan(body, backend)
        replacing_pipeline(first_plan(backend)).run(program)
        return program.planned

    def _plan_bodies(self, program: Program, backend: Backend) -> None:
        """Plan the functions that ops of a program carry, each as a program of its own."""
        for step in program.body:
            if isinstance(step, OpInstr):
                functions = [subgraph.function for subgraph in subgraphs_of(step.op)]
                carried = step.op.carried_values()
                step.bodies = tuple(self._plan_body(f, carried, backend) for f in functions)

    def _plan_body(self, function: Function, carried: Carried, backend: Backend) -> Program:
        program = select_instructions(function, carried)
        self.tidying.run(program)
        self._place_part(program, backend)
        if self.options.verify:
            _verify_plan(program)
        return program

    def listing(self, program: Program, language: str) -> str:
        """The code of a planned program: in LLVM's language, or in assembly."""
        backend = self.backend
        if not isinstance(backend, Listing):
            raise UsageError(
                f"backend {backend.name!r} generates no code to print",
                help="use the default backend",
            )
        if language not in backend.languages:
            raise UsageError(
                f"backend {backend.name!r} has no listing in {language!r}",
                help=f"there are {', '.join(backend.languages)}",
            )
        return backend.listing(program, language)

    @property
    def languages(self) -> Sequence[str]:
        """The languages in which the backend shows its code."""
        return self.backend.languages if isinstance(self.backend, Listing) else ()

    def _place(
        self, program: Program, backend: Backend, instruments: Sequence[Instrument] = ()
    ) -> None:
        """Plan kernels, let buffers share memory, and give them addresses."""
        self._plan_bodies(program, backend)  # first: their arenas are workspace of their steps
        self.placing(backend).run(program, instruments)

    def _place_part(self, program: Program, backend: Backend) -> None:
        """The same, quickly, for a part of a model."""
        self._plan_bodies(program, backend)
        placing_part_pipeline(first_plan(backend), optimize=self.options.optimize).run(program)

    def _recompute(self, module: Module) -> None:
        """Let a training step compute values again, as asked for or until the arena fits."""
        checkpoint, budget = self.options.checkpoint, self.options.max_arena
        if checkpoint is None and budget is None:
            return
        schedule = scheduling(optimize=self.options.optimize)
        planning = Planning(self._cost, schedule.run_after, self._arena)
        recompute = Recompute(planning, checkpoint, budget)
        Pipeline("recompute", (recompute,)).run(module, self._instruments())

    def _cost(self, node: Node) -> float:
        """What a node costs by the first plan for it."""
        plan = first_plan(self.backend)(step_of(node))
        return 0.0 if plan is None else plan.cost

    def _arena(self, function: Function) -> int:
        """The arena of a scheduled function, with little workspace."""
        program = select_instructions(function)
        self.tidying.run(program)
        return self._least_arena(program, self._place)

    def _fit_arena(self, module: Module, budget: int) -> None:
        """Split nodes until the arena fits."""
        if Memories.of(self.backend.target.memories) is not None:
            raise UsageError(
                f"max_arena cannot bound the memories of target {self.options.target!r}",
                help="leave max_arena out: the target says how large its memories are",
            )
        self._tell("fit arena")
        fit = FitArena(budget, self.memory)
        Pipeline("fit", (fit,)).run(module, self._instruments())

    def finish(self, module: Module) -> CompiledFunction:
        """All stages from an imported module on."""
        self.check_runs_here()
        if isinstance(self.backend, WarmingUp):
            self.backend.warm_up()
        inputs = [placeholder.name for placeholder in module.main.inputs]
        outputs = [output.name for output in module.main.outputs]
        return self.finish_optimised(self.optimise(module), inputs, outputs)

    def finish_optimised(
        self, module: Module, inputs: Sequence[str], outputs: Sequence[str]
    ) -> CompiledFunction:
        """All stages from an optimised module on, given the names of what it takes and gives."""
        self.lower(module)
        module, batches = self.divide_batches(module)
        program, plan = self._tuned(module).plan(module)
        self._tell("emit")
        function = self._load(program, plan, inputs, outputs, batches)
        check_run(function, program, self.options.max_memory)
        return function

    def compile_part(self, module: Module) -> tuple[Program, Artifact]:
        """The program of a part of an optimised module, and what its device loads."""
        program = self.plan_part(module)
        self._tell("emit")
        return program, self.backend.compile(program)

    def plan_part(self, module: Module) -> Program:
        """The program of a part of an optimised module."""
        self._prepare(module)
        self.lower(module)
        return self._tuned(module).plan(module)[0]

    def finish_part(
        self, module: Module, inputs: Sequence[str], outputs: Sequence[str]
    ) -> CompiledFunction:
        """All stages from a module on that was optimised for other devices, too."""
        self._prepare(module)
        return self.finish_optimised(module, inputs, outputs)

    def _prepare(self, module: Module) -> None:
        Pipeline("prepare", self.backend.preparation).run(module, self._instruments())

    def divide_batches(self, module: Module) -> tuple[Module, MicroBatches | None]:
        """The module for micro-batches, where large batches would not stay in the cache."""
        options, backend = self.options, self.backend
        plain = options.partition is None and options.max_arena is None
        if not isinstance(backend, Caching) or not plain or options.donate_inputs:
            return module, None
        return divide_batches(module, CacheSharing(backend.cache_bytes, backend.cores))

    def _load(
        self,
        program: Program,
        plan: MemoryPlan,
        inputs: Sequence[str],
        outputs: Sequence[str],
        batches: MicroBatches | None,
    ) -> CompiledFunction:
        """Compile a planned program, and load it on its device."""
        backend, device = self.backend, find_device(self.backend.device)
        options = self.options.loading
        artifact = None
        if self.options.verify and isinstance(backend, Verifying):
            executable = backend.verifying(program, options)
        else:
            artifact = backend.compile(program)
            executable = device.load(artifact, options)
        return CompiledFunction(
            interface_of(program),
            plan,
            executable,
            inputs,
            outputs,
            programs=(program,),
            artifact=artifact,
            allocate=device.allocate,
            batches=batches,
        )

    def check_runs_here(self) -> None:
        """Refuse code for another machine before it is made: what is finished is loaded."""
        missing = self.backend.target.missing_here()
        if missing:
            target = self.options.target
            raise UsageError(
                f"the code for {target} does not run here: it needs {', '.join(missing)}",
                help="export a bundle for the other machine: export_bundle(folder, "
                f"target={target!r}), or afterglow compile MODEL -o FOLDER --target {target}",
            )

    def _tuned(self, module: Module) -> Stages:
        """The stages, told which algorithms were fastest if they are to be tried."""
        if self.options.tune is None:
            return self
        self._tell("tune")
        assert isinstance(self.backend, Tuning), "refused when the backend was found"
        policy = tuned_policy(
            self.backend, lambda policy: self.within(policy).plan(module)[0], self.options
        )
        return Stages(replace(self.options, policy=policy))

    def within(self, policy: Policy) -> Stages:
        """The same stages with another policy, and without telling of progress."""
        return Stages(replace(self.options, policy=policy, progress=None))

    def _instruments(self) -> Sequence[Instrument]:
        verify = (VerifyEach(),) if self.options.verify else ()
        return (*verify, *self.options.instruments)

    def _tell(self, stage: str) -> None:
        if self.options.progress is not None:
            self.options.progress(stage)


def _bodies(program: Program) -> Iterator[Program]:
    """The programs that ops of a program carry."""
    for step in program.body:
        if isinstance(step, OpInstr):
            yield from step.bodies


def _verify_plan(program: Program) -> None:
    """Check a planned program twice: by its rules, and by a checker that sees only its text."""
    # here, because it is only asked for while passes are written and tested
    from afterglow.memory.checker import check_plan  # noqa: PLC0415

    verify_program(program)
    findings = check_plan(print_program(program))
    if findings:
        raise VerifyError(
            f"the plan of @{program.name} is wrong", excerpt=[str(finding) for finding in findings]
        )


def first_plan(backend: Backend) -> PlanStep:
    """How a backend plans a step: by the first of its plans."""

    def plan(step: OpInstr | Stack, *, exact: bool = False) -> KernelPlan | None:
        try:
            return next(iter(backend.plans(step, exact=exact)), None)
        except UndecidedExtentError as error:
            error.where = error.where or f"in node {' and '.join(map(repr, origins_of(step)))}"
            raise

    return plan


def kernels_of(backend: Backend) -> HasKernel:
    """Whether a backend computes a node as it is; it is lowered otherwise, if it can be."""
    known: dict[object, bool] = {}

    def has_kernel(node: Node) -> bool:
        key = node.op, *((v.type, type(v)) for v in node.operands if v is not None)
        if key not in known:
            plan = first_plan(backend)(step_of(node))
            known[key] = plan is not None and plan.algorithm != ON_HOST
        return known[key]

    return has_kernel


def _warn_of_own(left: Sequence[Node]) -> None:
    """Tell users which ops of their own the host runs."""
    for name in filter(tell_once, {node.op.mnemonic: None for node in left if node.op.own}):
        warn(f"{name} has no lowering and no kernel: the host runs it, by its definition in NumPy")


def find_backend(options: Options) -> Backend:
    """The backend that options ask for, which can do what they ask."""
    if options.devices:
        raise UsageError(
            f"this is for one backend, got {', '.join(each.name for each in options.devices)}",
            help="name one backend: each device plans its own part of a model",
        )
    kernels = None if options.cache is None else CompileCache(options.cache).kernels
    settings = Settings(options.target, options.policy, options.threads, kernels)
    backend = backend_factory(options.backend)(settings)
    if options.tune is not None and not (is_duration(options.tune) and isinstance(backend, Tuning)):
        raise UsageError(
            f"cannot tune for {options.tune} s on backend {options.backend!r}",
            help="give seconds above 0, and the default backend",
        )
    check_precision(options, backend)
    return backend
