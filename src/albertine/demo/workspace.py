"""The steps of the demo and the folder of their results; each step is equivalent to a command.

OUT/world/               stories and tasks of the little world (not with --text)
OUT/tokenizer/           the tokenizer
OUT/corpus/              the corpus
OUT/albert/              the pre-training run
OUT/cloze/               multiple-choice questions made from the text
OUT/agreement/           with --text, minimal pairs made from held-out sentences, if they are English
OUT/tasks/NAME/          the ALBERT fine-tuned on a task
OUT/untrained/           the ALBERT with its initial weights; in tasks/, the same fine-tuned on each task
OUT/bert/                with --compare, a BERT of the same shape, trained for the same time
OUT/narrow-bert/         with --compare, a BERT with as many parameters, trained for the same time
OUT/NAME-tasks/          these BERTs fine-tuned on each task
OUT/studies/             with --compare, pages of the studies that test ALBERT's claim
OUT/results/NAME.json    the result of a step; a step with a result is not run again
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from albertine import progress
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import Corpus
from albertine.corpus.held_out import SingleDocument
from albertine.corpus.manifest import MANIFEST_FILE, CorpusSplit
from albertine.corpus.settings import CorpusSettings
from albertine.demo import plan
from albertine.demo.agreement import AgreementTest, print_agreement, run_agreement_test
from albertine.demo.cloze import write_cloze_questions
from albertine.demo.run_lengths import run_lengths
from albertine.demo.settings import DemoSettings
from albertine.device import choose_device
from albertine.errors import InputError
from albertine.finetune.finetune import finetune
from albertine.interop.load import load
from albertine.interop.save_checkpoint import save_folder
from albertine.json_input import NOT_UTF_8, RECODE
from albertine.pretrain.probe import probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.pretrain.setup import untrained_model
from albertine.report import held_out_examples
from albertine.settings import ModelSettings
from albertine.stored_results import StoredResults
from albertine.tasks.metrics.display import format_metrics
from albertine.tasks.registry import primary_metric
from albertine.text.read_errors import UnreadableData
from albertine.text.tokenizer import load_tokenizer
from albertine.text.tokenizer_training import build_tokenizer
from albertine.train.metrics_log import METRICS_FILE, read_metrics
from albertine.train.parallel_runs import run_in_parallel
from albertine.train.settings import PretrainTrainSettings
from albertine.world.write import write_world

RESULTS_FOLDER = "results"
Start = Literal["albert", "untrained", "bert", "narrow-bert"]  # of fine-tuning
_BERTS: tuple[Start, ...] = ("bert", "narrow-bert")
_PROBE_TOKENS = 60_000
_CLOZE_SIZES: dict[CorpusSplit, int] = {"train": 4_000, "dev": 2_000}  # questions
_MIN_QUESTIONS = 20
_FIELD_ADVICE = re.compile("; choose (one|another) with --field.*")


@dataclass(frozen=True)
class DemoStep:
    """A step: its title, and the function that runs it."""

    title: str
    run: Callable[[], object]


class DemoWorkspace:
    """The folder of a demo and its steps.

    Attributes:
        results: Results of the steps.
    """

    def __init__(self, out: Path, settings: DemoSettings):
        self.out, self.settings = out, settings
        self.results = StoredResults(out / RESULTS_FOLDER)

    def steps(self) -> list[DemoStep]:
        """Return all steps, in order."""
        own_text = self.settings.text
        world_steps = (
            []
            if own_text
            else [DemoStep("Generate a little world: stories, and tasks with known answers", self.make_world)]
        )
        models = "ALBERT and the BERTs" if self.settings.compare else "ALBERT"
        task_phrase = "on multiple choice" if own_text else "on three tasks"
        return [
            *world_steps,
            DemoStep(
                "Train a tokenizer on your text" if own_text else "Train a tokenizer",
                self.train_tokenizer,
            ),
            DemoStep("Build a corpus", self.build_corpus),
            DemoStep(
                "Pre-train an ALBERT; beside it, fine-tune the same network without pre-training",
                self.pretrain_albert,
            ),
            *(
                [DemoStep("Pre-train two BERTs for the same time", self.pretrain_berts)]
                if self.settings.compare
                else []
            ),
            DemoStep("Probe what it has learned, on held-out text", self.print_probe_results),
            *(
                [
                    DemoStep(
                        "Test its grammar on held-out sentences",
                        lambda: print_agreement(self.agreement_test()),
                    )
                ]
                if own_text
                else []
            ),
            DemoStep(f"Fine-tune the {models} {task_phrase}", self.finetune_models),
        ]

    @property
    def model_names(self) -> tuple[Start, ...]:
        """Names of the models to pre-train."""
        return ("albert", *_BERTS) if self.settings.compare else ("albert",)

    @property
    def text_source(self) -> str:
        """The text for the tokenizer and the corpus."""
        return self.settings.text or str(self.out / "world" / "text")

    def make_world(self) -> dict[str, Any]:
        """Write the little world, and return its summary."""

        def compute() -> dict[str, Any]:
            # A killed attempt may have left a complete world without its result; it is generated again.
            shutil.rmtree(self.out / "world", ignore_errors=True)
            texts, tasks = write_world(self.out / "world", plan.world_settings(self.settings))
            return {
                "texts": [asdict(summary) for summary in texts],
                "tasks": [asdict(summary) for summary in tasks],
            }

        return self.results.get("world", compute)

    def train_tokenizer(self) -> None:
        """Train the tokenizer."""
        folder = self.out / "tokenizer"
        if not folder.exists():
            with self._with_demo_advice():
                build_tokenizer([self.text_source], folder, plan.tokenizer_settings(self.settings))

    @contextmanager
    def _with_demo_advice(self) -> Iterator[None]:
        """Rephrase errors that recommend options of other commands, which the demo does not have."""
        try:
            yield
        except SingleDocument:
            raise InputError(
                f"--text {self.settings.text}: too few documents to hold some out; give several "
                "files, or one sentence per line and blank lines between documents"
            ) from None
        except InputError as error:
            message = str(error)
            if isinstance(error, UnreadableData):
                advice = RECODE if error.problem == NOT_UTF_8 else "fix it"
                message = f"{error.location}: {error.problem}; {advice}"
            message = _FIELD_ADVICE.sub("; rename the field that holds the text to text", message)
            if message == str(error):
                raise
            raise InputError(message) from None

    def build_corpus(self) -> Corpus:
        """Build the corpus, and return it."""
        folder = self.out / "corpus"
        if not (folder / MANIFEST_FILE).exists():
            corpus_settings = CorpusSettings(held_out=plan.HELD_OUT_FRACTION, seed=self.settings.seed)
            with self._with_demo_advice():
                build_corpus([self.text_source], self.out / "tokenizer", folder, corpus_settings)
        return Corpus(folder)

    def model_settings(self, name: str) -> ModelSettings:
        """Return the settings of a model; all have the same depth."""
        vocab_size = len(Corpus(self.out / "corpus").tokenizer)
        return plan.model_settings(self.settings, name, vocab_size)

    def pretrain_albert(self) -> None:
        """Pre-train the ALBERT, and beside it fine-tune it with its initial weights.

        A model this small trains hardly faster on two cores than on one, so each run gets one core.
        """
        pretraining = self._pretraining_runs(("albert",))
        self.untrained_checkpoint()
        finetuning = self._finetuning_runs("untrained")
        lengths = run_lengths(self.settings)
        steps = lengths.pretraining_steps * len(pretraining) + lengths.finetuning_steps * len(finetuning)
        run_in_parallel("Training", pretraining | finetuning, steps, choose_device("auto"))

    def pretrain_berts(self) -> None:
        """Pre-train the BERTs side by side, each for the training time of the ALBERT."""
        run_in_parallel("Training", self._pretraining_runs(_BERTS), None, choose_device("auto"))

    def _pretraining_runs(self, names: Collection[str]) -> dict[Path, Callable[[], dict[str, Any]]]:
        """Return the pre-training runs of some models that are not finished, by their folder."""
        for name in names:
            if name in self.results and not (self.out / name).exists():
                result = self.out / RESULTS_FOLDER / f"{name}.json"
                raise InputError(
                    f"{self.out / name}: missing; restore it, or remove {result} to train it again"
                )
        return {
            self.out / name: partial(self.pretrain_model, name) for name in names if name not in self.results
        }

    def _finetuning_runs(self, start: Start) -> dict[Path, Callable[[], dict[str, Any]]]:
        """Return the fine-tuning runs of a model that are not finished, by their folder."""
        return {
            self._tasks_folder(start) / name: partial(self.finetune_model, name, start)
            for name in self.task_names()
            if _result_name(name, start) not in self.results
        }

    def _tasks_folder(self, start: Start) -> Path:
        if start in _BERTS:
            return self.out / f"{start}-tasks"
        return (self.out if start == "albert" else self.out / "untrained") / "tasks"

    def untrained_checkpoint(self) -> Path:
        """Write the ALBERT with the weights with which its pre-training begins; return its folder."""
        folder = self.out / "untrained"
        if not (folder / "config.json").exists():
            settings = PretrainSettings(train=PretrainTrainSettings(seed=self.settings.seed))
            model = untrained_model(self.model_settings("albert"), settings)
            save_folder(model, folder, tokenizer=load_tokenizer(self.out / "tokenizer"))
        return folder

    def pretrain_model(self, name: str) -> dict[str, Any]:
        """Pre-train one model, and return its result."""
        minutes = self.training_seconds("albert") / 60 if name in _BERTS else None
        pretrain_settings = plan.pretrain_settings(
            self.settings, name, self.model_settings(name), self.out / "corpus", minutes
        )
        return self.results.get(name, lambda: pretrain(self.out / name, pretrain_settings))

    def training_seconds(self, name: str) -> float:
        """Return how long the steps of a pre-training run took."""
        file = self.out / name / METRICS_FILE
        lines = read_metrics(self.out / name) if file.exists() else []
        seconds = next((line["seconds"] for line in reversed(lines) if line.get("seconds")), None)
        if seconds is None:
            raise InputError(f"{file}: has no training time; restore the file, or give another --out")
        return float(seconds)

    def probe_models(self) -> dict[str, Any]:
        """Return the probe results of the models, and how far each layer moves their hidden states."""

        def compute() -> dict[str, Any]:
            corpus = Corpus(self.out / "corpus")
            results: dict[str, Any] = {}
            for name in self.model_names:
                run = str(self.out / name)
                probe_settings = ProbeSettings(corpus=corpus.folder, tokens=_PROBE_TOKENS)
                transitions = held_out_examples.held_out_transitions(load(run), corpus, self.settings.seed)
                results[name] = {
                    "probe": probe(run, probe_settings).to_json(),
                    "transitions": [asdict(transition) for transition in transitions],
                }
            return results

        return self.results.get("probe", compute)

    def print_probe_results(self) -> None:
        """Print the accuracies of the models."""
        for name, result in self.probe_models().items():
            metric_keys = {"masked tokens": "mask_token_accuracy", "segment orders": "sop_accuracy"}
            estimates = {label: result["probe"][key] for label, key in metric_keys.items()}
            accuracies = [
                f"{estimate['value']:.0%} of {label}"
                for label, estimate in estimates.items()
                if estimate["low"] is not None
            ]
            summary = f"{', '.join(accuracies)} correct" if accuracies else "too little held-out text to say"
            progress.print_message(f"{name}: {summary}")

    def agreement_test(self) -> AgreementTest:
        """Return how often the models prefer the grammatical sentence of a minimal pair."""

        def compute() -> AgreementTest:
            runs = [self.out / name for name in self.model_names]
            corpus = Corpus(self.out / "corpus")
            return run_agreement_test(corpus, self.out / "agreement", runs, self.settings.seed)

        return self.results.get_as(AgreementTest, "agreement", compute)

    def task_names(self) -> list[str]:
        """Return the tasks for fine-tuning; with own text only those made from it, or none if it is short.

        Writes the questions that are made from the text, if there are none yet.
        """
        if not self.make_cloze_questions():
            return []
        return [
            name
            for name, demo_task in plan.DEMO_TASKS.items()
            if not (demo_task.uses_world and self.settings.text)
        ]

    def make_cloze_questions(self) -> dict[str, Any]:
        """Write multiple-choice questions and return their counts; empty if the text is too short."""

        def compute() -> dict[str, Any]:
            shutil.rmtree(self.out / "cloze", ignore_errors=True)
            counts = write_cloze_questions(
                self.build_corpus(), self.out / "cloze", _CLOZE_SIZES, self.settings.seed
            )
            return (
                counts
                if min(split_counts["questions"] for split_counts in counts.values()) >= _MIN_QUESTIONS
                else {}
            )

        return self.results.get("questions", compute)

    def finetune_models(self) -> None:
        """Fine-tune the pre-trained models on all tasks."""
        if not self.task_names():
            progress.print_message("too little text for multiple-choice questions: fine-tuning is skipped")
        remaining: dict[Path, Callable[[], dict[str, Any]]] = {}
        for start in self.model_names:
            remaining |= self._finetuning_runs(start)
        steps = run_lengths(self.settings).finetuning_steps * len(remaining)
        run_in_parallel("Fine-tuning", remaining, steps, choose_device("auto"))
        for name in self.task_names():
            metrics = self.finetune_model(name)["metrics"]
            progress.print_message(f"{self._tasks_folder('albert') / name}: {format_metrics(metrics)}")

    def finetune_model(self, name: str, start: Start = "albert") -> dict[str, Any]:
        """Fine-tune a model on a task; return the metrics."""
        finetune_settings = plan.finetune_settings(self.settings, name, self.out)

        def compute() -> dict[str, Any]:
            checkpoint = self.untrained_checkpoint() if start == "untrained" else self.out / start
            results = finetune(checkpoint, self._tasks_folder(start) / name, finetune_settings)
            task, metrics = results.task, results.median_metrics
            return {"task": task, "metrics": metrics, "primary_metric": primary_metric(task, metrics)}

        return self.results.get(_result_name(name, start), compute)


def _result_name(task: str, start: Start) -> str:
    return task if start == "albert" else f"{start}-{task}"
