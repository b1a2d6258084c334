"""Changes every value of every JSON and TOML file in turn, and puts something else in place of every file.

    python -m tests.campaign.hostile_input.every_value [READER ...]

The campaign draws such changes at random and finds rare defects late; this finds all of one kind, in
one to two hours on one core. It prints each problem with the command, and returns 1 if there are any.
"""

import os
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.campaign.commands import command_text, import_all
from tests.campaign.examples import build_examples
from tests.campaign.hostile_input.checksums import STATE
from tests.campaign.hostile_input.derived_examples import build_derived_examples
from tests.campaign.hostile_input.formats import JSON, TOML
from tests.campaign.hostile_input.oracle import PATIENT_LIMITS, problem_kind
from tests.campaign.hostile_input.reader import Reader
from tests.campaign.hostile_input.readers import READERS
from tests.campaign.hostile_input.special_files import SPECIAL_FILES
from tests.campaign.hostile_input.trials import Trial, arguments_of, copy_examples, run_trial, write_file

_REMOVED = object()
_REPLACEMENTS: tuple[Any, ...] = (
    _REMOVED, None, [], {}, "x", "\0", -1, [None], 10**12, 10**400, 0.5, 1e308,
)  # fmt: skip
_MAX_CHILDREN, _MAX_DEPTH = 6, 6  # of a list or an object with more children, the first ones are changed
_MAX_OBJECT_KEYS = 24

Keys = tuple[Any, ...]


def value_keys(tree: Any, parents: Keys = ()) -> Iterator[Keys]:
    """Yield the keys that lead to each value of a tree; of long lists and objects, only to the first ones."""
    if isinstance(tree, dict):
        children = list(tree)[: len(tree) if len(tree) <= _MAX_OBJECT_KEYS else _MAX_CHILDREN]
    elif isinstance(tree, list):
        children = list(range(min(len(tree), _MAX_CHILDREN)))
    else:
        return
    for key in children:
        yield (*parents, key)
        if len(parents) < _MAX_DEPTH:
            yield from value_keys(tree[key], (*parents, key))


def with_value(tree: Any, keys: Keys, value: Any) -> Any:
    """Return a copy of a tree with another value, or without it."""
    key, *rest = keys
    copy = tree.copy()
    if rest:
        copy[key] = with_value(tree[key], tuple(rest), value)
    elif value is _REMOVED:
        del copy[key]
    else:
        copy[key] = value
    return copy


def _changed_files(reader: Reader, valid: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield a description and the content of each change of a file."""
    if reader.file_format not in (JSON, TOML, STATE):
        return
    tree = reader.file_format.parse(valid)
    for keys in value_keys(tree):
        for value in _REPLACEMENTS:
            description = f"{keys} {'removed' if value is _REMOVED else f'= {value!r}'}"
            try:
                yield description, reader.file_format.write(with_value(tree, keys, value), random.Random(0))
            except (TypeError, ValueError):  # TOML has no null
                continue


class _Search:
    """Runs the trials and prints the first of each kind of problem."""

    def __init__(self, work: Path):
        self.num_trials = 0
        self.num_problems = 0
        self._sources, self._folder = [work / "derived", work / "examples"], work / "trial"
        self._found: set[tuple[str, str]] = set()

    def run(self, name: str) -> None:
        """Run all trials of a reader."""
        reader = READERS[name]
        copy_examples(reader, self._sources, self._folder)
        file = reader.path(self._folder)
        for number, (description, content) in enumerate(_changed_files(reader, file.read_bytes())):
            copy_examples(reader, self._sources, self._folder)
            write_file(reader, content, self._folder)
            self._try(name, reader.commands[number % len(reader.commands)], "", description)
        for command in reader.commands:
            for special, make in SPECIAL_FILES.items():
                if special != reader.accepted_special:
                    copy_examples(reader, self._sources, self._folder)
                    file.unlink()
                    make(file)
                    self._try(name, command, special, special)

    def _try(self, name: str, command: str, special: str, description: str) -> None:
        trial = Trial(name, command, seeds=(), special=special, is_quiet=False, is_process=False)
        arguments = arguments_of(trial, self._folder)
        problem = run_trial(trial, self._folder, PATIENT_LIMITS)
        self.num_trials += 1
        if problem is not None and (name, problem_kind(problem)) not in self._found:
            self._found.add((name, problem_kind(problem)))
            self.num_problems += 1
            print(f"FOUND {name}: {description}: {problem}\n  {command_text(arguments, Path())}", flush=True)


def main() -> int:
    """Run all trials of the readers of the command line, or of all readers."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import_all()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        build_examples(work / "examples")
        build_derived_examples(work / "examples", work / "derived")
        search = _Search(work)
        for name in sys.argv[1:] or [name for name, reader in READERS.items() if reader.commands]:
            search.run(name)
            print(f"{search.num_trials:8,} trials, {search.num_problems} problems, up to {name}", flush=True)
    return 1 if search.num_problems else 0


if __name__ == "__main__":
    sys.exit(main())
