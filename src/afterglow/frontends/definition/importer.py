"""From an ONNX model to the graph IR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from afterglow.frontends.base import (
    RUN_NUMBER,
    BoundaryType,
    NeedsValuesError,
    Partition,
    wide_name,
)
from afterglow.frontends.definition.binding import Binding, bind_inputs
from afterglow.frontends.definition.context import (
    ComplexParts,
    Imported,
    KnownMap,
    RowList,
    RowMaps,
    StaticSequence,
)
from afterglow.frontends.definition.frame import Frame, Session
from afterglow.frontends.definition.graph import GraphImporter
from afterglow.frontends.definition.model import FunctionDef, ModelDef, NodeDef
from afterglow.frontends.definition.order import reads
from afterglow.frontends.definition.problems import Problem, ProblemsError, import_error
from afterglow.frontends.definition.progress import partition_nodes, progress_of
from afterglow.frontends.definition.scope import BrokenValueError
from afterglow.frontends.definition.signature import (
    Parameter,
    ParameterKind,
    Signature,
    model_signature,
)
from afterglow.graph import Builder, Function, Module, Placeholder, Value
from afterglow.ops.conversion import Cast
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import Array, DType, OutputForm, OutputKind, TensorType
from afterglow.types.dtype import f32, i64, string
from afterglow.types.output_form import element_name


class ModelImporter:
    """Imports one model; `unchecked`, an index out of range is the nearest that is not.

    With `data_lengths`, lengths that only data tell may be dimensions in the bodies of loops.
    """

    def __init__(
        self,
        model: ModelDef,
        binding: Binding,
        partition: Partition | None = None,
        *,
        unchecked: bool = False,
        data_lengths: bool = True,
    ) -> None:
        self.model = model
        self.binding = binding
        self.partition = partition
        self.unchecked = unchecked
        self.data_lengths = data_lengths
        signature = model_signature(model)
        self.signature = signature if partition is None else _signature_of(partition, signature)
        self.opsets = model.dialect.opsets(model)

    def run(self) -> tuple[Module, tuple[OutputForm, ...]]:
        """Import the main graph, or raise one error with every problem.

        An output that is a sequence of tensors becomes several, one that is nothing none at all:
        the forms say how what the main function returns is grouped again.
        """
        types = bind_inputs(self.signature.inputs, self.binding, self.model.warn)
        main = self.model.graph
        module = Module(main.name or "model")
        session = Session(self.model, module, model_functions(self.model))
        session.known.unchecked = self.unchecked
        session.max_memory = self.binding.max_memory
        session.data_lengths = self.data_lengths
        graph = GraphImporter(session, Function("main", module), Frame(self.opsets))
        if self.partition is not None and RUN_NUMBER in self.partition.given:
            session.given_run_number = partial(_run_number, graph.function)
        nodes = list(main.node) if self.partition is None else partition_nodes(main, self.partition)
        try:
            missing = self._add_inputs(graph, types, nodes)
            graph.add_constants(main, self._read_names(nodes))
            session.own_bytes = _own_bytes(graph.function)
            graph.add_nodes(nodes)
            outputs = list(self._outputs(graph))
            graph.results([])
        except ProblemsError as error:
            raise import_error(error.problems, self.model.dialect.advice(self.opsets)) from None
        except NeedsValuesError as error:
            if not missing:
                progress = progress_of(graph.scope, graph.stops)
                raise NeedsValuesError(error.inputs, progress=progress) from None
        if missing:
            raise NeedsValuesError(missing)
        session.count_runs(graph.function)
        forms = tuple(_add_output(graph.function, name, value) for name, value in outputs)
        _drop_unused(module, session.known.symbols)
        return module, forms

    def _read_names(self, nodes: Sequence[NodeDef]) -> frozenset[str] | None:
        """The names that matter to a part; None if it is the whole model, and all do."""
        if self.partition is None:
            return None
        outputs = (output.name for output in self.signature.outputs)
        return frozenset(outputs).union(*map(reads, nodes))

    def _add_inputs(
        self,
        graph: GraphImporter,
        types: Mapping[str, TensorType],
        nodes: Sequence[NodeDef],
    ) -> tuple[str, ...]:
        """Define the inputs; return those whose number of tensors is not known."""
        missing = []
        needed = self._read_names(nodes)
        for parameter in self.signature.inputs:
            name = parameter.name
            if needed is not None and name not in needed:
                continue
            if name in self.binding.values:
                value = input_constant(graph.function.module, parameter, self.binding.values[name])
                graph.scope.define(name, value)
            elif self.partition is not None and wide_name(name) in self.partition.given:
                graph.scope.define(name, _add_wide(graph, name, types))
            elif parameter.kind is ParameterKind.TENSOR:
                graph.scope.define(name, _add_input(graph, name, name, types[name]))
            elif self.partition is not None and name in self.partition.given:
                elements = self.partition.given[name]
                assert not isinstance(elements, TensorType)
                graph.scope.define(name, _add_elements(graph, name, elements))
            else:
                missing.append(name)
                graph.scope.spoil([name])
        return tuple(missing)

    def _outputs(self, graph: GraphImporter) -> Iterator[tuple[str, Imported | None]]:
        """The outputs that could be imported; what is wrong with the others is a problem."""
        if not self.signature.outputs:
            graph.problems.append(Problem(ModelError("the model has no outputs")))
        seen: set[str] = set()
        narrow = {wide_name(output.name): output for output in self.signature.outputs}
        for parameter in self.signature.outputs:
            try:
                if parameter.name in narrow:
                    value = _returned(graph, narrow[parameter.name])
                    assert isinstance(value, Value)
                    yield parameter.name, Builder(graph.function).emit(Cast(f32), value)
                    continue
                if parameter.name in seen:
                    raise ModelError(f"two outputs have the name {parameter.name!r}")
                seen.add(parameter.name)
                value = _returned(graph, parameter)
                if not self.binding.shapes:  # which may well be others than the declared ones
                    self._warn_of_shape(parameter, value)
                yield parameter.name, value
            except BrokenValueError:
                continue
            except AfterglowError as error:
                graph.problems.append(Problem(error))

    def _warn_of_shape(self, parameter: Parameter, value: Imported | None) -> None:
        """Say that a model declares a shape which is not so; what is computed counts."""
        if isinstance(value, Value) and not parameter.fits(value.type.shape):
            declared = f"output {parameter.name!r} is declared to be {parameter.type_text}"
            self.model.warn(f"{declared}, it is {value.type}")


def _signature_of(partition: Partition, model: Signature) -> Signature:
    """What a part takes and gives; what is given to it comes after the inputs of the model."""
    given = (_given_parameter(name, given) for name, given in partition.given.items())
    wanted = tuple(Parameter(name, ParameterKind.TENSOR) for name in partition.wanted)
    return Signature((*model.inputs, *given), wanted or model.outputs)


def _given_parameter(name: str, given: BoundaryType) -> Parameter:
    if given is None:
        return Parameter(name, ParameterKind.OPTIONAL)
    if isinstance(given, tuple):
        return Parameter(name, ParameterKind.SEQUENCE)
    return Parameter(name, ParameterKind.TENSOR, given.dtype, given.shape)


def _add_input(graph: GraphImporter, name: str, owner: str, type: TensorType) -> Placeholder:
    """An input of the main function; `owner` is what the model calls it, or what it is part of."""
    placeholder = graph.function.input(name, type)
    graph.known.input_names[placeholder] = owner
    return placeholder


def _add_wide(graph: GraphImporter, name: str, types: Mapping[str, TensorType]) -> Value:
    """A value that an earlier part computed in f32, rounded as the model has it."""
    wide = wide_name(name)
    placeholder = _add_input(graph, wide, name, types[wide])
    return Builder(graph.function, name=name).emit(Cast(types[name].dtype), placeholder)


def _add_elements(
    graph: GraphImporter, name: str, types: tuple[TensorType, ...] | None
) -> StaticSequence | None:
    """A sequence of which only the types are known, as an input for each element."""
    if types is None:
        return None
    named = (element_name(name, index) for index in range(len(types)))
    return StaticSequence(
        _add_input(graph, element, name, type) for element, type in zip(named, types, strict=True)
    )


def _own_bytes(function: Function) -> int:
    """Bytes of a model's constants and inputs, before there are nodes."""
    values = (*function.module.constants.values(), *function.inputs)
    return sum(value.type.nbytes for value in values)


