"""What a pre-trained model says when asked: the pieces behind masks, and the order of two segments.

guess = albertine.guesser("runs/first")
guess.fill("The [MASK] was locked.")           five guesses for each mask, the likeliest first
guess.order("He took the key.", "It fitted.")  the chance that they are in order
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from albertine.device import choose_precision
from albertine.errors import InputError
from albertine.interop.hub import locate_checkpoint
from albertine.interop.load import load_checkpoint
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import MODEL_PRESETS
from albertine.settings.schema import display_text
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.text.unicode_check import check_text
from albertine.train.distributed import choose_device


@dataclass(frozen=True)
class TokenPrediction:
    """One piece that may stand behind a mask.

    Attributes:
        token: as the vocabulary has it.
        score: its probability.
    """

    token: str
    score: float


class FillMaskPipeline:
    """A pre-trained model as functions of text; threads may share one.

    Attributes:
        model: the network.
        tokenizer: what gives it ids.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, device: torch.device):
        self.model, self.tokenizer, self._device = model.to(device).eval(), tokenizer, device

    @property
    def mask_token(self) -> str:
        """How the vocabulary spells what hides a piece."""
        return self.tokenizer.vocabulary[self.tokenizer.special_ids.mask]

    def fill(self, text: str, *, top_k: int = 5) -> list[list[TokenPrediction]]:
        """Return the likeliest pieces behind each [MASK] of a text, in order."""
        return self.predict_tokens(*self.encode_masked_text(text), top_k)

    def encode_masked_text(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """Return a text as ids and types, and the places of its masks."""
        ids, segments = self._encode(text)
        positions = [at for at, one in enumerate(ids) if one == self.tokenizer.special_ids.mask]
        if not positions:
            raise InputError(f"{display_text(text) or 'an empty text'}: has no {self.mask_token} to fill")
        return ids, segments, positions

    def predict_tokens(
        self, ids: Sequence[int], segments: Sequence[int], positions: Sequence[int], top_k: int
    ) -> list[list[TokenPrediction]]:
        """Return the likeliest pieces at some places of a sequence."""
        strip = Strip.from_sequences([ids], [segments]).to(self._device)
        with torch.inference_mode():
            out = self.model(strip)
        logits = getattr(out, "masked", out).logits[list(positions)]
        # Rows beyond the vocabulary, of a table that was rounded up, are no pieces.
        top = logits[:, : len(self.tokenizer)].float().softmax(1).topk(min(top_k, len(self.tokenizer)))
        return [
            [
                TokenPrediction(self.tokenizer.vocabulary[at], score)
                for score, at in zip(scores, found, strict=True)
            ]
            for scores, found in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ]

    @property
    def has_pair_head(self) -> bool:
        """Whether the model has a head for pairs."""
        return self.model.head_settings.kind == "pretrain"

    def order_probability(self, first: str, second: str) -> float:
        """Return the chance that two segments stand in this order, and not swapped.

        Of a model that learned NSP, the chance that they are of one document.
        """
        return self.order_probability_of_ids(*self.encode_pair(first, second))

    def encode_pair(self, first: str, second: str) -> tuple[list[int], list[int]]:
        """Return two segments as ids and types."""
        if not self.has_pair_head:
            raise InputError("order: the model has no head for pairs; it can only fill masks")
        return self._encode(first, second)

    def order_probability_of_ids(self, ids: Sequence[int], segments: Sequence[int]) -> float:
        """Return the same chance, of what is ids already."""
        with torch.inference_mode():
            logits: Tensor = self.model(Strip.from_sequences([ids], [segments]).to(self._device)).pair_logits
        return float(logits[0].float().softmax(0)[0])

    def _encode(self, text: str, other: str | None = None) -> tuple[list[int], list[int]]:
        for one in (text, other):
            if one is not None:
                check_text(one, "text")
        ids, segments = self.tokenizer.encode_with_special_tokens(text, other)
        max_length = self.model.settings.max_length
        if len(ids) > max_length:
            raise InputError(f"{display_text(text)}: {len(ids)} pieces; the model takes {max_length}")
        return ids, segments


def fill_mask_pipeline(
    source: str | Path, *, device: str = "auto", precision: str = "fp32", revision: str | None = None
) -> FillMaskPipeline:
    """Open a pre-trained model as functions: masks to fill, segments to order.

    Args:
        source: a run, a checkpoint's folder (also of `transformers` or Google's), or a hub name.
        device: auto, cpu or cuda.
        precision: of the matrix products: auto, fp32 or bf16.
        revision: which branch, tag or commit of a hub repository.
    """
    name = str(source)
    if name in MODEL_PRESETS:
        raise InputError(f"{name}: a preset, with nothing learned; name a checkpoint")
    folder = locate_checkpoint(name, revision)
    model = load_checkpoint(folder)
    if not has_masked_head(model):
        head_kind = model.head_settings.kind
        raise InputError(f"{name}: its head is for {head_kind}; only a pre-trained model fills masks")
    return make_fill_mask_pipeline(folder, model, device, precision)


def has_masked_head(model: Model) -> bool:
    """Tell whether a model has a head for masks."""
    return model.head_settings.kind in ("pretrain", "mlm")


def make_fill_mask_pipeline(
    folder: Path, model: Model, device: str, precision: str = "fp32"
) -> FillMaskPipeline:
    """Make a checkpoint that is loaded ready to be asked."""
    torch_device = choose_device(device)
    model.encoder.compute_options = ComputeOptions(choose_precision(precision, torch_device))
    return FillMaskPipeline(model, load_tokenizer(folder), torch_device)
