"""`afterglow help`: show the help of the command or of a subcommand."""

from __future__ import annotations

import click


@click.command("help")
@click.argument("verb", required=False)
@click.pass_context
def help_command(context: click.Context, verb: str | None) -> int:
    """Show the help of the command, or of VERB with its options.

    \b
    Examples:
      afterglow help compile
    """  # noqa: D301  click keeps lines after its mark as they are
    above = context.parent
    assert above is not None
    if verb is None:
        click.echo(above.get_help())
        return 0
    group = above.command
    assert isinstance(group, click.Group)
    name, command, _ = group.resolve_command(above, [verb])
    assert command is not None
    with click.Context(command, info_name=name, parent=above, **command.context_settings) as inner:
        click.echo(command.get_help(inner))
    return 0
