"""The command line: one thin function per command, which parses options and calls another package.

The first sentence of a docstring is the command's line in `albertine --help`; each docstring
ends with an example. Heavy modules are imported inside the functions, which keeps
`albertine --help` fast.
"""

from importlib import import_module

from albertine.cli.application import app

__all__ = ["app"]

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
