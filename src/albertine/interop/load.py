"""`albertine.load`: a model from a folder, a hub name or a preset."""

from pathlib import Path
from typing import get_args

from albertine import progress
from albertine.errors import InputError, did_you_mean
from albertine.interop.google import read_google_checkpoint
from albertine.interop.hub import locate_checkpoint
from albertine.interop.huggingface import build_model, load_folder
from albertine.interop.transformers_config import GOOGLE_CONFIG, is_google_checkpoint
from albertine.model.model import Model
from albertine.settings import MODEL_PRESETS, HeadSettings
from albertine.settings.model import HeadKind
from albertine.text import tokenizer
from albertine.text.tokenizer import Tokenizer


def load(
    source: str | Path,
    head: HeadKind | HeadSettings | None = None,
    *,
    revision: str | None = None,
    seed: int = 0,
) -> Model:
    """Load a model, ready to evaluate; call its `train()` before training it.

    Args:
        source: a checkpoint's folder (of `transformers`, or Google's own in TensorFlow's format), a hub name
            as in OWNER/NAME, or a preset's name for fresh weights.
        head: another head in place of the checkpoint's; the layers of its task are freshly drawn.
        revision: which branch, tag or commit of a hub repository.
        seed: what fresh weights are drawn from.
    """
    head_settings = _head_settings(head)
    if source in MODEL_PRESETS:
        progress.print_message(f"{source}: a preset, all weights are freshly drawn from seed {seed}")
        return Model(MODEL_PRESETS[str(source)], head_settings, seed=seed).eval()
    return load_checkpoint(locate_checkpoint(source, revision), head_settings, seed=seed)


def load_tokenizer(source: str | Path, *, revision: str | None = None) -> Tokenizer:
    """Load the tokenizer of a checkpoint, or one alone; by folder or hub name, as `load` takes it."""
    return tokenizer.load_tokenizer(locate_checkpoint(source, revision, weights=False))


def load_checkpoint(folder: Path, head: HeadSettings | None = None, *, seed: int = 0) -> Model:
    """Load a folder of `transformers` or of Google."""
    if is_google_checkpoint(folder):
        config, tensors, source = read_google_checkpoint(folder)
        return build_model(config, folder / GOOGLE_CONFIG, tensors, source, head, seed=seed)
    return load_folder(folder, head, seed=seed)


def _head_settings(head: HeadKind | HeadSettings | None) -> HeadSettings | None:
    if head is None or isinstance(head, HeadSettings):
        return head
    if head not in get_args(HeadKind):
        known = ", ".join(get_args(HeadKind))
        raise InputError(f"head {head}: unknown{did_you_mean(head, get_args(HeadKind))}; known: {known}")
    return HeadSettings(kind=head, labels=1 if head in ("regress", "choice") else 2)
