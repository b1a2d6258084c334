"""The command line: one thin function per command, which parses options and calls another package.

The first sentence of a docstring is the command's line in `albertine --help`; each docstring
ends with an example. Heavy modules are imported inside the functions, which keeps
`albertine --help` fast.
"""

import inspect
import re
from importlib import import_module

from cyclopts import App

from albertine.cli.application import app

__all__ = ["app"]

# In a paragraph of a docstring, or in the description of an argument, whose further lines are indented twice.
_LINE_END = re.compile(r"(?<=\S)\n(?: {8})?(?=\S)")


def _unwrap_docstrings(commands: App) -> None:
    """Put each paragraph of the docstrings on one line: the help would break where their lines end."""
    for name in commands:
        if not name.startswith("-"):
            function = commands[name].default_command
            if function is not None:
                function.__doc__ = _LINE_END.sub(" ", inspect.cleandoc(function.__doc__ or ""))
            _unwrap_docstrings(commands[name])


for _name in (
    "models",
    "texts",
    "pretraining",
    "tasks",
    "worlds",
    "benchmarks",
    "studies",
):  # messages have this order
    import_module(f"albertine.cli.{_name}")  # adds its commands
for _name in [name for name in app if not name.startswith("-")]:
    app[_name].help_epilogue = ""  # commands would inherit the examples of the app
_unwrap_docstrings(app)
