"""`Trainer`, the public entry point of training: a model, a loss and an optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from afterglow.driver.api import compile as compile_model
from afterglow.driver.environment import cache_folder, max_memory_by_default, verify_by_default
from afterglow.driver.export import export_onnx
from afterglow.driver.options import Options, checkpoint_of
from afterglow.driver.placed import placed_on
from afterglow.graph import Module
from afterglow.optim import Optimizer, rate_at
from afterglow.optim.optimizers import named
from afterglow.runtime import CompiledModel
from afterglow.runtime.bundle import Bundle, BundleRequest, bundle_folder, is_small
from afterglow.runtime.logical_device import Devices
from afterglow.support.errors import UsageError
from afterglow.support.output_path import writing
from afterglow.support.patterns import fits
from afterglow.support.sizes import as_size
from afterglow.training.checkpoint import Checkpoint, Checkpoints
from afterglow.training.cost import TrainingMemory
from afterglow.training.data import Batches, batches_of, split_off
from afterglow.training.early_stopping import EarlyStopping
from afterglow.training.history import History
from afterglow.training.lora import A, B, LoRA
from afterglow.training.losses import LossLike, loss_of
from afterglow.training.metrics import Means, MetricLike, metrics_of
from afterglow.training.mode import running_means
from afterglow.training.model_source import AdaptedSource, ModelSource, model_source
from afterglow.training.programs import Programs
from afterglow.training.progress import RunDisplay
from afterglow.training.run import Callback, Place, Run, alone, measure, restore
from afterglow.training.step import Recipe
from afterglow.types import Array
from afterglow.types.extent import dims_of

_TRAINED_PRECISIONS = ("float32", "bfloat16", "float16")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class Trainer:
    """Trains a model: compiles its training step, and runs it on data.

    Args:
        source: the model: a `Module`, a function that builds one for a number of samples, or what
            `compile` takes, such as the path of an ONNX file. The first axis of its inputs and
            outputs is that of the batch.
        loss: what is made small: a name such as "cross_entropy" or "mse", a loss with options, or
            a function (builder, outputs, targets) -> value.
        optimizer: how weights follow their gradients: one of `afterglow.optim`, or its name.
        trainable: names of the weights that train, as patterns with stars; by default all of
            them. The rest stays as it is, also the running statistics of batch norms.
        metrics: what is measured of outputs besides the loss: names such as "accuracy", or
            functions (outputs, targets) -> number.
        dims: extents of dynamic dimensions by name, but that of the batch.
        backend: what runs it, as for `compile`.
        threads: number of threads; by default all cores that this process may use. The weights
            do not depend on it.
        precision: "float32"; "bfloat16" or "float16" to compute with floats of 16 bits where range
            and precision allow it: weights stay in f32, and for "float16" the loss is scaled.
        clip_norm: the most that the norm of all gradients together may be.
        clip_value: the most that an element of a gradient may be, up or down.
        lora: which weights get low-rank factors, which alone train then, besides what `trainable`
            names.
        max_arena: limit for intermediate results, in bytes or as text such as "256MiB"; a step then
            computes values again instead of keeping them.
        recompute: what is computed again in the backward pass to need less memory, as `checkpoint`
            of `compile`: "auto" for the least, or a number of segments that keep their ends.
        accumulate: into how many parts a batch is split, which are learnt from one after the other
            and take less memory; a batch norm then sees one part at a time.
        seed: decides the order of samples, and what dropouts drop.
    """

    def __init__(
        self,
        source: Any,
        loss: LossLike = "cross_entropy",
        optimizer: Optimizer | str | None = None,
        *,
        trainable: str | Sequence[str] | None = None,
        metrics: MetricLike | Sequence[MetricLike] = (),
        dims: Mapping[str, int] | None = None,
        backend: Devices = "cpu",
        threads: int | None = None,
        precision: str = "float32",
        clip_norm: float | None = None,
        clip_value: float | None = None,
        lora: LoRA | None = None,
        max_arena: int | str | None = None,
        recompute: int | str | Sequence[str] | None = None,
        accumulate: int = 1,
        seed: int = 0,
    ) -> None:
        self._metrics = metrics_of(metrics)
        self._optimizer = _checked_optimizer(optimizer)
        self._seed = _checked_seed(seed)
        patterns = _patterns(trainable, lora)
        own = model_source(source, dims)
        self._source: ModelSource = own if lora is None else AdaptedSource(own, lora)
        frozen = _frozen_norms(self._source.module(self._source.batch), patterns)
        recipe = Recipe(
            loss_of(loss),
            self._optimizer,
            patterns,
            frozen,
            scale_loss=precision == "float16",
            seed=seed,
            clip_value=clip_value,
            clip_norm=clip_norm,
        )
        options = Options(
            **placed_on(backend, "host", threads, None),
            max_arena=None if max_arena is None else as_size(max_arena),
            checkpoint=checkpoint_of(recompute, "recompute"),
            precision=_checked_precision(precision),
            max_memory=max_memory_by_default(),
            cache=cache_folder(True),
            verify=verify_by_default(),
        )
        self._programs = Programs(
            self._source,
            recipe,
            options,
            outputs=bool(self._metrics),
            accumulate=_checked_parts(accumulate),
        )
        self._epoch, self._steps = 1, 0
        self._settings = {
            **_described(recipe),
            "precision": precision,
            "accumulate": accumulate,
        }

    def step(self, inputs: Any, targets: Any) -> float:
        """Learn from one batch; the loss before that."""
        batch = self._programs.fields.arrays((inputs, targets))
        loss = self._programs.train(batch, rate_at(self._optimizer, self._steps)).loss
        self._steps += 1
        return loss

    def fit(
        self,
        data: Any,
        epochs: int = 1,
        *,
        batch: int | None = None,
        validation: Any = None,
        shuffle: bool = True,
        drop_last: bool = False,
        early_stopping: EarlyStopping | int | None = None,
        checkpoint: Checkpoints | str | Path | None = None,
        resume: bool = True,
        progress: bool = True,
        callbacks: Sequence[Callback] = (),
    ) -> History:
        """Learn from data for some epochs; Ctrl-C ends the run after its current step.

        Args:
            data: a pair of arrays (inputs, targets), or a dictionary of arrays, with a row for each
                sample; or batches of such: a list, an iterable, or a function of the number of the
                epoch.
            epochs: how often all of the data is learnt from, of a resumed run all in all.
            batch: how many samples a step learns from, if data are arrays; by default as many as
                the model is built for, or 32.
            validation: data that is not learnt from, on which the model is measured each epoch; or
                the share of arrays, such as 0.1, that is left for that.
            shuffle: whether arrays are in another order each epoch.
            drop_last: whether samples that do not fill a batch are left out of an epoch.
            early_stopping: how many epochs may bring nothing better, or an `EarlyStopping`.
            checkpoint: a folder that the run is saved in after each epoch, or `Checkpoints`.
            resume: whether to go on from the newest checkpoint in the folder, if there is one.
            progress: whether to show a bar on terminals, and a line for each epoch.
            callbacks: functions that are called with each finished epoch; True ends the run.
        """
        size = self._batch_size(batch)
        if isinstance(validation, float):
            data, validation = split_off(data, self._programs.fields, validation, self._seed)
        batches = self._batches(data, size, shuffle=shuffle, drop_last=drop_last)
        run = Run(
            self._programs,
            self._optimizer,
            batches,
            self._metrics,
            _checked_epochs(epochs),
            Place(self._epoch, Means(self._metrics)),
            RunDisplay(epochs, batches.steps, shown=progress),
            self._settings,
            self._steps,
            None if validation is None else self._batches(validation, size),
            EarlyStopping.of(early_stopping),
            None if checkpoint is None else Checkpoints.of(checkpoint),
            _checked_callbacks(callbacks),
        )
        self._begin(run, resume=resume)
        try:
            return run.run()
        finally:
            self._epoch, self._steps = run.place.epoch, run.step

    def _begin(self, run: Run, *, resume: bool) -> None:
        """Go on from a checkpoint, if there is one."""
        if run.checkpoints is None:
            return
        if not resume and run.checkpoints.files():
            raise UsageError(
                f"{run.checkpoints.folder} has checkpoints of another run",
                help="resume=True goes on from them; give another folder for a new run",
            )
        newest = run.checkpoints.newest()
        if newest is not None:
            run.resume(newest)

    def evaluate(self, data: Any, *, batch: int | None = None) -> dict[str, float]:
        """The loss and the metrics of data, as the model infers."""
        batches = self._batches(data, self._batch_size(batch))
        means = measure(self._programs, batches, self._metrics)
        return {"loss": means.loss, **means.values}

    def predict(self, inputs: Any, *, batch: int | None = None) -> Any:
        """The outputs for any number of samples: an array, or a tuple of several."""
        arrays = self._programs.fields.input_arrays(inputs)
        parts = [*self._inferred(arrays, self._batch_size(batch))]
        return alone(tuple(np.concatenate(each) for each in zip(*parts, strict=True)))

    def _inferred(self, arrays: Mapping[str, Array], size: int) -> Iterator[tuple[Array, ...]]:
        rows = len(next(iter(arrays.values())))
        for start in range(0, rows, size):
            yield self._programs.infer({n: a[start : start + size] for n, a in arrays.items()})

    @property
    def parameters(self) -> dict[str, Array]:
        """Copies of the weights that train, and of running statistics, by name."""
        return self._programs.weights()

    @property
    def steps(self) -> int:
        """How many steps were done."""
        return self._steps

    def memory(self, batch: int | None = None) -> TrainingMemory:
        """Bytes that a step takes that learns from so many samples, beside inference of them."""
        return self._programs.memory_of(self._batch_size(batch))

    def module(self, batch: int | None = None) -> Module:
        """The model that infers, with the weights as they are now as constants.

        Without a size of the batch it is for any, if the model that was given is.
        """
        size = None if batch is None else self._batch_size(batch)
        return self._source.trained(size, self.parameters)

    def compile(self, batch: int | None = None, **options: Any) -> CompiledModel:
        """The model that infers, compiled with the weights as they are now; see `compile`."""
        return compile_model(self.module(batch), **options)

    def export(self, path: str | Path, batch: int | None = None) -> None:
        """Write the model that infers as an ONNX file, with the weights as they are now."""
        module = self.module(batch)
        extents = (extent for value in module.main.inputs for extent in value.type.shape)
        dims = {dim.name: (dim.low, dim.high) for dim in dims_of(*extents)}
        export_onnx(module, path, dims=dims)

    def export_bundle(
        self,
        folder: str | Path,
        *,
        batch: int | None = None,
        infer_batch: int = 1,
        target: str = "host",
        name: str = "model",
        embed_weights: bool = False,
        freestanding: bool = False,
        optimize_for: str = "speed",
        shared: bool = False,
        force: bool = False,
    ) -> Bundle:
        """Write C files that go on learning on another machine: see docs/training.md.

        The bundle has three entries that share their state, memory of the caller: `NAME_init`
        fills it with the weights as they are now, `NAME_train_step` learns from a batch, and
        `NAME_infer` computes outputs for `infer_batch` samples. Other arguments are those of
        `CompiledModel.export_bundle`.
        """
        path = bundle_folder(folder)
        small = is_small(optimize_for)
        request = BundleRequest(target, name, embed_weights, freestanding, small, force=force)
        sizes = self._batch_size(batch), self._batch_size(infer_batch)
        with writing(path):
            return self._programs.export_bundle(path, request, sizes, shared=shared)

    def save(self, path: str | Path) -> None:
        """Save weights, the optimizer's states and the number of steps as one file."""
        programs = self._programs
        checkpoint = Checkpoint(self._steps, programs.weights(), programs.slots())
        checkpoint.save(path)

    def load(self, path: str | Path) -> None:
        """Go on from a file that `save` wrote, or from a checkpoint of a run."""
        checkpoint = Checkpoint.load(path)
        restore(self._programs, checkpoint)
        self._steps = checkpoint.step

    def _batch_size(self, given: int | None) -> int:
        if given is None:
            return self._source.batch
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise UsageError(f"a batch has at least one sample, got batch={given!r}")
        return given

    def _batches(
        self, data: Any, size: int, *, shuffle: bool = False, drop_last: bool = False
    ) -> Batches:
        fields = self._programs.fields
        return batches_of(data, fields, size, shuffle=shuffle, seed=self._seed, drop_last=drop_last)


