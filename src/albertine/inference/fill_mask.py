"""`albertine.fill_mask_pipeline`: a pre-trained model that fills masks, scores texts and orders two texts.

fill_mask = albertine.fill_mask_pipeline("runs/first")
fill_mask.fill("The [MASK] was locked.")                       five predictions for each mask
fill_mask.score(["The door was locked."])                      pseudo-log-likelihood of each text
fill_mask.order_probability("He took the key.", "It fitted.")  probability that they are in order
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from albertine.display import display_text
from albertine.engines.engine import Engine, check_finite
from albertine.engines.exported_folder import open_export
from albertine.engines.selection import prepare_engine
from albertine.errors import InputError
from albertine.inference.masked_copies import ScoringMethod
from albertine.inference.pseudo_likelihood import PseudoLikelihoodScorer, TextScore
from albertine.interop.hub import is_export, locate_model
from albertine.interop.load import load_masked_lm
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings.engine import EngineName, EngineOptions
from albertine.settings.exit_rule import ExitRule, check_depth
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.text.unicode_check import check_text


@dataclass(frozen=True)
class TokenPrediction:
    """A token predicted for a mask.

    Attributes:
        token: the token as in the vocabulary.
        score: its probability.
    """

    token: str
    score: float


class FillMaskPipeline:
    """Fills masks and scores the order of texts with a pre-trained model; threads may share it.

    Attributes:
        engine: runs the model.
        tokenizer: tokenizer of the model.
        scorer: scores texts with pseudo-log-likelihoods.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer):
        self.engine, self.tokenizer = engine, tokenizer
        self.scorer = PseudoLikelihoodScorer(engine, tokenizer)

    @property
    def mask_token(self) -> str:
        """The mask token as the vocabulary spells it."""
        return self.tokenizer.vocabulary[self.tokenizer.special_ids.mask]

    def fill(self, text: str, *, top_k: int = 5, depth: int | None = None) -> list[list[TokenPrediction]]:
        """Return the most probable tokens for each [MASK] of a text, best first.

        Args:
            text: a text with [MASK] in it.
            top_k: number of tokens for each mask.
            depth: number of steps of depth; None for those of the model.
        """
        return self.predict_tokens(*self.encode_masked_text(text), top_k, depth)

    def encode_masked_text(self, text: str) -> tuple[list[int], list[int], list[int]]:
        """Return token ids and segments of a text, each [tokens], and the positions of its masks, [masks]."""
        ids, segments = self._encode(text)
        positions = [
            position for position, token_id in enumerate(ids) if token_id == self.tokenizer.special_ids.mask
        ]
        if not positions:
            raise InputError(f"{display_text(text) or 'an empty text'}: has no {self.mask_token} to fill")
        return ids, segments, positions

    def predict_tokens(
        self,
        ids: Sequence[int],
        segments: Sequence[int],
        positions: Sequence[int],
        top_k: int,
        depth: int | None = None,
    ) -> list[list[TokenPrediction]]:
        """Return the most probable tokens at each of some positions of a sequence, best first.

        Args:
            ids: token ids of the sequence.
            segments: segment of each token.
            positions: the positions in the sequence.
            top_k: number of tokens for each position.
            depth: number of steps of depth; None for those of the model.
        """
        check_depth(depth)
        if type(top_k) is not int or top_k < 1:
            raise InputError(f"top_k {top_k}: must be an integer, at least 1")
        strip = Strip.from_sequences([ids], [segments])
        if depth is None:
            output = self.engine.run(strip)
        else:
            output = self.engine.run_with_exits(strip, ExitRule(depth=depth)).output
        masked_lm_output = getattr(output, "masked", output)  # a pre-training head also has pair logits
        logits: Tensor = masked_lm_output.logits[list(positions)]  # [positions, vocab]
        # Some checkpoints round the vocabulary size up; the additional logits belong to no token.
        probabilities = logits[:, : len(self.tokenizer)].float().softmax(1)
        check_finite(probabilities.cpu().numpy())
        top = probabilities.topk(min(top_k, len(self.tokenizer)))
        return [
            [
                TokenPrediction(self.tokenizer.vocabulary[token_id], score)
                for score, token_id in zip(scores, token_ids, strict=True)
            ]
            for scores, token_ids in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ]

    def scorer_at(self, depth: int | None) -> PseudoLikelihoodScorer:
        """Return a scorer that takes a number of steps of depth; None for those of the model."""
        check_depth(depth)
        if depth is None:
            return self.scorer
        return PseudoLikelihoodScorer(self.engine, self.tokenizer, depth)

    def score(
        self, texts: Sequence[str], *, method: ScoringMethod = "word-l2r", depth: int | None = None
    ) -> list[TextScore]:
        """Return the pseudo-log-likelihoods of texts, in order; see `pseudo_likelihood`.

        Args:
            texts: the texts.
            method: tokens that are masked with the predicted one: "word-l2r" for those after it in the same
                word, "token" for none. With "left-to-right", no token is masked, and each is predicted from
                those before it.
            depth: number of steps of depth; None for those of the model.
        """
        return self.scorer_at(depth).score(texts, method)

    @property
    def has_pair_head(self) -> bool:
        """Whether the model has a pair head."""
        return self.engine.head_settings.kind == "pretrain"

    def order_probability(self, first: str, second: str) -> float:
        """Return the probability that two texts are in this order and not swapped.

        If the model was trained with NSP, it is the probability that they are from one document.
        """
        return self.order_probability_of_ids(*self.encode_pair(first, second))

    def encode_pair(self, first: str, second: str) -> tuple[list[int], list[int]]:
        """Return token ids and segments of a pair of texts, each [tokens]."""
        if not self.has_pair_head:
            raise InputError("order: the model has no pair head; it can only fill masks")
        check_text(second, "second text")
        return self._encode(first, second)

    def order_probability_of_ids(self, ids: Sequence[int], segments: Sequence[int]) -> float:
        """Return the probability that an encoded pair is in order; see `order_probability`."""
        logits: Tensor = self.engine.run(Strip.from_sequences([ids], [segments])).pair_logits  # [1, 2]
        probabilities = check_finite(logits[0].float().softmax(0).cpu().numpy())
        return float(probabilities[0])  # label 1 is a swapped or random pair

    def _encode(self, text: str, other: str | None = None) -> tuple[list[int], list[int]]:
        check_text(text, "text")
        ids, segments = self.tokenizer.encode_with_special_tokens(text, other)
        max_length = self.engine.model_settings.max_length
        if len(ids) > max_length:
            raise InputError(f"{display_text(text)}: {len(ids)} tokens; the model takes {max_length}")
        return ids, segments


