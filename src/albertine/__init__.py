"""ALBERT from raw text to a served model.

    model = albertine.load("checkpoint-folder")
    strip = albertine.Strip.from_padded(input_ids, attention_mask, token_type_ids)
    hidden = model.encoder(strip)
    output = model(strip)

`__all__` is the public API; docs/api.md documents it. Most names are imported at first use,
because the command line must start without importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from albertine.errors import AlbertineError, InputError, WorkError
from albertine.version import __version__

if TYPE_CHECKING:
    from albertine.check.check import CheckReport, check_data
    from albertine.check.settings import CheckSettings
    from albertine.corpus.batches import BatchLoader
    from albertine.corpus.corpus import Corpus
    from albertine.corpus.dataset import PretrainDataset
    from albertine.corpus.settings import ObjectiveSettings
    from albertine.executors.cluster import open_cluster
    from albertine.export.export import export
    from albertine.export.result import ExportResult
    from albertine.export.settings import ExportSettings
    from albertine.finetune.finetune import finetune
    from albertine.finetune.results import FinetuneResults
    from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
    from albertine.inference.embed import embed
    from albertine.inference.evaluate import EvaluationResult, evaluate
    from albertine.inference.fill_mask import fill_mask_pipeline
    from albertine.inference.minimal_pairs import MinimalPairsResult, evaluate_minimal_pairs
    from albertine.inference.pipeline import pipeline
    from albertine.inference.predict import predict
    from albertine.inference.score import score
    from albertine.inference.settings import (
        EmbedSettings,
        EvaluateSettings,
        PredictSettings,
        ScoreSettings,
    )
    from albertine.interop.load import create, load, load_tokenizer
    from albertine.interop.save_checkpoint import save_folder as save
    from albertine.model.model import Model
    from albertine.model.strip import Strip
    from albertine.plan.plan import TrainingPlan, plan_training
    from albertine.plan.settings import PlanSettings
    from albertine.pretrain.run import pretrain
    from albertine.pretrain.settings import PretrainSettings
    from albertine.settings import HeadSettings, ModelSettings
    from albertine.tasks.settings import SequenceSettings
    from albertine.text.tokenizer import Tokenizer
    from albertine.train.settings import PretrainTrainSettings

_LAZY_EXPORTS = {
    "BatchLoader": ("albertine.corpus.batches", "BatchLoader"),
    "CheckReport": ("albertine.check.check", "CheckReport"),
    "CheckSettings": ("albertine.check.settings", "CheckSettings"),
    "Corpus": ("albertine.corpus.corpus", "Corpus"),
    "EmbedSettings": ("albertine.inference.settings", "EmbedSettings"),
    "EvaluateSettings": ("albertine.inference.settings", "EvaluateSettings"),
    "EvaluationResult": ("albertine.inference.evaluate", "EvaluationResult"),
    "ExportResult": ("albertine.export.result", "ExportResult"),
    "ExportSettings": ("albertine.export.settings", "ExportSettings"),
    "FinetuneResults": ("albertine.finetune.results", "FinetuneResults"),
    "FinetuneSettings": ("albertine.finetune.settings", "FinetuneSettings"),
    "FinetuneTrainSettings": ("albertine.finetune.settings", "FinetuneTrainSettings"),
    "HeadSettings": ("albertine.settings", "HeadSettings"),
    "MinimalPairsResult": ("albertine.inference.minimal_pairs", "MinimalPairsResult"),
    "Model": ("albertine.model.model", "Model"),
    "ModelSettings": ("albertine.settings", "ModelSettings"),
    "ObjectiveSettings": ("albertine.corpus.settings", "ObjectiveSettings"),
    "PlanSettings": ("albertine.plan.settings", "PlanSettings"),
    "PredictSettings": ("albertine.inference.settings", "PredictSettings"),
    "PretrainDataset": ("albertine.corpus.dataset", "PretrainDataset"),
    "PretrainSettings": ("albertine.pretrain.settings", "PretrainSettings"),
    "PretrainTrainSettings": ("albertine.train.settings", "PretrainTrainSettings"),
    "ScoreSettings": ("albertine.inference.settings", "ScoreSettings"),
    "SequenceSettings": ("albertine.tasks.settings", "SequenceSettings"),
    "Strip": ("albertine.model.strip", "Strip"),
    "Tokenizer": ("albertine.text.tokenizer", "Tokenizer"),
    "TrainingPlan": ("albertine.plan.plan", "TrainingPlan"),
    "check_data": ("albertine.check.check", "check_data"),
    "create": ("albertine.interop.load", "create"),
    "embed": ("albertine.inference.embed", "embed"),
    "evaluate": ("albertine.inference.evaluate", "evaluate"),
    "evaluate_minimal_pairs": ("albertine.inference.minimal_pairs", "evaluate_minimal_pairs"),
    "export": ("albertine.export.export", "export"),
    "fill_mask_pipeline": ("albertine.inference.fill_mask", "fill_mask_pipeline"),
    "finetune": ("albertine.finetune.finetune", "finetune"),
    "load": ("albertine.interop.load", "load"),
    "load_tokenizer": ("albertine.interop.load", "load_tokenizer"),
    "open_cluster": ("albertine.executors.cluster", "open_cluster"),
    "pipeline": ("albertine.inference.pipeline", "pipeline"),
    "plan_training": ("albertine.plan.plan", "plan_training"),
    "predict": ("albertine.inference.predict", "predict"),
    "pretrain": ("albertine.pretrain.run", "pretrain"),
    "save": ("albertine.interop.save_checkpoint", "save_folder"),
    "score": ("albertine.inference.score", "score"),
}

__all__ = [
    "AlbertineError",
    "BatchLoader",
    "CheckReport",
    "CheckSettings",
    "Corpus",
    "EmbedSettings",
    "EvaluateSettings",
    "EvaluationResult",
    "ExportResult",
    "ExportSettings",
    "FinetuneResults",
    "FinetuneSettings",
    "FinetuneTrainSettings",
    "HeadSettings",
    "InputError",
    "MinimalPairsResult",
    "Model",
    "ModelSettings",
    "ObjectiveSettings",
    "PlanSettings",
    "PredictSettings",
    "PretrainDataset",
    "PretrainSettings",
    "PretrainTrainSettings",
    "ScoreSettings",
    "SequenceSettings",
    "Strip",
    "Tokenizer",
    "TrainingPlan",
    "WorkError",
    "__version__",
    "check_data",
    "create",
    "embed",
    "evaluate",
    "evaluate_minimal_pairs",
    "export",
    "fill_mask_pipeline",
    "finetune",
    "load",
    "load_tokenizer",
    "open_cluster",
    "pipeline",
    "plan_training",
    "predict",
    "pretrain",
    "save",
    "score",
]

# The first import of a subpackage binds its name in this module. Import these now and remove their
# names, so that `albertine.finetune` and the others are the functions of `_LAZY_EXPORTS`.
for _package in ("export", "finetune", "pretrain"):
    import_module(f"{__name__}.{_package}")
    del globals()[_package]


def __dir__() -> list[str]:
    """Return the public API."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    """Return a name of the public API, imported when it is used."""
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module 'albertine' has no attribute {name!r}")
    module, attribute = _LAZY_EXPORTS[name]
    return getattr(import_module(module), attribute)
