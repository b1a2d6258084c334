"""What the demo trains: its models, tasks and hyperparameters, which `commands.py` repeats as options."""

from dataclasses import dataclass, replace
from pathlib import Path

from albertine.corpus.settings import ObjectiveSettings
from albertine.demo.run_lengths import run_lengths
from albertine.demo.settings import BASE_MODEL, WORLD_HEADS, DemoSettings
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.model.parameter_counts import bert_of_same_shape, bert_of_same_size
from albertine.pretrain.curriculum import GROW, CurriculumSettings
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import ModelSettings
from albertine.text.settings import TokenizerSettings
from albertine.train.settings import OptimizerName, PretrainTrainSettings
from albertine.world.settings import WorldSettings

# Raised when the steps, models or hyperparameters change, so that an older demo is not continued with others.
PLAN_NUMBER = "6"
# From this width on, pre-norm and rotary positions. A narrower model learns more in so short a run
# with the local start, which needs position embeddings.
_ROTARY_WIDTH = 256
BATCH_TOKENS, HELD_OUT_FRACTION = 4_096, 0.05
MLM_PROBABILITY = 0.3
# For the little world; with own text, the learning rate follows from the batch size.
LEARNING_RATES = {"albert": 0.006, "bert": 0.004, "narrow-bert": 0.004}
DEV_EXAMPLES = 2_000  # with fewer, a score differs by several points by chance
_WORLD_VOCAB_SIZE, _TEXT_VOCAB_SIZE = 1_700, 8_000


@dataclass(frozen=True)
class DemoTask:
    """Hyperparameters of fine-tuning on a task.

    Attributes:
        task: name of the task.
        batch_size: examples of a step.
        lr: peak learning rate.
        optimizer: name of the optimizer.
        uses_world: whether the task is about the little world, not about the text.
        mark_matches: whether a vector marks the words that question and passage have in common.
    """

    task: str
    batch_size: int
    lr: float
    optimizer: OptimizerName
    uses_world: bool
    mark_matches: bool = False


# Span extraction, multiple choice and single sentences; the slowest task starts first.
DEMO_TASKS = {
    "squad": DemoTask("squad-1.1", 24, 2e-3, "muon", uses_world=True, mark_matches=True),
    "cloze": DemoTask("choice", 8, 2e-3, "muon", uses_world=False),
    "sst-2": DemoTask("sst-2", 32, 2e-3, "muon", uses_world=True),
}


def world_settings(settings: DemoSettings) -> WorldSettings:
    """Return the settings of the little world."""
    return WorldSettings(
        tasks="sst-2,squad",
        stories=settings.stories,
        extra=0,
        other=0,
        train=settings.examples,
        dev=DEV_EXAMPLES,
        test=1,
        seed=settings.seed,
    )


def tokenizer_settings(settings: DemoSettings) -> TokenizerSettings:
    """Return the settings of the tokenizer."""
    vocab_size = _TEXT_VOCAB_SIZE if settings.text else _WORLD_VOCAB_SIZE
    return TokenizerSettings(vocab_size=vocab_size, allow_smaller=True)


def model_settings(settings: DemoSettings, name: str, vocab_size: int) -> ModelSettings:
    """Return the settings of the ALBERT, the BERT of the same shape, or the BERT with as many parameters."""
    hidden_size = settings.hidden_size
    albert = replace(
        BASE_MODEL,
        hidden_size=hidden_size,
        heads=BASE_MODEL.heads if settings.text else WORLD_HEADS,
        vocab_size=vocab_size,
        norm_first=hidden_size >= _ROTARY_WIDTH,
        rotary=hidden_size >= _ROTARY_WIDTH,
    )
    if name == "albert":
        return albert
    return bert_of_same_shape(albert) if name == "bert" else bert_of_same_size(albert)


def pretrain_settings(
    settings: DemoSettings, name: str, model: ModelSettings, corpus: Path, minutes: float | None = None
) -> PretrainSettings:
    """Return the settings of pre-training a model, for some minutes or else for the steps of the ALBERT."""
    seed = settings.seed
    train = PretrainTrainSettings(
        minutes=minutes,
        batch_tokens=BATCH_TOKENS,
        lr=None if settings.text else LEARNING_RATES[name],
        seed=seed,
    )
    if minutes is None:
        steps = run_lengths(settings).pretraining_steps
        train = replace(train, steps=steps, evaluate_every=-(-steps // 15))
    return PretrainSettings(
        corpus=corpus,
        model=model,
        objective=ObjectiveSettings(
            max_length=BASE_MODEL.max_length, mlm_probability=MLM_PROBABILITY, seed=seed
        ),
        curriculum=CurriculumSettings(depth=GROW if name == "albert" else None),
        train=train,
    )


def finetune_settings(settings: DemoSettings, name: str, out: Path) -> FinetuneSettings:
    """Return the settings of fine-tuning on a task; `out` is the folder of the demo."""
    demo_task, steps, cloze = DEMO_TASKS[name], run_lengths(settings).finetuning_steps, out / "cloze"
    return FinetuneSettings(
        task=demo_task.task,
        data=str(out / "world" if demo_task.uses_world else cloze / "train.jsonl"),
        dev=None if demo_task.uses_world else str(cloze / "dev.jsonl"),
        mark_matches=demo_task.mark_matches,
        train=FinetuneTrainSettings(
            steps=steps,
            batch_size=demo_task.batch_size,
            lr=demo_task.lr,
            optimizer=demo_task.optimizer,
            seed=settings.seed,
            evaluate_every=steps,
        ),
    )
