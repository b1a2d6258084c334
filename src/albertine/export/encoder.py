"""`albertine export --task embed`: an encoder as a folder that gives vectors of texts in another library."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

from albertine.atomic import atomic_folder
from albertine.engines.conversion import check_convertible
from albertine.engines.encoder_engine import SENTENCE_EMBEDDING
from albertine.engines.exported_folder import open_exported_encoder
from albertine.engines.packed_rows import pack_rows
from albertine.export.embedding_accuracy import create_embedding_judge
from albertine.export.encoder_readme import write_encoder_readme
from albertine.export.judged_int8 import quantize_judged
from albertine.export.result import ExportResult, check_export, write_pipeline, write_record
from albertine.export.settings import ExportSettings
from albertine.inference.embedding import make_embedding_pipeline, modules_of_folder
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load_encoder
from albertine.interop.save_checkpoint import write_encoder_config
from albertine.interop.sentence_transformers_folder import SentenceModules
from albertine.interop.write_sentence_modules import write_sentence_modules
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings.engine import EngineOptions
from albertine.storage.objects import display_path
from albertine.storage.upload import output_folder
from albertine.text.tokenizer import Tokenizer

_GRAPH_SUFFIXES = (".onnx", ".data", ".xml", ".bin")


def export_encoder(source: str | Path, out: Path, settings: ExportSettings, *, force: bool) -> ExportResult:
    """Export the encoder of any model, verify it, and return what was exported; see `export`."""
    check_export(out, settings, force=force)
    modules = modules_of_folder(locate_checkpoint(source))
    model = load_encoder(modules.model_folder)
    check_convertible(model, str(source))
    embed = make_embedding_pipeline(modules, model, EngineOptions("cpu", "fp32"))
    judge = None
    if settings.precision == "int8":
        judge = create_embedding_judge(embed, settings, must_judge=not force)
    with output_folder(out) as local, atomic_folder(local) as partial:
        files = _write_fp32(model, modules, embed.tokenizer, partial, settings)
        difference = _verify(model, modules, partial, display_path(out))
        scores = None
        if settings.precision == "int8":
            scores = quantize_judged(
                partial, files, settings, judge, _outputs, name=display_path(out), force=force
            )
        written = [file for file in map(partial.joinpath, files) if _is_graph(file)]
        text = "" if scores is None else scores.text
        write_encoder_readme(partial, out.resolve().name, modules, embed, settings, written, text)
        num_bytes = sum(file.stat().st_size for file in written)
    return ExportResult(tuple(file.name for file in written), num_bytes, difference, scores)


def _is_graph(file: Path) -> bool:
    """Return whether a file is one of the graph; one in int8 may have none for large weights."""
    return file.suffix in _GRAPH_SUFFIXES and file.is_file()


def _write_fp32(
    model: Model, modules: SentenceModules, tokenizer: Tokenizer, partial: Path, settings: ExportSettings
) -> list[str]:
    from albertine.engines.encoder_graph import encoder_graph  # needs optional libraries
    from albertine.engines.model_files import write_graph

    files = write_graph(encoder_graph(model, modules), partial, settings.to)
    write_encoder_config(model.settings, partial, tokenizer)
    write_pipeline(tokenizer, partial)
    files += write_sentence_modules(partial, modules, model.settings)
    write_record(files, partial, settings, "fp32")
    return files


def _verify(model: Model, modules: SentenceModules, partial: Path, out: str) -> float:
    from albertine.engines.verify import verify_encoder

    engine = open_exported_encoder(partial, EngineOptions("cpu", "fp32"))
    return verify_encoder(model, modules, engine, out)


def _outputs(folder: Path, strips: Sequence[Strip]) -> Iterator[dict[str, Tensor]]:
    """Yield the hidden states of each strip, and the vectors that the graph computes from them."""
    engine = open_exported_encoder(folder, EngineOptions("cpu", "fp32"))
    for strip in strips:
        vectors = engine.run_rows(pack_rows(strip).inputs)[SENTENCE_EMBEDDING]
        yield {"hidden": engine.hidden_states(strip), "vectors": torch.from_numpy(vectors)}
