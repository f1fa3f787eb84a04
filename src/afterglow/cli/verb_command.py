"""How the help of a subcommand lists its options: under headings."""

from __future__ import annotations

import click

_HEADINGS = {
    "Model": ("ops", "shapes", "dims", "values", "inputs", "seed", "state"),
    "Devices": (
        *("backend", "devices", "place", "objective", "split_batch", "target", "threads"),
        *("max_arena", "max_memory", "optimize_for", "exact", "unchecked", "tune"),
    ),
    "Precision": (
        *("precision", "profile", "calibration", "scheme", "keep_float", "allow_op", "int16"),
        *("round_weights", "size", "mean", "std", "activations", "cache_type", "integer_only"),
        "quantized_io",
    ),
    "Debugging": ("no_cache", "no_optimize", "verify_each", "debug", "json"),
}
"""The options that several subcommands share, by their heading in the help."""


class VerbCommand(click.Command):
    """A subcommand whose help groups the options that many share."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options of its own, then those that it shares with others."""
        heading_of = {name: title for title, names in _HEADINGS.items() for name in names}
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        groups |= {title: [] for title in _HEADINGS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                groups[heading_of.get(parameter.name or "", "Options")].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