def _run_number(function: Function) -> Placeholder:
    return function.input(RUN_NUMBER, TensorType(i64, ()))


def _returned(graph: GraphImporter, parameter: Parameter) -> Imported | None:
    """The value of an output, which is what the model declares if it declares anything."""
    try:
        value = graph.scope.look_up(parameter.name)
    except ModelError:
        raise ModelError(f"output {parameter.name!r} is produced by no node") from None
    if isinstance(value, KnownMap):
        raise UnsupportedError(f"output {parameter.name!r} is a map that the model is given")
    if isinstance(value, RowList):
        raise UnsupportedError(f"output {parameter.name!r} is a list that a loop appended to")
    if isinstance(value, ComplexParts):
        raise UnsupportedError(
            f"output {parameter.name!r} is complex, which is not supported",
            help="return its real and imaginary parts",
        )
    if parameter.dtype is None:
        return value
    if not isinstance(value, Value):
        raise ModelError(f"output {parameter.name!r} is declared to be a tensor, but is not one")
    if parameter.dtype is not value.type.dtype:
        raise ModelError(
            f"output {parameter.name!r} is declared to hold {parameter.dtype}, it is {value.type}"
        )
    return value


def _add_output(function: Function, name: str, value: Imported | None) -> OutputForm:
    """Return a value as so many tensors, and say which."""
    match value:
        case StaticSequence():
            for index, item in enumerate(value):
                function.output(f"{name}.{index}", item)
            return OutputForm(name, OutputKind.SEQUENCE, len(value))
        case RowMaps(keys, rows):
            function.output(name, rows)
            return OutputForm(name, OutputKind.MAPS, keys=keys)
        case Value():
            function.output(name, value)
            return OutputForm(name)
    return OutputForm(name, OutputKind.NOTHING, 0)


