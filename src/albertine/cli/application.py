"""The application of the command line: its help, the groups of its commands, and what they share."""

from collections.abc import Iterable
from typing import Annotated

from cyclopts import App, Group, Parameter

import albertine
from albertine.command import STANDARD_INPUT
from albertine.errors import InputError
from albertine.executors.cluster import ClusterName

MODELS = Group("Models", sort_key=1)
TEXTS = Group("Text and corpora", sort_key=2)
PRETRAINING = Group("Pre-training", sort_key=3)
TASKS = Group("Tasks", sort_key=4)
CHECKPOINTS = Group("Checkpoints", sort_key=5)
BENCHMARKS = Group("Benchmarks and studies", sort_key=6)
WORLDS = Group("Synthetic data", sort_key=7)
SETUP = Group("Setup", sort_key=8)

JsonFlag = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        help="Print the result as JSON, with stable keys.",
    ),
]

ClusterOption = Annotated[
    ClusterName | None,
    Parameter(
        help="Run the jobs on a cluster: ray joins the running one, or starts one on this machine. The "
        "result is the same.",
    ),
]

app = App(
    name="albertine",
    help_format="plaintext",  # importing a Markdown renderer takes longer than printing the help
    help="ALBERT from raw text to a served model.",
    version=albertine.__version__,
    help_epilogue="Help for one command: albertine COMMAND --help",
)

app["--help"].group = SETUP
app["--version"].group = SETUP
app.register_install_completion_command(group=SETUP, help="Install tab completion for the current shell.")


def check_texts(texts: Iterable[str]) -> None:
    """Raise `InputError` for a lone dash in place of a text: elsewhere, it is standard input."""
    if STANDARD_INPUT in texts:
        raise InputError("TEXT -: standard input is not read here; give the text itself")


def report_unfinished_runs(*sources: str) -> None:
    """Print a message for each source that is a run which has not taken all its steps."""
    from albertine import progress
    from albertine.interop.hub import local_model
    from albertine.train.run_folder import unfinished_run_message

    for source in sources:
        if message := unfinished_run_message(local_model(source), source):
            progress.print_message(message)
