"""Converts a checkpoint to the layout of `transformers` and verifies that its outputs are the same."""

import shutil
from pathlib import Path

import torch

from albertine import progress
from albertine.atomic import atomic_folder
from albertine.errors import WorkError
from albertine.interop.hub import TASK_CARD_FILE, locate_checkpoint
from albertine.interop.layer_sharing import SharedModel, share_layers
from albertine.interop.load import load_checkpoint
from albertine.interop.load_checkpoint import load_folder
from albertine.interop.save_checkpoint import checkpoint_writer
from albertine.interop.sentence_transformers_folder import has_sentence_modules, read_sentence_modules
from albertine.interop.verify_tokenizer import verify_tokenizer
from albertine.interop.write_sentence_modules import write_sentence_modules
from albertine.model.model import Model
from albertine.model.parameter_counts import count_parameters
from albertine.model.strip import Strip
from albertine.model.trial_strip import trial_strip
from albertine.settings import ModelSettings
from albertine.storage.objects import display_path
from albertine.storage.upload import check_output_folder, output_folder
from albertine.text.tokenizer import has_tokenizer, load_tokenizer


def convert_checkpoint(source: str, destination: Path, *, rank: int | None = None) -> None:
    """Convert a checkpoint to the layout of `transformers`.

    `destination` is created only after the converted copy has been verified.

    Args:
        source: folder or hub name.
        destination: folder to write, or its URL on object storage; must not exist yet, or be empty.
        rank: rank of the differences between layers, to make them share their weights (`share_layers`).
    """
    check_output_folder(destination)
    folder = locate_checkpoint(source)
    modules = read_sentence_modules(folder) if has_sentence_modules(folder) else None
    if modules is not None:
        folder = modules.model_folder
    model = load_checkpoint(folder, encoder_only=True).eval()
    without = model.missing_parameters
    original_settings, sharing = model.settings, None
    if rank is not None:
        sharing = share_layers(model, rank)
        model = sharing.model
    tokenizer = load_tokenizer(folder) if has_tokenizer(folder) else None
    with output_folder(destination) as local, atomic_folder(local) as copy:
        checkpoint_writer(model, tokenizer=tokenizer, without=without)(copy)
        if modules is not None:
            write_sentence_modules(copy, modules, model.settings)
        if (folder / TASK_CARD_FILE).is_file():  # of a fine-tuned model
            shutil.copyfile(folder / TASK_CARD_FILE, copy / TASK_CARD_FILE)
        verify_copy(model, load_folder(copy, encoder_only=True).eval(), copy)
        ids_result = verify_tokenizer(tokenizer, load_tokenizer(copy), source) if tokenizer else ""
    name = display_path(destination)
    if sharing is None:
        progress.print_message(f"{name}: written and verified; its outputs equal those of {source}")
    else:
        progress.print_message(f"{name}: written; {_sharing_summary(original_settings, sharing)}")
    if ids_result:
        progress.print_message(f"{name}: {ids_result}")
    if tokenizer is None:
        progress.print_message(
            f"{name}: without a tokenizer; {source} has none (tokenizer.json, spiece.model or vocab.txt)"
        )


def _sharing_summary(original: ModelSettings, sharing: SharedModel) -> str:
    before, after = (count_parameters(s).encoder for s in (original, sharing.model.settings))
    return (
        f"{after:,} parameters in place of {before:,}; the matrices of its layers differ from those of the "
        f"original by {sharing.relative_error:.0%} of their size ({sharing.relative_error_of_mean:.0%} if "
        "all layers were the same). albertine probe --original measures what is kept. Train it further: "
        "albertine pretrain --init-from, or albertine finetune"
    )


def verify_copy(model: Model, copy: Model, folder: Path) -> None:
    """Raise `WorkError` if the outputs of model and copy for a few random sequences differ in any bit.

    Args:
        model: the source.
        copy: the copy, loaded again.
        folder: folder of the copy, for the error message.
    """
    num_segments = min(2, model.settings.segments)
    strip = trial_strip(model, (8, 3, 16, 8), torch.Generator().manual_seed(0), num_segments)
    with torch.inference_mode():
        expected, actual = (_all_outputs(net, strip) for net in (model, copy))
    if not all(torch.equal(a, b) for a, b in zip(expected, actual, strict=True)):
        raise WorkError(f"{folder}: the outputs differ from those of the source; the copy was deleted")


def _all_outputs(model: Model, strip: Strip) -> list[torch.Tensor]:
    """Return the hidden states, and what the heads of all steps of depth predict."""
    outputs = [model(strip), *(model(strip, depth=step + 1) for step in range(len(model.exit_heads)))]
    hidden = list(model.encoder.hidden_states(strip))
    units = [] if model.exit_unit is None else [model.exit_unit(hidden[0], hidden[-1])]
    return [hidden[-1], *units, *(tensor for output in outputs for tensor in _output_tensors(output))]


def _output_tensors(output: object) -> list[torch.Tensor]:
    """Return all tensors of a head's output, nested ones included."""
    tensors: list[torch.Tensor] = []
    for value in vars(output).values():
        if isinstance(value, torch.Tensor):
            tensors.append(value)
        elif hasattr(value, "__dict__"):
            tensors += _output_tensors(value)
    return tensors
