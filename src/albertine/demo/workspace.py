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
from albertine.atomic import atomic_file
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import MANIFEST_FILE, CorpusSplit
from albertine.corpus.settings import CorpusSettings, ObjectiveSettings
from albertine.demo.cloze import write_cloze_questions
from albertine.demo.parallel_runs import run_in_parallel
from albertine.demo.settings import DemoSettings
from albertine.errors import InputError
from albertine.finetune.finetune import finetune, median_metrics
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.model.parameter_counts import bert_of_same_shape
from albertine.pretrain.probe import probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.report import held_out_examples
from albertine.settings import MODEL_PRESETS, ModelSettings
from albertine.tasks.metrics.scores import format_metrics, primary_metric
from albertine.tasks.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer
from albertine.train.settings import OptimizerName, PretrainTrainSettings
from albertine.world.settings import WorldSettings
from albertine.world.write import write_world

BASE_MODEL = MODEL_PRESETS["demo"]
# The world's few pieces leave room for more places to look at; with ordinary text each head must see more.
WORLD_HEADS = 8
MODEL_NAMES = ("albert", "bert")
BATCH_TOKENS, HELD_OUT_FRACTION = 4_096, 0.02
# Of the world's networks; with one's own text the batch decides.
LEARNING_RATES = {"albert": 0.008, "bert": 0.004}
_WORLD_VOCAB_SIZE, _TEXT_VOCAB_SIZE = 1_700, 8_000
_PROBE_TOKENS = 60_000  # tokens
NUM_EVALUATIONS = 2  # at dev, while a task is tuned: some take as long as the steps between


@dataclass(frozen=True)
class DemoTask:
    """How the ALBERT is tuned on a task."""

    task: str
    batch_size: int
    lr: float
    optimizer: OptimizerName
    uses_world: bool


# A span question, a multiple choice, a sentence pair; what takes longest first.
DEMO_TASKS = {
    "squad": DemoTask("squad-1.1", 24, 2e-3, "muon", uses_world=True),
    "cloze": DemoTask("choice", 8, 2e-3, "muon", uses_world=False),
    "mnli": DemoTask("mnli", 16, 1e-3, "muon", uses_world=True),
}
_CLOZE_SIZES: dict[CorpusSplit, int] = {"train": 4_000, "dev": 500}  # questions
_MIN_QUESTIONS = 20


@dataclass(frozen=True)
class DemoStep:
    """One step: what it is called while it runs, and what does it."""

    title: str
    run: Callable[[], object]


