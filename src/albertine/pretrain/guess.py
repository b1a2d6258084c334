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

from albertine.errors import InputError
from albertine.interop.hub import locate
from albertine.interop.load import load_checkpoint
from albertine.model.encoder import Computation
from albertine.model.network import Model
from albertine.model.strip import Strip
from albertine.settings import MODELS
from albertine.settings.schema import shortened
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.text.unicode import refuse_broken
from albertine.train.machine import choose_precision
from albertine.train.ranks import choose_device


@dataclass(frozen=True)
class Guess:
    """One piece that may stand behind a mask.

    Attributes:
        piece: as the vocabulary has it.
        score: its probability.
    """

    piece: str
    score: float


class Guesser:
    """A pre-trained model as functions of text; threads may share one.

    Attributes:
        model: the network.
        tokenizer: what gives it ids.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, device: torch.device):
        self.model, self.tokenizer, self._device = model.to(device).eval(), tokenizer, device

    @property
    def mask(self) -> str:
        """How the vocabulary spells what hides a piece."""
        return self.tokenizer.pieces[self.tokenizer.special.mask]

    def fill(self, text: str, *, best: int = 5) -> list[list[Guess]]:
        """Return the likeliest pieces behind each [MASK] of a text, in order."""
        return self.guesses(*self.masked(text), best)

    def masked(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """Return a text as ids and types, and the places of its masks."""
        ids, types = self._framed(text)
        masks = [at for at, one in enumerate(ids) if one == self.tokenizer.special.mask]
        if not masks:
            raise InputError(f"{shortened(text) or 'an empty text'}: has no {self.mask} to fill")
        return ids, types, masks

    def guesses(
        self, ids: Sequence[int], types: Sequence[int], places: Sequence[int], best: int
    ) -> list[list[Guess]]:
        """Return the likeliest pieces at some places of a sequence."""
        strip = Strip.from_sequences([ids], [types]).to(self._device)
        with torch.inference_mode():
            out = self.model(strip)
        logits = getattr(out, "masked", out).logits[list(places)]
        # Rows beyond the vocabulary, of a table that was rounded up, are no pieces.
        likely = logits[:, : len(self.tokenizer)].float().softmax(1).topk(min(best, len(self.tokenizer)))
        return [
            [Guess(self.tokenizer.pieces[at], score) for score, at in zip(scores, found, strict=True)]
            for scores, found in zip(likely.values.tolist(), likely.indices.tolist(), strict=True)
        ]

    @property
    def orders(self) -> bool:
        """Whether the model has a head for pairs."""
        return self.model.head_settings.kind == "pretrain"

    def order(self, first: str, second: str) -> float:
        """Return the chance that two segments stand in this order, and not swapped.

        Of a model that learned NSP, the chance that they are of one document.
        """
        return self.ordered(*self.paired(first, second))

    def paired(self, first: str, second: str) -> tuple[list[int], list[int]]:
        """Return two segments as ids and types."""
        if not self.orders:
            raise InputError("order: the model has no head for pairs; it can only fill masks")
        return self._framed(first, second)

    def ordered(self, ids: Sequence[int], types: Sequence[int]) -> float:
        """Return the same chance, of what is ids already."""
        with torch.inference_mode():
            logits: Tensor = self.model(Strip.from_sequences([ids], [types]).to(self._device)).pair_logits
        return float(logits[0].float().softmax(0)[0])

    def _framed(self, text: str, other: str | None = None) -> tuple[list[int], list[int]]:
        for one in (text, other):
            if one is not None:
                refuse_broken(one, "text")
        ids, types = self.tokenizer.framed(text, other)
        longest = self.model.model.max_length
        if len(ids) > longest:
            raise InputError(f"{shortened(text)}: {len(ids)} pieces; the model takes {longest}")
        return ids, types


def guesser(
    source: str | Path, *, device: str = "auto", precision: str = "fp32", revision: str | None = None
) -> Guesser:
    """Open a pre-trained model as functions: masks to fill, segments to order.

    Args:
        source: a run, a checkpoint's folder (also of `transformers` or Google's), or a hub name.
        device: auto, cpu or cuda.
        precision: of the matrix products: auto, fp32 or bf16.
        revision: which branch, tag or commit of a hub repository.
    """
    name = str(source)
    if name in MODELS:
        raise InputError(f"{name}: a preset, with nothing learned; name a checkpoint")
    folder = locate(name, revision)
    model = load_checkpoint(folder)
    if not fills_masks(model):
        kind = model.head_settings.kind
        raise InputError(f"{name}: its head is for {kind}; only a pre-trained model fills masks")
    return guesser_in(folder, model, device, precision)


def fills_masks(model: Model) -> bool:
    """Tell whether a model has a head for masks."""
    return model.head_settings.kind in ("pretrain", "mlm")


def guesser_in(folder: Path, model: Model, device: str, precision: str = "fp32") -> Guesser:
    """Make a checkpoint that is loaded ready to be asked."""
    chosen = choose_device(device)
    model.encoder.computation = Computation(choose_precision(precision, chosen))
    return Guesser(model, load_tokenizer(folder), chosen)
