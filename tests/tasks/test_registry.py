"""Tests of the registry, and that a task type needs only one file and one registry entry."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import albertine
from albertine.deploy.model_loading import load_served_model
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.tasks import registry
from albertine.tasks.card import TaskCard
from albertine.tasks.registry import TASK_NAMES, TASK_TYPES, TASKS, find_task
from albertine.tasks.settings import DataSettings
from albertine.tasks.task import Task
from albertine.tasks.types.classification import Classification
from tests.task_fixtures import save_untrained_model

PACKAGE = Path(albertine.__file__).parent
ALLOWED_PATHS = (
    *("tasks/types/", "tasks/registry.py"),
    # These name kinds of heads, some of which have the same names as task types.
    *("model/", "interop/", "settings/", "bench/peer_finetuning.py"),
    # "choice" is a key in the JSON of DREAM, and "tag" a term of grammar.
    *("tasks/formats/race.py", "world/"),
)


def type_name_uses(file: Path) -> Iterator[str]:
    """Yield the places where a file distinguishes task types by name."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        constants: list[ast.expr | None] = []
        if isinstance(node, ast.Compare):
            for operand in (node.left, *node.comparators):
                if isinstance(operand, ast.Tuple | ast.List | ast.Set):
                    constants += operand.elts
                else:
                    constants.append(operand)
        elif isinstance(node, ast.MatchValue):
            constants = [node.value]
        elif isinstance(node, ast.Dict):
            constants = list(node.keys)
        elif isinstance(node, ast.Subscript):
            constants = [node.slice]
        for constant in constants:
            if isinstance(constant, ast.Constant) and str(constant.value) in TASK_TYPES:
                yield f"{file.relative_to(PACKAGE)}:{constant.lineno}: {constant.value!s}"


def test_no_other_module_distinguishes_task_types() -> None:
    files = [
        file
        for file in sorted(PACKAGE.rglob("*.py"))
        if not str(file.relative_to(PACKAGE)).startswith(ALLOWED_PATHS)
    ]
    assert len(files) > 150
    assert [use for file in files for use in type_name_uses(file)] == []


def test_help_of_task_lists_all_tasks() -> None:
    help_text = DataSettings.__dataclass_fields__["task"].metadata["doc"]
    assert [name for name in TASK_NAMES if name not in help_text] == []


def test_names_and_aliases() -> None:
    assert list(TASK_NAMES) == [
        *("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli"),
        *(
            "squad-1.1",
            "squad-2.0",
            "race",
            "dream",
            "classify",
            "multi-label",
            "regress",
            "tag",
            "span",
            "choice",
        ),
    ]
    for alias, name in (
        ("SST2", "sst-2"),
        ("squad_v2.0", "squad-2.0"),
        ("mnli-m", "mnli"),
        ("stsb", "sts-b"),
    ):
        assert find_task(alias).name == name
    assert all(find_task(alias) is task for task in TASKS.values() for alias in task.aliases)


class Sentiment(Classification):
    """A task type that is not in the registry."""

    name = "sentiment"


def test_new_task_type_needs_one_registry_entry(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # TASKS is derived from TASK_TYPES at import, so the test patches both.
    monkeypatch.setitem(registry.TASK_TYPES, "sentiment", Sentiment)
    monkeypatch.setitem(registry.TASKS, "sentiment", Task("sentiment", Sentiment))
    card = TaskCard("sentiment", "sentiment", ("good", "bad"), ("accuracy",), max_length=64)
    folder = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify"), card)
    pipeline = albertine.pipeline(folder, device="cpu")
    assert pipeline("ka lo")["label"] in ("good", "bad")
    (endpoint,) = load_served_model(str(folder), EngineOptions("cpu", "fp32")).endpoints.values()
    assert (endpoint.type_name, endpoint.fields[0].name) == ("sentiment", "text")
