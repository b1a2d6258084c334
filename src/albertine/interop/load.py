"""`albertine.load`: a model with its weights; `albertine.create`: a model with fresh weights."""

from pathlib import Path
from typing import get_args

from albertine.errors import InputError, did_you_mean
from albertine.interop.google import read_google_checkpoint
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load_checkpoint import build_model, load_folder
from albertine.interop.transformers_config import google_config_file
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.model import HeadKind
from albertine.settings.presets import find_preset
from albertine.text import tokenizer
from albertine.text.tokenizer import Tokenizer


def load(
    source: str | Path,
    head: HeadKind | HeadSettings | None = None,
    *,
    revision: str | None = None,
    seed: int = 0,
) -> Model:
    """Return the model of a checkpoint, in evaluation mode; call its `train()` before training it.

    Args:
        source: folder of a checkpoint (of Albertine, `transformers` or Google), or a hub name, OWNER/NAME.
        head: head in place of the checkpoint's own; its task layers get fresh weights.
        revision: branch, tag or commit of a hub repository.
        seed: seed of fresh weights.
    """
    return load_checkpoint(locate_checkpoint(source, revision), _head_settings(head), seed=seed)


def create(
    model: str | ModelSettings, head: HeadKind | HeadSettings | None = None, *, seed: int = 0
) -> Model:
    """Return a model with fresh weights, in evaluation mode; call its `train()` before training it.

    Args:
        model: name of a preset, such as "albert-base", or settings.
        head: the head; if None, the head of pre-training.
        seed: seed of the weights.
    """
    if isinstance(model, str):
        try:
            model = find_preset(ModelSettings, model)
        except InputError as error:
            raise InputError(f"{model}: {error}") from None
    return Model(model, _head_settings(head), seed=seed).eval()


def load_tokenizer(source: str | Path, *, revision: str | None = None) -> Tokenizer:
    """Return the tokenizer of a checkpoint.

    Args:
        source: folder of a checkpoint or of a tokenizer alone, or a hub name, OWNER/NAME.
        revision: branch, tag or commit of a hub repository.
    """
    return tokenizer.load_tokenizer(locate_checkpoint(source, revision, weights=False))


def load_checkpoint(
    folder: Path, head: HeadSettings | None = None, *, seed: int = 0, encoder_only: bool = False
) -> Model:
    """Return the model in a checkpoint folder of Albertine, `transformers` or Google; see `load`.

    With `encoder_only`, the head will not be used, and no message says that it is new.
    """
    google_file = google_config_file(folder)
    if google_file is not None:
        config, tensors, source = read_google_checkpoint(google_file)
        return build_model(config, google_file, tensors, source, head, seed=seed, encoder_only=encoder_only)
    return load_folder(folder, head, seed=seed, encoder_only=encoder_only)


def load_encoder(folder: Path) -> Model:
    """Return the encoder in a checkpoint folder whatever its head is, as a model with a small unused head."""
    return load_checkpoint(folder, HeadSettings("token"), encoder_only=True)


def has_masked_head(model: Model) -> bool:
    """Return whether a model has a masked-LM head, and so can fill masks."""
    return model.head_settings.kind in ("pretrain", "mlm") and not model.missing_parameters


def check_has_head(model: Model, source: str | Path) -> None:
    """Raise `InputError` if the checkpoint of a model is that of an encoder without a head."""
    if model.missing_parameters:
        raise InputError(
            f"{source}: an encoder without a head, which predicts nothing; albertine embed gives its "
            "vectors, and pretrain --init-from and finetune train it with a new head"
        )


def load_masked_lm(folder: Path, source: str | Path) -> Model:
    """Return the model in a checkpoint folder; raise `InputError` if its head predicts no masked tokens.

    Args:
        folder: the folder.
        source: name of the model, for the error message.
    """
    model = load_checkpoint(folder)
    check_has_head(model, source)
    if not has_masked_head(model):
        kind = model.head_settings.kind
        raise InputError(f"{source}: its head is {kind}; only a pre-trained model predicts masked tokens")
    return model


def _head_settings(head: HeadKind | HeadSettings | None) -> HeadSettings | None:
    if head is None or isinstance(head, HeadSettings):
        return head
    if head not in get_args(HeadKind):
        known = ", ".join(get_args(HeadKind))
        raise InputError(f"head {head}: unknown{did_you_mean(head, get_args(HeadKind))}; known: {known}")
    return HeadSettings(kind=head, labels=1 if head in ("regress", "choice") else 2)