def _frozen_norms(module: Module, patterns: Sequence[str]) -> tuple[str, ...]:
    """The running means that no pattern matches: those of batch norms that stay as they are."""
    means = running_means(module.main)
    return tuple(m for m in means if not any(fits(m, pattern) for pattern in patterns))


def _patterns(trainable: str | Sequence[str] | None, lora: LoRA | None) -> tuple[str, ...]:
    """The patterns of what trains: without a word about it all, or the factors alone."""
    if trainable is not None and (not trainable or not _are_texts(trainable)):
        raise UsageError(
            f"trainable must name weights that train, got {trainable!r}",
            help='give patterns with stars, such as ["*bias"], or leave it out to train all',
        )
    if lora is not None and not isinstance(lora, LoRA):
        raise UsageError(
            f"lora says which weights get factors, got {lora!r}",
            help='write lora=ag.LoRA("*", rank=8)',
        )
    given = (trainable,) if isinstance(trainable, str) else tuple(trainable or ())
    return given or ("*",) if lora is None else (f"*{A}", f"*{B}", *given)


def _are_texts(given: Any) -> bool:
    return isinstance(given, Iterable) and all(isinstance(each, str) for each in given)


def _checked_seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"seed must be a whole number from 0 on, got {seed!r}")
    return seed


