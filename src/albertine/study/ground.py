"""What the runs of a protocol share: the text, the tokenizer, the corpus, and tasks of the little world.

STORE/grounds/HASH/world/       stories and tasks (only of the little world)
STORE/grounds/HASH/tokenizer/
STORE/grounds/HASH/corpus/
"""

from dataclasses import dataclass
from pathlib import Path

from albertine.checksums import file_checksum, json_checksum
from albertine.corpus.build import build_corpus
from albertine.corpus.manifest import MANIFEST_FILE
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError
from albertine.study.protocol import Protocol
from albertine.study.tasks import STUDY_TASKS
from albertine.text.settings import TokenizerSettings
from albertine.text.sources import find_sources
from albertine.text.tokenizer_training import build_tokenizer
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

GROUNDS_FOLDER = "grounds"
_WORLD_SEED = 0
_HELD_OUT_FRACTION = {"world": 0.02, "own": 0.01}


@dataclass(frozen=True)
class Ground:
    """The shared folder of runs.

    Attributes:
        store: folder of all studies.
        folder: the folder of this ground.
        protocol: the protocol, of which text, sizes and vocabulary matter.
        text: the user's text; None for the little world.
    """

    store: Path
    folder: Path
    protocol: Protocol
    text: str | None

    @property
    def corpus(self) -> Path:
        """Folder of the corpus."""
        return self.folder / "corpus"

    @property
    def world(self) -> Path:
        """Folder of the little world."""
        return self.folder / "world"

    @property
    def is_built(self) -> bool:
        """Whether the corpus is complete, which is built last."""
        return (self.corpus / MANIFEST_FILE).exists()

    @property
    def fingerprint(self) -> str:
        """Checksum of the corpus and its tokenizer; empty before it is built, so that it has no runs."""
        return file_checksum(self.corpus / MANIFEST_FILE) if self.is_built else ""

    def build(self) -> None:
        """Write what is missing."""
        if self.is_built:
            return
        protocol, tokenizer = self.protocol, self.folder / "tokenizer"
        source = self.text or str(self.world / "text")
        if self.text is None and not self.world.exists():
            write_world(self.world, _world_settings(protocol))
        if not tokenizer.exists():
            # A text with fewer different words than tokens is no error in a study of the user's own text.
            build_tokenizer(
                [source], tokenizer, TokenizerSettings(vocab_size=protocol.vocab_size, allow_smaller=True)
            )
        held_out = _HELD_OUT_FRACTION[protocol.text]
        build_corpus([source], tokenizer, self.corpus, CorpusSettings(held_out=held_out))


def find_ground(store: Path, protocol: Protocol, text: str | None) -> Ground:
    """Return the ground of a protocol; raise `InputError` if it needs a text that is not given.

    Args:
        store: folder of all studies.
        protocol: the protocol.
        text: a file, a folder or a glob that the user gives; it also replaces the little world where no
            task needs it.
    """
    if protocol.text == "own" and text is None:
        raise InputError(f"--text is missing; the scale is for {protocol.purpose.partition(': ')[2]}")
    own_text = None if protocol.tasks else text
    world = _world_settings(protocol)
    content: dict[str, object] = {"world": [world.stories, world.train, world.dev, world.seed]}
    if own_text is not None:
        content = {"text": [_file_state(source.path) for source in find_sources([own_text])]}
    key = json_checksum({**content, "vocab_size": protocol.vocab_size})[:16]
    return Ground(store, store / GROUNDS_FOLDER / key, protocol, own_text)


def _file_state(file: Path) -> tuple[str, int, int]:
    """Return what changes if a file does."""
    status = file.stat()
    return str(file.resolve()), status.st_size, status.st_mtime_ns


def _world_settings(protocol: Protocol) -> WorldSettings:
    return WorldSettings(
        tasks=",".join(task.world_name for task in STUDY_TASKS.values()),
        stories=protocol.stories,
        extra=0,
        other=0,
        train=protocol.examples,
        dev=protocol.dev_examples,
        test=1,
        seed=_WORLD_SEED,
    )