class DemoWorkspace:
    """The folder of a demo, and what each step does in it."""

    dev_examples = 300  # examples that a task is scored on

    def __init__(self, out: Path, settings: DemoSettings):
        self.out, self.settings = out, settings

    def steps(self) -> list[DemoStep]:
        """Return all steps, in order."""
        own_text = self.settings.text
        world_steps = (
            []
            if own_text
            else [DemoStep("A little world: stories, and tasks with true answers", self.make_world)]
        )
        task_phrase = "on which word stood there" if own_text else "on three tasks"
        return [
            *world_steps,
            DemoStep(
                "A vocabulary of its pieces" if not own_text else "A vocabulary of your text",
                self.train_tokenizer,
            ),
            DemoStep("A corpus to draw samples from", self.build_corpus),
            DemoStep(
                "An ALBERT, one layer again and again; beside it, a BERT of the same shape",
                self.pretrain_models,
            ),
            DemoStep("What both know of text they never saw", self.print_probe_results),
            DemoStep(f"The ALBERT, tuned {task_phrase}", self.finetune_models),
        ]

    def _result_file(self, name: str) -> Path:
        return self.out / "measured" / f"{name}.json"

    def _has_result(self, name: str) -> bool:
        return self._result_file(name).exists()

    def cached(self, name: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what was measured, from its file if it was before."""
        file = self._result_file(name)
        if not file.exists():
            result = compute()
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(file) as partial_file:
                partial_file.write_text(json.dumps(result, indent=2), encoding="utf-8")
        stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return stored

    @property
    def text_source(self) -> str:
        """Where the text lies."""
        return self.settings.text or str(self.out / "world" / "text")

    def make_world(self) -> dict[str, Any]:
        """Write the world."""
        settings = self.settings
        world_settings = WorldSettings(
            tasks="mnli,squad",
            stories=settings.stories,
            extra=0,
            other=0,
            train=settings.examples,
            dev=self.dev_examples,
            test=1,
            seed=settings.seed,
        )

        def make() -> dict[str, Any]:
            # What an attempt left that was killed just then; it holds nothing that is not made again.
            shutil.rmtree(self.out / "world", ignore_errors=True)
            texts, tasks = write_world(self.out / "world", world_settings)
            return {"texts": [asdict(one) for one in texts], "tasks": [asdict(one) for one in tasks]}

        return self.cached("world", make)

    def train_tokenizer(self) -> None:
        """Learn a vocabulary."""
        vocab_size = _TEXT_VOCAB_SIZE if self.settings.text else _WORLD_VOCAB_SIZE
        folder = self.out / "tokenizer"
        if not folder.exists():
            with self._with_demo_advice():
                build_tokenizer(
                    [self.text_source], folder, TokenizerSettings(vocab_size=vocab_size, allow_smaller=True)
                )

    @contextmanager
    def _with_demo_advice(self) -> Iterator[None]:
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

    def build_corpus(self) -> Corpus:
        """Build the corpus."""
        folder = self.out / "corpus"
        if not (folder / MANIFEST_FILE).exists():
            corpus_settings = CorpusSettings(held_out=HELD_OUT_FRACTION, seed=self.settings.seed)
            with self._with_demo_advice():
                build_corpus([self.text_source], self.out / "tokenizer", folder, corpus_settings)
        return Corpus(folder)

    def model_settings(self, name: str) -> ModelSettings:
        """Return one of the two networks: as wide, as deep, as many operations a token."""
        heads = BASE_MODEL.heads if self.settings.text else WORLD_HEADS
        settings = replace(BASE_MODEL, heads=heads, vocab_size=len(Corpus(self.out / "corpus").tokenizer))
        return settings if name == "albert" else bert_of_same_shape(settings)

    def pretrain_models(self) -> None:
        """Pre-train both."""
        remaining = {
            self.out / one: partial(self.pretrain_model, one)
            for one in MODEL_NAMES
            if not self._has_result(one)
        }
        run_in_parallel("Pre-training both", remaining, self.settings.pretraining_steps)

    def pretrain_model(self, name: str) -> dict[str, Any]:
        """Pre-train one of them."""
        steps, seed = self.settings.pretraining_steps, self.settings.seed
        pretrain_settings = PretrainSettings(
            corpus=self.out / "corpus",
            model=self.model_settings(name),
            objective=ObjectiveSettings(max_length=BASE_MODEL.max_length, seed=seed),
            train=PretrainTrainSettings(
                steps=steps,
                batch_tokens=BATCH_TOKENS,
                lr=None if self.settings.text else LEARNING_RATES[name],
                seed=seed,
                evaluate_every=-(-steps // 15),
            ),
        )
        given_keys = frozenset({"model.vocab_size", "objective.max_length"})
        return self.cached(name, lambda: pretrain(self.out / name, pretrain_settings, given_keys))

    def probe_models(self) -> dict[str, Any]:
        """Probe both, and follow their states from layer to layer."""

        def make() -> dict[str, Any]:
            corpus, found = Corpus(self.out / "corpus"), {}
            for name in MODEL_NAMES:
                run = str(self.out / name)
                asked = ProbeSettings(corpus=corpus.folder, tokens=_PROBE_TOKENS)
                moves = held_out_examples.followed(fill_mask_pipeline(run), corpus, self.settings.seed)
                found[name] = {
                    "probe": probe(run, asked).to_json(),
                    "transitions": [asdict(one) for one in moves],
                }
            return found

        return self.cached("knowledge", make)

    def print_probe_results(self) -> None:
        """Say what both know."""
        for name, result in self.probe_models().items():
            metric_keys = {"hidden pieces": "hidden_accuracy", "orders": "sop_accuracy"}
            accuracies = {what: result["probe"][key]["value"] for what, key in metric_keys.items()}
            summary = ", ".join(
                f"{value:.0%} of {what}" for what, value in accuracies.items() if value is not None
            )
            progress.print_message(f"{name}: {summary} right")

    @property
    def task_names(self) -> list[str]:
        """What the ALBERT is tuned on: with one's own text, on what the text itself can answer."""
        if not self.make_cloze_questions():
            return []
        return [
            name
            for name, demo_task in DEMO_TASKS.items()
            if not (demo_task.uses_world and self.settings.text)
        ]

    def make_cloze_questions(self) -> dict[str, Any]:
        """Make questions of the text; none, where it is too short for them."""

        def make() -> dict[str, Any]:
            shutil.rmtree(self.out / "cloze", ignore_errors=True)
            found = write_cloze_questions(
                self.build_corpus(), self.out / "cloze", _CLOZE_SIZES, self.settings.seed
            )
            return found if min(one["questions"] for one in found.values()) >= _MIN_QUESTIONS else {}

        return self.cached("questions", make)

    def finetune_models(self) -> None:
        """Tune the ALBERT on all tasks."""
        if not self.task_names:
            progress.print_message("there is too little text to make questions of; left out")
        tasks_folder = self.out / "tasks"
        remaining = {
            tasks_folder / one: partial(self.finetune_model, one)
            for one in self.task_names
            if not self._has_result(one)
        }
        run_in_parallel("Tuning", remaining, self.settings.finetuning_steps)
        for one in self.task_names:
            progress.print_message(
                f"{tasks_folder / one}: {format_metrics(self.finetune_model(one)['scores'])}"
            )

    def finetune_model(self, name: str) -> dict[str, Any]:
        """Tune the ALBERT on a task."""
        demo_task, steps = DEMO_TASKS[name], self.settings.finetuning_steps
        cloze = self.out / "cloze"
        finetune_settings = FinetuneSettings(
            task=demo_task.task,
            data=str(self.out / "world" if demo_task.uses_world else cloze / "train.jsonl"),
            dev=None if demo_task.uses_world else str(cloze / "dev.jsonl"),
            train=FinetuneTrainSettings(
                steps=steps,
                batch_size=demo_task.batch_size,
                lr=demo_task.lr,
                optimizer=demo_task.optimizer,
                seed=self.settings.seed,
                evaluate_every=-(-steps // NUM_EVALUATIONS),
            ),
        )

        def make() -> dict[str, Any]:
            task, outcomes = finetune(str(self.out / "albert"), self.out / "tasks" / name, finetune_settings)
            scores = median_metrics(outcomes)
            return {"task": task, "scores": scores, "headline": primary_metric(task, scores)}

        return self.cached(name, make)
