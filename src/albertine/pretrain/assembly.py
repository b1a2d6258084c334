"""Assembles the trainer of a pre-training run: its model with the starts, and its data."""

from dataclasses import replace
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.model.model import Model
from albertine.pretrain.local_start import apply_local_start
from albertine.pretrain.plateau import PlateauDetector
from albertine.pretrain.pretraining import Pretraining
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import has_new_masked_head, make_model
from albertine.pretrain.unigram_baseline import TokenFrequencies, set_unigram_bias
from albertine.train.assembly import assemble_trainer
from albertine.train.distributed import Distributed
from albertine.train.micro_batch import training_micro_batch_tokens
from albertine.train.run_folder import has_checkpoints
from albertine.train.trainer import Trainer


def build_trainer(
    run: Path,
    settings: PretrainSettings,
    corpus: Corpus,
    init_model: Model | None,
    distributed: Distributed,
    trainable_type: type[Pretraining] = Pretraining,
) -> Trainer:
    """Return the trainer of a run.

    Args:
        run: folder of the run.
        settings: settings from `resolved_settings`.
        corpus: the corpus.
        init_model: the model to start from; None for random weights.
        distributed: the processes that train together.
        trainable_type: class of the data, losses and evaluation.
    """
    train, frequencies = settings.train, TokenFrequencies.from_corpus(corpus)
    model = make_model(settings, init_model)
    if not has_checkpoints(run):
        _apply_starts(model, settings, frequencies, has_new_head=has_new_masked_head(init_model))
    dataset = PretrainDataset(corpus, replace(settings.objective_at(0), causal_fraction=0.0))
    if settings.objective.text_fraction < 1 and distributed.is_main:
        chosen, documents = dataset.num_documents, corpus.manifest.documents["train"]
        progress.print_message(f"objective.text_fraction: {chosen:,} of {documents:,} documents")
    unigram_loss = frequencies.baseline_loss(dataset)
    unknown_fraction = frequencies.frequency(corpus.tokenizer.special_ids.unk)
    micro_batch_tokens = training_micro_batch_tokens(
        train, settings.model, distributed.device, settings.objective.micro_batch_fraction
    )
    trainable = trainable_type(
        corpus,
        settings,
        distributed,
        PlateauDetector(settings, unigram_loss, unknown_fraction),
        max(micro_batch_tokens, settings.longest_sample()),
    )
    baselines = {"mlm": ("unigram", unigram_loss)}
    return assemble_trainer(run, model, trainable, train, settings, distributed, baselines=baselines)


def _apply_starts(
    model: Model, settings: PretrainSettings, frequencies: TokenFrequencies, *, has_new_head: bool
) -> None:
    """Apply the unigram start to a new MLM head and the local start to new layers, as the settings say."""
    if settings.unigram_start and has_new_head:
        set_unigram_bias(model, frequencies)
    if settings.uses_local_start:
        apply_local_start(model, settings.train.seed, settings.depth_at(0))