def _checked_callbacks(callbacks: Sequence[Callback]) -> Sequence[Callback]:
    if not isinstance(callbacks, Sequence) or not all(map(callable, callbacks)):
        raise UsageError(
            f"callbacks must be a list of functions, got {callbacks!r}",
            help="write callbacks=[function]: it is called with each finished epoch",
        )
    return callbacks


def _checked_precision(precision: str) -> str:
    if precision not in _TRAINED_PRECISIONS:
        raise UsageError(
            f"a model cannot be trained in {precision!r}",
            help=f"use {', '.join(map(repr, _TRAINED_PRECISIONS))}",
        )
    return precision


def _checked_epochs(epochs: int) -> int:
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 0:
        raise UsageError(f"epochs must be a number from 0 on, got {epochs!r}")
    return epochs


def _checked_parts(parts: int) -> int:
    if isinstance(parts, bool) or not isinstance(parts, int) or parts < 1:
        raise UsageError(f"accumulate must be a number of parts from 1 on, got {parts!r}")
    return parts


def _checked_optimizer(given: Optimizer | str | None) -> Optimizer:
    if isinstance(given, str):
        return named(given)
    if not isinstance(given, Optimizer) or isinstance(given, type):
        raise UsageError(
            f"an optimizer is needed, got {given!r}",
            help="write optimizer=ag.optim.SGD(lr=0.05, momentum=0.9), or ag.optim.AdamW()",
        )
    return given


def _described(recipe: Recipe) -> dict[str, str]:
    """Texts that are the same for the same settings, in every process."""
    return {name: _ADDRESS.sub("", repr(value)) for name, value in vars(recipe).items()}