def input_constant(module: Module, parameter: Parameter, value: Any) -> Imported | None:
    """The value of an input that is bound: a tensor, a sequence of them, a map, or none."""
    if value is None and parameter.kind is ParameterKind.OPTIONAL:
        return None
    if parameter.kind is ParameterKind.MAP:
        return KnownMap(value)
    if isinstance(value, (list, tuple)) and parameter.kind is not ParameterKind.TENSOR:
        items = (module.constant(f"{parameter.name}.{i}", _array(x)) for i, x in enumerate(value))
        return StaticSequence(items)
    return module.constant(parameter.name, _array(value))


def _array(value: Any) -> Array:
    array = np.asarray(value)
    return array.astype(object) if DType.of(array.dtype) is string else array


def model_functions(model: ModelDef) -> dict[tuple[str, str, str], FunctionDef]:
    """The model's own functions by domain, name and overload."""
    functions = {}
    for function in model.functions:
        key = (function.domain, function.name, function.overload)
        if key in functions:
            name = model.dialect.qualified(function.domain, function.name)
            raise ModelError(f"the function {name} is defined twice")
        functions[key] = function
    return functions


def _drop_unused(module: Module, arithmetic: Iterable[Value]) -> None:
    """Forget what shape arithmetic left behind, and weights that no one reads."""
    returned = {value for f in module.functions.values() for value in f.escaping()}
    for value in reversed([*arithmetic]):
        node = value.producer
        if node is not None and node.function and not value.use_count and value not in returned:
            node.function.erase(node)
    for constant in [*module.constants.values()]:
        if not constant.use_count and constant not in returned:
            module.erase_constant(constant)
