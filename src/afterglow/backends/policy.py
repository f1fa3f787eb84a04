"""User constraints on the choice of algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Policy:
    """Constraints that whoever compiles a model puts on the choice between algorithms."""

    exact: bool = False
    """Whether sums are formed as they are defined: no algorithm that saves multiplications."""
    small_weights: bool = False
    """Whether weights may take no more memory than they do in the model."""
    most_weights: float | None = 1.5
    """How many times the memory of its weights a program may take for them; None for any."""
    least_workspace: bool = False
    """Whether kernels that need little memory are preferred to fast ones."""
    unchecked: bool = False
    """Whether an index out of range becomes the nearest that is not, rather than an error."""
    variants: Mapping[str, str] = field(default_factory=dict)
    """The variants of algorithms to take, whatever their estimates, by the keys of kernels."""

    def for_job(self, *, is_exact: bool) -> Policy:
        """The policy for one job, whose sums may have to be formed as they are defined."""
        return replace(self, exact=True) if is_exact and not self.exact else self


DEFAULT = Policy()
