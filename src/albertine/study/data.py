"""What the runs of a protocol share: the text, the tokenizer, the corpus, and the examples of tasks.

STORE/data/HASH/world/       stories and tasks (only of the little world)
STORE/data/HASH/test-world/  the same tasks about other stories (only for claims with a fine-tuning plan)
STORE/data/tasks/            copies of real tasks (only where the text is the user's); see `task_examples`
STORE/data/HASH/tokenizer/
STORE/data/HASH/corpus/
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from albertine.checksums import json_checksum
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import open_corpus
from albertine.corpus.manifest import MANIFEST_FILE, read_manifest
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.storage.urls import storage_url
from albertine.study.protocol import Protocol
from albertine.study.settings import StudySettings
from albertine.study.task_examples import (
    CopiedExamples,
    TaskExamples,
    WorldExamples,
    find_copies,
    layouts_text,
)
from albertine.study.tasks import STUDY_TASKS
from albertine.text.find_sources import find_sources
from albertine.text.settings import TokenizerSettings
from albertine.text.sources import Source
from albertine.text.tokenizer_training import build_tokenizer
from albertine.world.settings import WorldSettings
from albertine.world.stories import WORLD_VERSION
from albertine.world.write import write_world

DATA_FOLDER = "data"
_WORLD_SEED, _TEST_WORLD_SEED = 0, 1


@dataclass(frozen=True)
class StudyData:
    """The shared folder of runs.

    Attributes:
        store: folder of all studies.
        folder: the folder of this data.
        protocol: the protocol, of which text, sizes and vocabulary matter.
        text: the user's text; None for the little world.
        copies: copies of real tasks; None if there are no tasks, or those of the little world.
    """

    store: Path
    folder: Path
    protocol: Protocol
    text: str | None
    copies: CopiedExamples | None = None

    @property
    def corpus(self) -> Path:
        """Folder of the corpus."""
        return self.folder / "corpus"

    @property
    def world(self) -> Path:
        """Folder of the little world."""
        return self.folder / "world"

    @property
    def test_world(self) -> Path:
        """Folder of a little world with other stories, used for scores and never for choices."""
        return self.folder / "test-world"

    @property
    def examples(self) -> TaskExamples:
        """The examples of the tasks."""
        return self.copies or WorldExamples(self.world, self.test_world)

    @property
    def is_built(self) -> bool:
        """Whether the corpus is complete, which is built last."""
        return (self.corpus / MANIFEST_FILE).exists()

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary; before the corpus is built, those that the protocol asks for."""
        return len(open_corpus(self.corpus).tokenizer) if self.is_built else self.protocol.vocab_size

    @property
    def corpus_checksum(self) -> str:
        """Checksum of the content of corpus and tokenizer; empty before the corpus is built."""
        if not self.is_built:
            return ""
        manifest = read_manifest(self.corpus)
        shards = {shard.file: shard.sha256 for shard in manifest.shards}
        return json_checksum([manifest.tokenizer_fingerprint, shards])

    def build(self, executor: Executor | None = None) -> None:
        """Write what is missing, on a cluster if there is one."""
        if self.copies is not None:
            self.copies.write()
        if self.is_built:
            return
        protocol, tokenizer = self.protocol, self.folder / "tokenizer"
        source = self.text or str(self.world / "text")
        if self.text is None and not self.world.exists():
            write_world(self.world, _world_settings(protocol), executor)
        if not tokenizer.exists():
            # Allowed to be smaller, because a user's text may be short.
            settings = TokenizerSettings(vocab_size=protocol.vocab_size, allow_smaller=True)
            build_tokenizer([source], tokenizer, settings, executor)
        try:
            corpus_settings = CorpusSettings(held_out=_held_out(self.text))
            build_corpus([source], tokenizer, self.corpus, corpus_settings, executor)
        except InputError as error:
            if self.text is not None and "--held-out" in str(error):  # an option that a study does not have
                raise InputError(
                    f"--text {self.text}: too few documents to hold some out; give more"
                ) from None
            raise

    def build_test_world(self, executor: Executor | None = None) -> None:
        """Write the world for scores, on a cluster if there is one, unless it exists or is not needed."""
        if self.copies is None and not self.test_world.exists():
            settings = replace(_world_settings(self.protocol), stories=0, train=1, seed=_TEST_WORLD_SEED)
            write_world(self.test_world, settings, executor)


def find_data(
    store: Path, protocol: Protocol, settings: StudySettings, tasks: Sequence[str] = ()
) -> StudyData:
    """Return the data of a protocol; raise `InputError` if it needs a text or tasks that are not given.

    Args:
        store: folder of all studies.
        protocol: the protocol.
        settings: the text and the tasks that the user gives; the text also replaces the little world where
            no task needs it.
        tasks: all tasks on which models are fine-tuned.
    """
    text, is_own = settings.text, protocol.text == "own"
    if is_own and text is None:
        raise InputError(f"--text is missing; the scale is for {protocol.purpose.partition(': ')[2]}")
    if is_own and tasks and settings.data is None:
        raise InputError(f"--data is missing: a folder with {layouts_text(tasks)}")
    own_text = text if is_own or not protocol.tasks else None
    content: dict[str, object]
    if own_text is None:
        world = _world_settings(protocol)
        content = {"world": [WORLD_VERSION, world.stories, world.train, world.dev, world.seed, world.tasks]}
    else:
        sources = find_sources([own_text])
        if any(source.format == "hub" for source in sources):
            raise InputError(f"--text {own_text}: a study needs files; download the dataset first")
        content = {"text": [_source_state(source) for source in sources]}
    key = json_checksum({**content, "vocab_size": protocol.vocab_size, "held_out": _held_out(own_text)})[:16]
    copies = None
    if is_own and tasks and settings.data is not None:
        counts = protocol.examples, protocol.dev_examples
        copies = find_copies(store / DATA_FOLDER, settings.data, tasks, counts)
    return StudyData(store, store / DATA_FOLDER / key, protocol, own_text, copies)


def _held_out(text: str | None) -> float:
    """Return the fraction of documents that is held out; the little world has no scarcity of text."""
    return 0.1 if text is None else 0.02


def _source_state(source: Source) -> tuple[str, int, int | str]:
    """Return what changes if a text does."""
    if storage_url(source.path) is not None:
        return source.name, source.size, source.version
    status = source.path.stat()
    return str(source.path.resolve()), status.st_size, status.st_mtime_ns


def _world_settings(protocol: Protocol) -> WorldSettings:
    return WorldSettings(
        tasks=",".join(
            dict.fromkeys(
                task.world_name
                for name, task in STUDY_TASKS.items()
                if task.world_name and (not task.on_demand or name in protocol.tasks)
            )
        ),
        stories=protocol.stories,
        extra=0,
        other=0,
        train=protocol.examples,
        dev=protocol.dev_examples,
        test=1,
        seed=_WORLD_SEED,
    )
