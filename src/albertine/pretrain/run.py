"""A pre-training run, from its settings to a folder that is a model."""

from contextlib import ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.device import choose_precision
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.pretrain.curve_plot import CURVE_FILE, draw_curve
from albertine.pretrain.local_start import apply_local_start
from albertine.pretrain.plateau import PlateauDetector
from albertine.pretrain.pretraining import Pretraining
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.setup import load_init_checkpoint, make_network, open_corpus, resolved_settings
from albertine.pretrain.unigram_baseline import TokenFrequencies, set_unigram_bias
from albertine.settings import ModelSettings, build_settings
from albertine.train.distributed import Distributed, broadcast_parameters, init_distributed
from albertine.train.recorder import RunRecorder
from albertine.train.run_folder import has_checkpoints, read_run_settings, run_lock
from albertine.train.sharding import shard_model
from albertine.train.trackers import check_tracker_installed
from albertine.train.trainer import Trainer

# What may change when a run goes on: where and how fast it computes, and what it keeps and tells.
_CHANGEABLE_SETTINGS = frozenset(
    {"corpus", "device", "workers"}  # a corpus is known by its checksums, wherever it lies
    | {f"train.{key}" for key in ("at_once", "recompute", "compile", "shard", "track", "keep")}
    | {f"train.{key}" for key in ("save_every", "save_minutes")}
)


def pretrain(run: Path, settings: PretrainSettings, given_keys: frozenset[str]) -> dict[str, float]:
    """Pre-train into a folder, or go on where that was broken off; return the last held-out scores."""
    check_tracker_installed(settings.train.tracker)
    corpus = open_corpus(settings.corpus)
    with init_distributed(settings.device) as distributed, ExitStack() as stack:
        started_model = _started_model(run, settings)
        init_network = None if started_model else load_init_checkpoint(settings.init_from, corpus)
        init_model = started_model or (init_network.settings if init_network else None)
        settings = resolved_settings(settings, corpus, init_model, given_keys, distributed.world_size)
        distributed.run_on_main(lambda: stack.enter_context(run_lock(run, settings, _CHANGEABLE_SETTINGS)))
        trainer, recorder = build_trainer(run, settings, corpus, init_network, distributed)
        if trainer.is_finished:
            progress.print_message(f"{run}: has taken all its {settings.train.steps:,} steps")
            if distributed.is_main and not (run / CURVE_FILE).exists():
                draw_curve(run)
            return trainer.scores
        with (
            recorder.open(trainer.last_saved_step, asdict(settings)) if distributed.is_main else nullcontext()
        ):
            trainer.run()
        if distributed.is_main:
            draw_curve(run)
        return trainer.scores


def _initialize_weights(network: Model, settings: PretrainSettings, frequencies: TokenFrequencies) -> None:
    """Let fresh weights know what every run would learn first."""
    if settings.unigram_start:
        set_unigram_bias(network, frequencies)
    if settings.uses_local_start:
        apply_local_start(network, settings.train.seed, settings.depth_at(0))


def _started_model(run: Path, settings: PretrainSettings) -> ModelSettings | None:
    """Return the network of a run that began with a checkpoint, which it needs no longer."""
    if settings.init_from is None or not has_checkpoints(run):
        return None
    return build_settings(PretrainSettings, read_run_settings(run, PretrainSettings)).model


def build_trainer(
    run: Path,
    settings: PretrainSettings,
    corpus: Corpus,
    init_network: Model | None,
    distributed: Distributed,
    trainable_type: type[Pretraining] = Pretraining,
) -> tuple[Trainer, RunRecorder]:
    """Put a run together from settled settings; it goes on from its newest checkpoint, if it has one."""
    frequencies = TokenFrequencies.from_corpus(corpus)
    network = make_network(settings, init_network)
    train = settings.train
    dtype = choose_precision(train.precision, distributed.device)
    network.encoder.compute_options = ComputeOptions(dtype, train.recompute, train.compile)
    if init_network is None and not has_checkpoints(run):
        _initialize_weights(network, settings, frequencies)
    network.to(distributed.device)
    broadcast_parameters(network, distributed)
    if train.shard and distributed.world_size > 1:
        shard_model(network, distributed)
    unigram_loss = frequencies.baseline_loss(PretrainDataset(corpus, settings.objective_at(0)))
    plateau_detector = PlateauDetector(
        settings, unigram_loss, frequencies.frequency(corpus.tokenizer.special_ids.unk)
    )
    micro_batch_tokens = train.micro_batch_tokens or (32_768 if distributed.device.type == "cuda" else 4_096)
    trainable = trainable_type(
        corpus, settings, distributed, plateau_detector, max(micro_batch_tokens, settings.longest_sample())
    )
    recorder = RunRecorder(run, train, {"mlm": ("unigram", unigram_loss)})
    return Trainer(network, trainable, train, recorder, distributed, dtype), recorder
