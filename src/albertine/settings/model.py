"""Settings of the model: its architecture, its dropout rates and its head.

The defaults are ALBERT-base. `share` and `groups` determine how many attention and FFN
blocks the model has. A shared block is used by every layer of its group. Parameter sharing
and the factorized embedding are what distinguishes ALBERT from BERT:

    share      attention blocks   FFN blocks
    all        groups             groups         ALBERT
    attention  groups             layers         attention shared within a group, one FFN per layer
    ffn        layers             groups         FFN shared within a group, one attention per layer
    none       layers             layers         BERT
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from albertine.settings.schema import SettingError, Settings, setting

Sharing = Literal["all", "attention", "ffn", "none"]
Activation = Literal["gelu_tanh", "gelu"]
_HALTING_COST = 0.01
DepthRule = Literal["fixed", "halting", "equilibrium"]
HeadKind = Literal["pretrain", "mlm", "classify", "multi-label", "regress", "span", "choice", "token"]
ExitHeads = Literal["none", "shared", "own"]

MAX_LAYERS = 1_000  # that a forward pass applies; tables of tensor names grow with it, too


@dataclass(frozen=True)
class ModelSettings(Settings):
    """Settings of a model of the BERT and ALBERT family."""

    vocab_size: int = setting(
        30_000, "Number of tokens in the vocabulary, V.", minimum=8, maximum=100_000_000
    )
    embedding_size: int = setting(
        128,
        "Width E of the embeddings; there is no projection if it equals --model.hidden-size.",
        minimum=1,
        maximum=1_000_000,
    )
    hidden_size: int = setting(768, "Width H of the hidden states.", minimum=1, maximum=1_000_000)
    layers: int = setting(12, "Number of layers, L.", minimum=1, maximum=MAX_LAYERS)
    heads: int = setting(
        12, "Number of attention heads; must divide --model.hidden-size.", minimum=1, maximum=1_000_000
    )
    ffn_size: int | None = setting(
        None,
        "Width of the feed-forward network; 4 times --model.hidden-size if not set.",
        minimum=1,
        maximum=10_000_000,
    )
    share: Sharing = setting("all", "Which parameters layers share.")
    groups: int = setting(
        1,
        "Number of groups of consecutive layers that share parameters; must divide layers.",
        minimum=1,
        maximum=MAX_LAYERS,
    )
    inner_groups: int = setting(
        1,
        "Blocks that one layer applies in turn (inner_group_num of transformers); needs --model.share all.",
        minimum=1,
        maximum=MAX_LAYERS,
    )
    max_length: int = setting(
        512,
        "Maximum sequence length in tokens; rows of the position table, unless positions are rotary.",
        minimum=2,
        maximum=1_000_000,
    )
    segments: int = setting(
        2, "Number of segments (token types): rows of the segment table.", minimum=1, maximum=1_000_000
    )
    always_project: bool = setting(
        False,
        "Project the embeddings even if they are as wide as the hidden states, as in transformers' ALBERT.",
    )
    activation: Activation = setting(
        "gelu_tanh", "GELU with the tanh approximation (ALBERT) or exact (BERT)."
    )
    norm_epsilon: float = setting(1e-12, "Epsilon that LayerNorm adds to the variance.", minimum=0.0)
    dropout: float = setting(
        0.0, "Dropout probability of hidden states in training.", minimum=0.0, maximum=0.99
    )
    attention_dropout: float = setting(
        0.0, "Dropout probability of attention weights in training.", minimum=0.0, maximum=0.99
    )
    depth_rule: DepthRule = setting(
        "fixed",
        "How the layers are applied: each once, as in ALBERT; with outputs weighted by each token, as in the "
        "Universal Transformer; or as a fixed-point solver, as in Deep Equilibrium Models.",
    )
    step_signal: bool = setting(
        False, "Add a signal of the step to the input of each layer, as in the Universal Transformer."
    )
    halting_cost: float = setting(
        _HALTING_COST,
        "Weight in the pre-training loss of the number of steps of a token; needs "
        "--model.depth-rule halting.",
        minimum=0.0,
        maximum=100.0,
    )

    rotary: bool = setting(
        False,
        "Use rotary position embeddings (RoPE), in place of learned ones.",
    )
    norm_first: bool = setting(
        False,
        "Use pre-norm: LayerNorm before each block and after the last layer, in place of after each block.",
    )
    mark_matches: bool = setting(
        False,
        "Add a vector to the embedding of each token that also occurs in the other text of a pair; needs two "
        "segments.",
    )
    step_rank: int = setting(
        0,
        "Rank of each layer's own difference from the shared matrices, 0 for none; needs --model.share all.",
        minimum=0,
        maximum=10_000,
    )
    step_vectors: bool = setting(
        False, "Give each layer its own biases and norms beside shared matrices; needs --model.share all."
    )

    def check(self) -> None:
        """Raise `SettingError` if widths, numbers of layers or sharing contradict each other."""
        self._must_divide("heads", "hidden_size")
        self._must_divide("groups", "layers")
        if self.applied_layers > MAX_LAYERS:
            problem = f"must be at most {MAX_LAYERS:,} / inner_groups = {self.inner_groups}"
            raise SettingError("layers", self.layers, problem, ("inner_groups",))
        self._check_depth_rule()
        if self.rotary and self.hidden_size // self.heads % 2:
            problem = "must give heads of an even width with rotary = true"
            raise SettingError("heads", self.heads, problem, ("rotary", "hidden_size"))
        if self.mark_matches and self.segments < 2:
            raise SettingError("mark_matches", True, "needs at least two segments", ("segments",))
        if self.share == "none" and self.groups != 1:
            problem = 'must be 1 if share = "none", since no layers share parameters'
            raise SettingError("groups", self.groups, problem, ("share",))
        if self.share != "all" and self.inner_groups != 1:
            problem = f'must be 1 if share = "{self.share}"'
            raise SettingError("inner_groups", self.inner_groups, problem, ("share",))

    def _must_divide(self, key: str, dividend_key: str) -> None:
        divisor, dividend = getattr(self, key), getattr(self, dividend_key)
        if dividend % divisor:
            problem = f"must divide {dividend_key} = {dividend}; try {_nearest_divisors(dividend, divisor)}"
            raise SettingError(key, divisor, problem, (dividend_key,))

    def _check_depth_rule(self) -> None:
        """Raise `SettingError` if layers are used in a way that needs one layer, applied again and again."""
        for name in ("depth_rule", "step_signal", "step_rank", "step_vectors"):
            value = getattr(self, name)
            is_one_layer = self.share == "all" and self.groups == self.inner_groups == 1
            if value not in ("fixed", 0) and not is_one_layer:
                problem = 'needs share = "all", groups = 1 and inner_groups = 1'
                raise SettingError(name, value, problem, ("share", "groups", "inner_groups"))
        if self.halting_cost != _HALTING_COST and self.depth_rule != "halting":
            raise SettingError(
                "halting_cost", self.halting_cost, "needs depth_rule = halting", ("depth_rule",)
            )
        narrowest = min(self.hidden_size, self.effective_ffn_size)
        if self.step_rank > narrowest:
            problem = f"must be at most the width of the layers, {narrowest}"
            raise SettingError("step_rank", self.step_rank, problem, ("hidden_size", "ffn_size"))
        if self.depth_rule == "equilibrium":
            for name in ("step_signal", "step_rank", "step_vectors"):
                if getattr(self, name):
                    problem = "needs another depth_rule: steps of an equilibrium solve the same equation"
                    raise SettingError(name, getattr(self, name), problem, ("depth_rule",))
            for name in ("dropout", "attention_dropout"):
                if getattr(self, name):
                    problem = "must be 0 with depth_rule = equilibrium: a random layer has no fixed point"
                    raise SettingError(name, getattr(self, name), problem, ("depth_rule",))

    @property
    def is_published_architecture(self) -> bool:
        """Whether `transformers` has the network; if not, a checkpoint brings its own modelling file."""
        is_fixed = self.depth_rule == "fixed" and not self.step_signal
        has_own_layers = self.norm_first or self.rotary or self.has_step_differences
        return is_fixed and not has_own_layers and not self.mark_matches

    @property
    def has_step_differences(self) -> bool:
        """Whether each layer has something of its own beside the shared weights."""
        return self.step_rank > 0 or self.step_vectors

    @property
    def effective_ffn_size(self) -> int:
        """Width of the feed-forward network: `ffn_size` or its default."""
        return 4 * self.hidden_size if self.ffn_size is None else self.ffn_size

    @property
    def has_projection(self) -> bool:
        """Whether embeddings are projected from width E to width H."""
        return self.always_project or self.embedding_size != self.hidden_size

    @property
    def applied_layers(self) -> int:
        """Number of layers that a forward pass applies: each inner group counts as a layer."""
        return self.layers * self.inner_groups

    @property
    def shares_all_layers(self) -> bool:
        """Whether all layers use the same weights, so that their number may change."""
        return self.share == "all" and self.groups == 1 and not self.has_step_differences

    @property
    def attention_block_count(self) -> int:
        """Number of distinct attention blocks."""
        return self.groups * self.inner_groups if self.share in ("all", "attention") else self.layers

    @property
    def ffn_block_count(self) -> int:
        """Number of distinct feed-forward blocks."""
        return self.groups * self.inner_groups if self.share in ("all", "ffn") else self.layers


# Kinds of head that a setting is for.
KINDS_OF_SETTINGS: Mapping[str, Sequence[str]] = {
    "answerable": ("span",),
    "co_matching": ("choice",),
    "matching": ("classify", "multi-label", "regress"),
    "next_tokens": ("pretrain", "mlm"),
}


@dataclass(frozen=True)
class HeadSettings(Settings):
    """Settings of the head on top of the encoder."""

    kind: HeadKind = setting("pretrain", "Task of the head.")
    labels: int = setting(
        2,
        "Number of labels (classify, multi-label, token); 1 for regress and choice.",
        minimum=1,
        maximum=1_000_000,
    )
    options: int = setting(4, "Number of options per question (choice).", minimum=1, maximum=10_000)
    answerable: bool = setting(False, "Also predict whether the text has an answer (span).")
    dropout: float = setting(
        0.0, "Dropout probability before the last layer in training.", minimum=0.0, maximum=0.99
    )
    co_matching: bool = setting(
        False, "Match passage, question and option in pairs, as in DCMN+, in place of [CLS] (choice)."
    )
    matching: bool = setting(
        False,
        "Compare the two texts of a pair token by token, beside [CLS] (classify, multi-label, regress).",
    )
    next_tokens: bool = setting(
        False, "Has also learned to predict each token from those before it alone (pretrain, mlm)."
    )
    exits: ExitHeads = setting(
        "none",
        "Whether the head is trained after the last step of depth only (none) or after every step, as one "
        "head (shared) or with one for each step (own).",
    )
    learned_exit: bool = setting(
        False, "Whether an exit unit predicts after each step of depth whether to stop; needs exits."
    )

    def check(self) -> None:
        """Raise `SettingError` if a setting does not apply to the kind of head."""
        if self.kind in ("regress", "choice") and self.labels != 1:
            raise SettingError("labels", self.labels, f'must be 1 if kind = "{self.kind}"', ("kind",))
        for name, kinds in KINDS_OF_SETTINGS.items():
            if self.kind not in kinds and getattr(self, name):
                raise SettingError(name, True, f"needs kind = {_one_of(kinds)}", ("kind",))
        if self.kind in ("pretrain", "mlm") and self.exits != "none":
            raise SettingError("exits", self.exits, f'must be "none" if kind = "{self.kind}"', ("kind",))
        if self.learned_exit and self.exits == "none":
            raise SettingError("learned_exit", True, 'needs exits = "shared" or "own"', ("exits",))


def _one_of(values: Sequence[str]) -> str:
    """Return values as alternatives, as in "a", "b" or "c"."""
    *first, last = (f'"{value}"' for value in values)
    return f"{', '.join(first)} or {last}" if first else last


def _nearest_divisors(number: int, invalid: int) -> str:
    """Return the divisors of `number` next below and above `invalid`, as in "4 or 6"."""
    divisors = [d for d in range(1, number + 1) if number % d == 0]
    below = [d for d in divisors if d < invalid][-1:]
    above = [d for d in divisors if d > invalid][:1]
    return " or ".join(map(str, below + above))
