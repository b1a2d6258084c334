"""The settings of the network: everything that decides its tensors, and dropout.

The defaults are ALBERT-base. `share` and `groups` together say where parameters
repeat over depth, which is the whole difference between BERT and ALBERT:

    share      attention blocks   FFN blocks     what it is
    all        groups             groups         ALBERT
    attention  groups             layers         one attention (per group), an FFN for every layer
    ffn        layers             groups         one FFN (per group), an attention for every layer
    none       layers             layers         BERT
"""

from dataclasses import dataclass
from typing import Literal

from albertine.settings.schema import SettingError, Settings, setting

Sharing = Literal["all", "attention", "ffn", "none"]
Activation = Literal["gelu_tanh", "gelu"]
HeadKind = Literal["pretrain", "mlm", "classify", "regress", "span", "choice", "token"]


@dataclass(frozen=True)
class ModelSettings(Settings):
    """One network of the BERT and ALBERT family."""

    vocab_size: int = setting(30_000, "Pieces in the vocabulary, V.", minimum=8, maximum=100000000)
    embedding_size: int = setting(
        128,
        "Width E of the embeddings; equal to hidden_size there is no projection.",
        minimum=1,
        maximum=1000000,
    )
    hidden_size: int = setting(768, "Width H of the hidden states.", minimum=1, maximum=1000000)
    layers: int = setting(12, "Depth L: how many times a block is applied.", minimum=1, maximum=100000)
    heads: int = setting(12, "Attention heads; must divide hidden_size.", minimum=1, maximum=1000000)
    ffn_size: int | None = setting(
        None, "Width of the feed-forward network; 4 * hidden_size if not set.", minimum=1, maximum=10_000_000
    )
    share: Sharing = setting("all", "What the layers share.")
    groups: int = setting(
        1, "Runs of layers that share within themselves only; must divide layers.", minimum=1, maximum=100000
    )
    inner_groups: int = setting(
        1,
        "Different blocks that one layer applies in turn (some published checkpoints; needs share = all).",
        minimum=1,
        maximum=1000,
    )
    max_length: int = setting(
        512, "Longest sequence, in pieces: rows of the position table.", minimum=2, maximum=1000000
    )
    segments: int = setting(2, "Rows of the segment (token type) table.", minimum=1, maximum=1000000)
    always_project: bool = setting(
        False,
        "Project the embeddings even where embedding_size equals hidden_size, as transformers' ALBERT does.",
    )
    activation: Activation = setting("gelu_tanh", "GELU by its tanh form (ALBERT) or exact (BERT).")
    norm_epsilon: float = setting(1e-12, "What LayerNorm adds to the variance.", minimum=0.0)
    dropout: float = setting(0.0, "Dropout of hidden states during training.", minimum=0.0, maximum=0.99)
    attention_dropout: float = setting(
        0.0, "Dropout of attention weights during training.", minimum=0.0, maximum=0.99
    )

    def check(self) -> None:
        """Refuse widths, depths and sharing that do not fit each other."""
        self._must_divide("heads", "hidden_size")
        self._must_divide("groups", "layers")
        if self.share == "none" and self.groups != 1:
            problem = 'must be 1 where share = "none": there is nothing to group'
            raise SettingError("groups", self.groups, problem, ("share",))
        if self.share != "all" and self.inner_groups != 1:
            problem = f'must be 1 where share = "{self.share}"'
            raise SettingError("inner_groups", self.inner_groups, problem, ("share",))

    def _must_divide(self, key: str, other: str) -> None:
        divisor, dividend = getattr(self, key), getattr(self, other)
        if dividend % divisor:
            suggestions = _nearest_divisors(dividend, divisor)
            raise SettingError(key, divisor, f"must divide {other} = {dividend}; try {suggestions}", (other,))

    @property
    def effective_ffn_size(self) -> int:
        """The width of the feed-forward network."""
        return 4 * self.hidden_size if self.ffn_size is None else self.ffn_size

    @property
    def has_projection(self) -> bool:
        """Whether embeddings are projected from width E to width H."""
        return self.always_project or self.embedding_size != self.hidden_size

    @property
    def applied_layers(self) -> int:
        """How many blocks one pass runs through."""
        return self.layers * self.inner_groups

    @property
    def attention_block_count(self) -> int:
        """How many attentions have parameters of their own."""
        return self.groups * self.inner_groups if self.share in ("all", "attention") else self.layers

    @property
    def ffn_block_count(self) -> int:
        """How many feed-forward networks have parameters of their own."""
        return self.groups * self.inner_groups if self.share in ("all", "ffn") else self.layers


@dataclass(frozen=True)
class HeadSettings(Settings):
    """What sits on top of the encoder."""

    kind: HeadKind = setting("pretrain", "The head's task.")
    labels: int = setting(2, "Labels to choose from (classify, token); 1 for regress and choice.", minimum=1)
    options: int = setting(4, "Options of each question (choice).", minimum=1)
    answerable: bool = setting(False, "Also decide whether there is an answer (span).")
    dropout: float = setting(0.0, "Dropout before the last layer during training.", minimum=0.0, maximum=0.99)

    def check(self) -> None:
        """Refuse labels where the head gives one number, and an answer where none is sought."""
        if self.kind in ("regress", "choice") and self.labels != 1:
            raise SettingError("labels", self.labels, f'must be 1 where kind = "{self.kind}"', ("kind",))
        if self.kind != "span" and self.answerable:
            raise SettingError("answerable", True, 'needs kind = "span"', ("kind",))


def _nearest_divisors(number: int, wanted: int) -> str:
    """Name the divisors of a number on both sides of the one that was wished for."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    below = [d for d in divisors if d < wanted][-1:]
    above = [d for d in divisors if d > wanted][:1]
    return " or ".join(map(str, below + above))
