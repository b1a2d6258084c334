"""The number of parameters of a model, part by part, from its settings alone.

The parts are those of the network: embeddings of width E, a projection from E to H if they
differ, attention and FFN blocks, and the pre-training heads. LayerNorms are counted separately,
and so are what controls the depth (the signal of the step, the unit for halting) and what each
layer has of its own beside the shared blocks.
Each attention or FFN block contains one norm, so sharing a block shares its norm.
"""

from dataclasses import dataclass, replace

from albertine.model.step_shapes import matrix_shapes, vector_sizes
from albertine.settings import HeadSettings, ModelSettings


@dataclass(frozen=True)
class ParameterCounts:
    """Exact parameter counts of the encoder's parts, the pooler and the heads.

    Attributes:
        task_head: what a fine-tuned model has above its encoder and pooler, with all heads of its exits.
    """

    token_embedding: int
    position_embedding: int
    segment_embedding: int
    projection: int
    attention: int
    ffn: int
    layer_norms: int
    depth_control: int
    step_differences: int
    pooler: int
    mlm_head: int
    pair_head: int
    task_head: int = 0

    @property
    def pretraining_heads(self) -> int:
        """Parameters that only pre-training uses, without the MLM decoder, which is the token embedding."""
        return self.mlm_head + self.pair_head

    @property
    def encoder(self) -> int:
        """Parameters of the encoder with its pooler, which fine-tuning starts from."""
        return self.total - self.pretraining_heads - self.task_head

    @property
    def total(self) -> int:
        """All parameters."""
        return sum(getattr(self, part) for part in self.__dataclass_fields__)


def count_parameters(model: ModelSettings) -> ParameterCounts:
    """Return the parameter counts of a model with the pre-training heads."""
    v, e, h, f = model.vocab_size, model.embedding_size, model.hidden_size, model.effective_ffn_size
    embedding_norm = 2 * e
    last_norm = 1 if model.norm_first else 0
    norms = 2 * h * (model.attention_block_count + model.ffn_block_count + last_norm)
    return ParameterCounts(
        token_embedding=v * e,
        position_embedding=0 if model.rotary else model.max_length * e,
        segment_embedding=(model.segments + (1 if model.mark_matches else 0)) * e,
        projection=e * h + h if model.has_projection else 0,
        attention=model.attention_block_count * 4 * (h * h + h),
        ffn=model.ffn_block_count * (h * f + f + f * h + h),
        layer_norms=embedding_norm + norms,
        depth_control=(h if model.step_signal else 0) + (h + 1 if model.depth_rule == "halting" else 0),
        step_differences=_count_step_differences(model),
        pooler=h * h + h,
        mlm_head=(h * e + e) + 2 * e + v,
        pair_head=2 * h + 2,
    )


def _count_step_differences(model: ModelSettings) -> int:
    matrices = model.step_rank * sum(map(sum, matrix_shapes(model).values()))
    vectors = sum(sum(sizes.values()) for sizes in vector_sizes(model)) if model.step_vectors else 0
    return model.layers * (matrices + vectors)


def count_task_parameters(model: ModelSettings, head: HeadSettings) -> int:
    """Return the number of parameters of the head of a task, without the smallest biases.

    The pooler of the last head counts as part of the encoder; those of own heads of earlier steps do not.
    """
    h = model.hidden_size
    if head.co_matching:
        task_layers = 5 * h * h + 6 * h
    elif head.matching:
        task_layers = 6 * h * h + h + 3 * head.labels * h
    else:
        task_layers = head.labels * h
    has_pooler = head.kind not in ("token", "span") and not head.co_matching
    earlier_heads = model.layers - 1 if head.exits == "own" else 0
    return task_layers + earlier_heads * (task_layers + (h * h + h if has_pooler else 0))


def bert_of_same_shape(model: ModelSettings) -> ModelSettings:
    """Return a BERT of the same width and depth: no sharing, and embeddings as wide as the hidden states."""
    return ModelSettings(  # not a changed copy, which would keep what BERT lacks
        vocab_size=model.vocab_size,
        embedding_size=model.hidden_size,
        hidden_size=model.hidden_size,
        layers=model.applied_layers,
        heads=model.heads,
        ffn_size=model.ffn_size,
        share="none",
        max_length=model.max_length,
        segments=model.segments,
        activation="gelu",
        norm_epsilon=model.norm_epsilon,
        dropout=model.dropout,
        attention_dropout=model.attention_dropout,
    )


def bert_of_same_size(model: ModelSettings) -> ModelSettings:
    """Return a BERT of the same depth that is so narrow that its encoder has about as many parameters.

    Its width is the multiple of the number of heads that comes closest.
    """
    wanted, bert = count_parameters(model).encoder, bert_of_same_shape(model)
    widths = range(model.heads, model.hidden_size + 1, model.heads)
    candidates = (replace(bert, hidden_size=width, embedding_size=width, ffn_size=None) for width in widths)
    return min(candidates, key=lambda candidate: abs(count_parameters(candidate).encoder - wanted))
