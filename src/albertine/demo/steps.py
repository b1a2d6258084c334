"""The steps of the demo, each what one command of `albertine` does, into one folder.

OUT/world/               stories and tasks (with --text, nothing)
OUT/tokenizer/           a vocabulary
OUT/corpus/              what samples are drawn from
OUT/albert/, OUT/bert/   two pre-training runs, of the same steps and tokens
OUT/cloze/               questions that the text itself can answer
OUT/tasks/NAME/          the ALBERT tuned on a task
OUT/measured/NAME.json   what a step found out; it is not done again
"""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import MANIFEST, Split
from albertine.corpus.settings import CorpusSettings, Objective
from albertine.demo.abreast import abreast
from albertine.demo.cloze import write_cloze
from albertine.demo.settings import DemoSettings
from albertine.errors import InputError
from albertine.model.parameters import bert_of_same_shape
from albertine.pretrain.guess import guesser
from albertine.pretrain.probe import probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.report import held_out
from albertine.settings import MODELS, ModelSettings
from albertine.tasks.finetune import finetune, medians
from albertine.tasks.metrics import headline, in_words
from albertine.tasks.settings import FinetuneSettings, TuneSettings
from albertine.text.settings import VocabularySettings
from albertine.text.vocabulary import make_vocabulary
from albertine.train.settings import OptimizerName, TrainSettings
from albertine.whole import new_file
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

MODEL = MODELS["demo"]
# The world's few pieces leave room for more places to look at; with ordinary text each head must see more.
WORLD_HEADS = 8
NETWORKS = ("albert", "bert")
BATCH_TOKENS, HELD_OUT = 4_096, 0.02
# Of the world's networks; with one's own text the batch decides.
RATES = {"albert": 0.008, "bert": 0.004}
_WORLD_PIECES, _TEXT_PIECES = 1_700, 8_000
_PROBED = 60_000  # tokens
LOOKS = 2  # at dev, while a task is tuned: some take as long as the steps between


@dataclass(frozen=True)
class Tuning:
    """How the ALBERT is tuned on a task."""

    task: str
    batch: int
    rate: float
    optimizer: OptimizerName
    of_world: bool


# A span question, a multiple choice, a sentence pair; what takes longest first.
TASKS = {
    "squad": Tuning("squad-1.1", 24, 2e-3, "muon", of_world=True),
    "cloze": Tuning("choice", 8, 2e-3, "muon", of_world=False),
    "mnli": Tuning("mnli", 16, 1e-3, "muon", of_world=True),
}
_CLOZE: dict[Split, int] = {"train": 4_000, "dev": 500}  # questions
_LEAST_QUESTIONS = 20


@dataclass(frozen=True)
class Step:
    """One step: what it is called while it runs, and what does it."""

    title: str
    do: Callable[[], object]


