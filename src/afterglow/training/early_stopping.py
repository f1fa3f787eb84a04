"""Early stopping: a run ends when a number has not become better for a while."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

from afterglow.support.checks import check_number
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.training.history import Epoch
from afterglow.training.metrics import less_is_better


@dataclass(frozen=True)
class EarlyStopping:
    """When to stop before the last epoch, and with which weights.

    Args:
        patience: how many epochs in a row may bring nothing better.
        monitor: the number to watch, by its name in the history: "val_loss", "val_accuracy", …;
            empty for the loss of validation, or of training without validation.
        min_delta: by how much a number must be better to count.
        restore_best: whether the weights are those of the best epoch in the end.
        mode: "min" or "max" for what is better; "auto" knows that losses and errors should fall.
    """

    patience: int = 5
    monitor: str = ""
    min_delta: float = 0.0
    restore_best: bool = True
    mode: str = "auto"

    def __post_init__(self) -> None:
        whole = isinstance(self.patience, int) and not isinstance(self.patience, bool)
        if not whole or self.patience < 1:
            raise UsageError(f"patience is a number of epochs from 1 on, got {self.patience!r}")
        check_number("EarlyStopping", "min_delta", self.min_delta)
        if self.mode not in ("auto", "min", "max"):
            raise UsageError(
                f"no mode {self.mode!r} of early stopping", help='use "min", "max" or "auto"'
            )

    @staticmethod
    def of(given: EarlyStopping | int | None) -> EarlyStopping | None:
        """What a user means: a rule, a number of epochs, or none."""
        if given is None or isinstance(given, EarlyStopping):
            return given
        return EarlyStopping(given)


@dataclass
class Watch:
    """The best epoch so far, and how many came after it."""

    rule: EarlyStopping
    best: float = math.nan
    epoch: int = 0
    """The number of the best epoch; 0 if there was none."""
    waited: int = field(default=0)

    @property
    def is_over(self) -> bool:
        """Whether nothing better is to be waited for."""
        return self.waited >= self.rule.patience

    def see(self, epoch: Epoch) -> bool:
        """Whether an epoch is the best so far."""
        value = self._monitored(epoch)
        if self._is_better(value):
            self.best, self.epoch, self.waited = value, epoch.epoch, 0
            return True
        self.waited += 1
        return False

    def name(self, epoch: Epoch) -> str:
        """The number that is watched."""
        return self.rule.monitor or ("loss" if epoch.val_loss is None else "val_loss")

    def _monitored(self, epoch: Epoch) -> float:
        name = self.name(epoch)
        if name not in epoch.numbers:
            raise UsageError(
                f"there is no {name!r} to watch for early stopping",
                help=f"an epoch has {', '.join(epoch.numbers)}",
            )
        return epoch.numbers[name] * (1 if self._falls(name) else -1)

    def _falls(self, name: str) -> bool:
        return self.rule.mode == "min" or (self.rule.mode == "auto" and less_is_better(name))

    def _is_better(self, value: float) -> bool:
        return not math.isnan(value) and not value >= self.best - self.rule.min_delta

    def data(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        return {"best": self.best, "epoch": self.epoch, "waited": self.waited}