def fill_mask_pipeline(
    source: str | Path,
    *,
    device: str = "auto",
    precision: str = "fp32",
    engine: EngineName | None = None,
    revision: str | None = None,
) -> FillMaskPipeline:
    """Load a pre-trained model to fill masks and to score the order of two texts.

    Args:
        source: a run, the folder of a checkpoint (also of `transformers` or Google) or of an export, or the
            hub name of one of these.
        device: "auto", "cpu" or "cuda".
        precision: precision of the matrix products: "auto", "fp32" or "bf16".
        engine: library that runs the model: "torch", "onnxruntime" or "openvino"; "auto" is the fastest one
            that is installed, None is torch, or the library of an export.
        revision: branch, tag or commit of a hub repository.
    """
    folder = locate_model(source, revision)
    return fill_mask_pipeline_in(folder, source, EngineOptions(device, precision, engine))


def fill_mask_pipeline_in(
    folder: Path, source: str | Path, options: EngineOptions, *, can_exit: bool = False
) -> FillMaskPipeline:
    """Return the pipeline of a model in a local folder; errors name it as the user did, `source`.

    With `can_exit`, predictions may be taken after fewer or more steps than the model has.
    """
    if is_export(folder):
        return exported_fill_mask_pipeline(str(source), folder, options)
    return make_fill_mask_pipeline(folder, load_masked_lm(folder, source), options, can_exit=can_exit)


def exported_fill_mask_pipeline(name: str, folder: Path, options: EngineOptions) -> FillMaskPipeline:
    """Return a pipeline for a pre-trained model that was exported into a folder; errors have its name."""
    engine = open_export(folder, options)
    kind = engine.head_settings.kind
    if kind not in ("pretrain", "mlm"):
        raise InputError(f"{name}: its head is {kind}; only a pre-trained model predicts masked tokens")
    return FillMaskPipeline(engine, load_tokenizer(folder, engine.model_settings.vocab_size))


def make_fill_mask_pipeline(
    folder: Path, model: Model, options: EngineOptions, *, can_exit: bool = False
) -> FillMaskPipeline:
    """Return a pipeline for a loaded model and the tokenizer of its folder; see `fill_mask_pipeline_in`."""
    tokenizer = load_tokenizer(folder, model.settings.vocab_size)
    return FillMaskPipeline(prepare_engine(model, options, can_exit=can_exit), tokenizer)