class Lab:
    """The folder of a demo, and what each step does in it."""

    dev = 300  # examples that a task is scored on

    def __init__(self, out: Path, settings: DemoSettings):
        self.out, self.settings = out, settings

    def steps(self) -> list[Step]:
        """Return all steps, in order."""
        own = self.settings.text
        first = [] if own else [Step("A little world: stories, and tasks with true answers", self.world)]
        tuning = "on which word stood there" if own else "on three tasks"
        return [
            *first,
            Step("A vocabulary of its pieces" if not own else "A vocabulary of your text", self.vocabulary),
            Step("A corpus to draw samples from", self.corpus),
            Step("An ALBERT, one layer again and again; beside it, a BERT of the same shape", self.networks),
            Step("What both know of text they never saw", self.compared),
            Step(f"The ALBERT, tuned {tuning}", self.tuned),
        ]

    def _measured(self, name: str) -> Path:
        return self.out / "measured" / f"{name}.json"

    def _is_known(self, name: str) -> bool:
        return self._measured(name).exists()

    def once(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what was measured, from its file if it was before."""
        file = self._measured(name)
        if not file.exists():
            found = make()
            file.parent.mkdir(parents=True, exist_ok=True)
            with new_file(file) as written:
                written.write_text(json.dumps(found, indent=2), encoding="utf-8")
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return known

    @property
    def text(self) -> str:
        """Where the text lies."""
        return self.settings.text or str(self.out / "world" / "text")

    def world(self) -> dict[str, Any]:
        """Write the world."""
        settings = self.settings
        asked = WorldSettings(
            tasks="mnli,squad",
            stories=settings.stories,
            extra=0,
            other=0,
            train=settings.examples,
            dev=self.dev,
            test=1,
            seed=settings.seed,
        )

        def make() -> dict[str, Any]:
            # What an attempt left that was killed just then; it holds nothing that is not made again.
            shutil.rmtree(self.out / "world", ignore_errors=True)
            texts, tasks = write_world(self.out / "world", asked)
            return {"texts": [asdict(one) for one in texts], "tasks": [asdict(one) for one in tasks]}

        return self.once("world", make)

    def vocabulary(self) -> None:
        """Learn a vocabulary."""
        pieces = _TEXT_PIECES if self.settings.text else _WORLD_PIECES
        folder = self.out / "tokenizer"
        if not folder.exists():
            with self._advising():
                make_vocabulary([self.text], folder, VocabularySettings(vocab_size=pieces, or_less=True))

    @contextmanager
    def _advising(self) -> Iterator[None]:
        """Put advice on options that the demo does not have into words on what it has."""
        try:
            yield
        except InputError as error:
            if "--held-out" in str(error):
                raise InputError(
                    f"--text {self.settings.text}: too few documents; some are held out, so give several "
                    "files, or put blank lines between documents"
                ) from None
            raise InputError(str(error).replace(", or give --on-error skip to leave it out", "")) from None

    def corpus(self) -> Corpus:
        """Build the corpus."""
        folder = self.out / "corpus"
        if not (folder / MANIFEST).exists():
            asked = CorpusSettings(held_out=HELD_OUT, seed=self.settings.seed)
            with self._advising():
                build_corpus([self.text], self.out / "tokenizer", folder, asked)
        return Corpus(folder)

    def model(self, name: str) -> ModelSettings:
        """Return one of the two networks: as wide, as deep, as many operations a token."""
        heads = MODEL.heads if self.settings.text else WORLD_HEADS
        model = replace(MODEL, heads=heads, vocab_size=len(Corpus(self.out / "corpus").tokenizer))
        return model if name == "albert" else bert_of_same_shape(model)

    def networks(self) -> None:
        """Pre-train both."""
        left = {self.out / one: partial(self.network, one) for one in NETWORKS if not self._is_known(one)}
        abreast("Pre-training both", left, self.settings.steps)

    def network(self, name: str) -> dict[str, Any]:
        """Pre-train one of them."""
        steps, seed = self.settings.steps, self.settings.seed
        asked = PretrainSettings(
            corpus=self.out / "corpus",
            model=self.model(name),
            objective=Objective(max_length=MODEL.max_length, seed=seed),
            train=TrainSettings(
                steps=steps,
                batch_tokens=BATCH_TOKENS,
                lr=None if self.settings.text else RATES[name],
                seed=seed,
                evaluate_every=-(-steps // 15),
            ),
        )
        given = frozenset({"model.vocab_size", "objective.max_length"})
        return self.once(name, lambda: pretrain(self.out / name, asked, given))

    def knowledge(self) -> dict[str, Any]:
        """Probe both, and follow their states from layer to layer."""

        def make() -> dict[str, Any]:
            corpus, found = Corpus(self.out / "corpus"), {}
            for name in NETWORKS:
                run = str(self.out / name)
                asked = ProbeSettings(corpus=corpus.folder, tokens=_PROBED)
                moves = held_out.followed(guesser(run), corpus, self.settings.seed)
                found[name] = {
                    "probe": probe(run, asked).to_json(),
                    "transitions": [asdict(one) for one in moves],
                }
            return found

        return self.once("knowledge", make)

    def compared(self) -> None:
        """Say what both know."""
        for name, known in self.knowledge().items():
            measured = {"hidden pieces": "hidden_accuracy", "orders": "sop_accuracy"}
            right = {what: known["probe"][key]["value"] for what, key in measured.items()}
            said = ", ".join(f"{value:.0%} of {what}" for what, value in right.items() if value is not None)
            progress.say(f"{name}: {said} right")

    @property
    def tasks(self) -> list[str]:
        """What the ALBERT is tuned on: with one's own text, on what the text itself can answer."""
        if not self.questions():
            return []
        return [name for name, tuning in TASKS.items() if not (tuning.of_world and self.settings.text)]

    def questions(self) -> dict[str, Any]:
        """Make questions of the text; none, where it is too short for them."""

        def make() -> dict[str, Any]:
            shutil.rmtree(self.out / "cloze", ignore_errors=True)
            found = write_cloze(self.corpus(), self.out / "cloze", _CLOZE, self.settings.seed)
            return found if min(one["questions"] for one in found.values()) >= _LEAST_QUESTIONS else {}

        return self.once("questions", make)

    def tuned(self) -> None:
        """Tune the ALBERT on all tasks."""
        if not self.tasks:
            progress.say("there is too little text to make questions of; left out")
        tasks = self.out / "tasks"
        left = {tasks / one: partial(self.task, one) for one in self.tasks if not self._is_known(one)}
        abreast("Tuning", left, self.settings.tuning_steps)
        for one in self.tasks:
            progress.say(f"{tasks / one}: {in_words(self.task(one)['scores'])}")

    def task(self, name: str) -> dict[str, Any]:
        """Tune the ALBERT on a task."""
        tuning, steps = TASKS[name], self.settings.tuning_steps
        cloze = self.out / "cloze"
        asked = FinetuneSettings(
            task=tuning.task,
            data=str(self.out / "world" if tuning.of_world else cloze / "train.jsonl"),
            dev=None if tuning.of_world else str(cloze / "dev.jsonl"),
            train=TuneSettings(
                steps=steps,
                batch=tuning.batch,
                lr=tuning.rate,
                optimizer=tuning.optimizer,
                seed=self.settings.seed,
                evaluate_every=-(-steps // LOOKS),
            ),
        )

        def make() -> dict[str, Any]:
            task, outcomes = finetune(str(self.out / "albert"), self.out / "tasks" / name, asked)
            scores = medians(outcomes)
            return {"task": task, "scores": scores, "headline": headline(task, scores)}

        return self.once(name, make)
