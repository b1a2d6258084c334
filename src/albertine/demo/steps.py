"""The steps of the demo, each what one command of `albertine` does, into one folder.

OUT/world/               stories and tasks (with --text, nothing)
OUT/tokenizer/           a vocabulary
OUT/corpus/              what samples are drawn from
OUT/albert/, OUT/bert/   two pre-training runs, of the same steps and tokens
OUT/tasks/NAME/          the ALBERT tuned on a task
OUT/measured/NAME.json   what a step found out; it is not done again
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import MANIFEST
from albertine.corpus.settings import CorpusSettings, Objective
from albertine.demo.settings import DemoSettings
from albertine.model.parameters import bert_of_same_shape
from albertine.pretrain.guess import guesser
from albertine.pretrain.probe import probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.report import held_out
from albertine.settings import MODELS, ModelSettings
from albertine.tasks.finetune import finetune, medians
from albertine.tasks.metrics import headline
from albertine.tasks.settings import FinetuneSettings, TuneSettings
from albertine.text.settings import VocabularySettings
from albertine.text.vocabulary import make_vocabulary
from albertine.train.settings import TrainSettings
from albertine.whole import new_file
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

MODEL = MODELS["demo"]
NETWORKS = ("albert", "bert")
_BATCH_TOKENS = 4_096
_WORLD_PIECES, _TEXT_PIECES = 1_700, 8_000
_HELD_OUT = 0.02
_PROBED = 60_000  # tokens
# A sentence pair, a span question, a multiple choice; and what the world calls them.
TASKS = {"qnli": ("QNLI",), "squad-1.1": ("SQuAD",), "race": ("RACE middle", "RACE high")}
_TUNING_RATE = 5e-4


@dataclass(frozen=True)
class Step:
    """One step: what it is called while it runs, and what does it."""

    title: str
    do: Callable[[], object]


class Lab:
    """The folder of a demo, and what each step does in it."""

    def __init__(self, out: Path, settings: DemoSettings):
        self.out, self.settings = out, settings

    def steps(self) -> list[Step]:
        """Return all steps, in order."""
        own = self.settings.text
        first = [] if own else [Step("A little world: stories, and tasks with true answers", self.world)]
        last = [] if own else [Step(f"Tuning on {name}", partial(self.task, name)) for name in TASKS]
        return [
            *first,
            Step("A vocabulary of its pieces" if not own else "A vocabulary of your text", self.vocabulary),
            Step("A corpus to draw samples from", self.corpus),
            Step("An ALBERT, one layer again and again", partial(self.network, "albert")),
            Step("A BERT of the same shape, for comparison", partial(self.network, "bert")),
            Step("What both know of text they never saw", self.knowledge),
            *last,
        ]

    def once(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what was measured, from its file if it was before."""
        file = self.out / "measured" / f"{name}.json"
        if not file.exists():
            found = make()
            file.parent.mkdir(parents=True, exist_ok=True)
            with new_file(file) as partial:
                partial.write_text(json.dumps(found, indent=2), encoding="utf-8")
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
            stories=settings.stories,
            extra=0,
            other=0,
            train=settings.examples,
            dev=300,
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
            make_vocabulary([self.text], folder, VocabularySettings(vocab_size=pieces, or_less=True))

    def corpus(self) -> Corpus:
        """Build the corpus."""
        folder = self.out / "corpus"
        if not (folder / MANIFEST).exists():
            asked = CorpusSettings(held_out=_HELD_OUT, seed=self.settings.seed)
            build_corpus([self.text], self.out / "tokenizer", folder, asked)
        return Corpus(folder)

    def model(self, name: str) -> ModelSettings:
        """Return one of the two networks: as wide, as deep, as many operations a token."""
        model = replace(MODEL, vocab_size=len(Corpus(self.out / "corpus").tokenizer))
        return model if name == "albert" else bert_of_same_shape(model)

    def network(self, name: str) -> None:
        """Pre-train one of them."""
        steps, seed = self.settings.steps, self.settings.seed
        asked = PretrainSettings(
            corpus=self.out / "corpus",
            model=self.model(name),
            objective=Objective(max_length=MODEL.max_length, seed=seed),
            train=TrainSettings(
                steps=steps, batch_tokens=_BATCH_TOKENS, seed=seed, evaluate_every=max(1, steps // 20)
            ),
        )
        pretrain(self.out / name, asked, frozenset({"model.vocab_size", "objective.max_length"}))

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

    def task(self, name: str) -> dict[str, Any]:
        """Tune the ALBERT on a task."""
        asked = FinetuneSettings(
            task=name,
            data=str(self.out / "world"),
            train=TuneSettings(steps=self.settings.tuning_steps, lr=_TUNING_RATE, seed=self.settings.seed),
        )

        def make() -> dict[str, Any]:
            task, outcomes = finetune(str(self.out / "albert"), self.out / "tasks" / name, asked)
            scores = medians(outcomes)
            return {"task": task, "scores": scores, "headline": headline(task, scores)}

        return self.once(name, make)
