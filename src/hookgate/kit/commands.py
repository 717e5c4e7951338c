"""What a plugin's commands are made with.

A plugin brings commands in a module that loads nothing of the plugin: ``NAME/commands.py``
of a builtin plugin, with a table ``COMMANDS`` from words to a typer app or a function; an
entry point in the group ``hookgate.commands`` of a third party's package, whose name is the
word. So `hookgate --help` shows them without a plugin, settings or a gateway::

    import typer

    from hookgate.kit.commands import JsonOption, state_of


    def lately(ctx: typer.Context, as_json: JsonOption = False) -> None:
        '''Say which sessions there are.'''
        state = state_of(ctx)
        state.show(state.ask("sessions.list"))

`state_of` gives the run of the command line: ``ask`` an operation of the gateway, ``show`` a
result as a table or as JSON, ``settings`` as they are set.
"""

from __future__ import annotations

from hookgate.cli.group import CommandGroup
from hookgate.cli.operation_commands import View, read_export
from hookgate.cli.plugin_commands import checks
from hookgate.cli.state import JsonOption, State, state_of

__all__ = [
    "CommandGroup",
    "JsonOption",
    "State",
    "View",
    "checks",
    "read_export",
    "state_of",
]
