"""The switches of a screening run; the defaults are ALBERT as `albertine pretrain` trains it."""

from dataclasses import dataclass
from typing import Literal

from albertine.settings import ModelSettings


@dataclass(frozen=True)
class Variation:
    """One configuration: sizes, network, initial weights, objectives and optimization.

    A schedule such as "1, 2 from 0.25, 6 from 0.7" is one of values over the fractions of the time, as
    `albertine pretrain --curriculum` has it over the fractions of the steps.

    Attributes:
        hidden_size: width of the hidden states.
        layers: applications of the shared layer.
        heads: attention heads.
        embedding_size: width of the embeddings.
        ffn_size: width of the feed-forward block; by default four times `hidden_size`, two thirds if gated.
        norm: after each block as in ALBERT, before each block with a last one, or both.
        residual_scale: factor on the output of each block.
        step_gains: whether each layer has its own factors on the outputs of both blocks.
        step_biases: whether each layer has its own biases at the inputs of both blocks.
        step_rank: rank of each layer's own difference from the shared input matrices; 0 for none.
        gated: whether the feed-forward block multiplies by a gate.
        activation: of the feed-forward block.
        rotary: whether queries and keys are rotated by their position, in place of position embeddings.
        rotary_start: with `rotary`, whether heads begin by attending to neighbouring tokens.
        value_embeddings: whether the token embedding is added to the values of every layer.
        embedding_skip: whether every layer mixes its input with the output of the embedding.
        local_start: whether heads begin by attending to neighbouring tokens.
        context_seconds: time of the context start, which is a part of `seconds`; 0 for none.
        match_heads: number of heads that begin by attending to equal tokens, rather in the other segment.
        segment_scale: factor on the initial segment embeddings.
        masked: schedule of the fraction of tokens to predict.
        only_masks: whether all tokens to predict are replaced by [MASK], and none stays or becomes random.
        ngram: maximum words that are masked together.
        length: schedule of the maximum length of samples.
        depth: schedule of the layers; by default `layers`.
        smooth: fraction of the time in which each change of depth happens: the output is then a mixture of
            those of two depths.
        causal: schedule of the share of steps that predict the next token from those before it.
        causal_targets: share of the tokens that a causal step predicts.
        causal_head: whether next tokens have their own transform before the decoder.
        batch: schedule of the tokens of a step.
        pair: objective of the segment pairs.
        copies: share of samples whose second segment is a noisy copy of the first.
        easy: schedule of the share of samples that are the easier one of two, by the frequencies of tokens.
        replaced_weight: weight of the loss of finding replaced tokens; 0 for none.
        z_loss: weight of the squared logarithm of the softmax's denominator.
        optimizer: Muon with AdamW for the rest, or AdamW alone.
        lr: peak learning rate of Muon, or of AdamW alone.
        adamw_lr: peak learning rate of AdamW beside Muon; by default that of Muon.
        warmup: fraction of the time with a rising rate.
        schedule: the rate after the warm-up.
        average: decay of the moving average of the weights that is evaluated; 0 for none.
        precision: of the matrix products in training.
        clip: largest norm of the gradient; 0 does not clip.
        seed: seed of weights and samples.
    """

    hidden_size: int = 256
    layers: int = 6
    heads: int = 4
    embedding_size: int = 128
    ffn_size: int | None = None
    norm: Literal["after", "before", "both"] = "after"
    residual_scale: float = 1.0
    step_gains: bool = False
    step_biases: bool = False
    step_rank: int = 0
    gated: bool = False
    activation: Literal["gelu", "squared-relu"] = "gelu"
    rotary: bool = False
    rotary_start: bool = False
    value_embeddings: bool = False
    embedding_skip: bool = False
    local_start: bool = True
    context_seconds: float = 0.0
    match_heads: int = 0
    segment_scale: float = 1.0
    masked: str = "0.15"
    only_masks: bool = False
    ngram: int = 3
    length: str = "128"
    depth: str | None = None
    smooth: float = 0.0
    causal: str = "0"
    causal_targets: float = 1.0
    causal_head: bool = False
    batch: str = "4096"
    pair: Literal["sop", "nsp", "none"] = "sop"
    copies: float = 0.0
    easy: str = "0"
    replaced_weight: float = 0.0
    z_loss: float = 0.0
    optimizer: Literal["muon", "adamw"] = "muon"
    lr: float = 0.00424
    adamw_lr: float | None = None
    warmup: float = 0.1
    schedule: Literal["linear", "cosine", "trapezoid"] = "linear"
    average: float = 0.0
    precision: Literal["fp32", "bf16"] = "fp32"
    clip: float = 1.0
    seed: int = 0

    @property
    def effective_ffn_size(self) -> int:
        """Width of the feed-forward block."""
        if self.ffn_size is not None:
            return self.ffn_size
        return 8 * self.hidden_size // 3 // 8 * 8 if self.gated else 4 * self.hidden_size

    def model_settings(self, vocab_size: int) -> ModelSettings:
        """Return the settings of an ALBERT of these sizes."""
        return ModelSettings(
            vocab_size=vocab_size,
            embedding_size=self.embedding_size,
            hidden_size=self.hidden_size,
            heads=self.heads,
            layers=self.layers,
        )
