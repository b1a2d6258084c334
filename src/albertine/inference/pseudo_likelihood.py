"""Pseudo-log-likelihoods (PLL): scores of texts by a masked language model.

The PLL of a text is the sum of the log-probabilities of its tokens, each predicted while it is masked
(Salazar et al. 2020). Method "token" masks this token alone. It overrates words of several tokens,
whose other tokens give the masked one away. Method "word-l2r" also masks the tokens after it in the
same word (Kauf and Ivanova 2023). Method "left-to-right" masks nothing, and its sum is a log-likelihood: see
`left_to_right`.

Each masked copy of a text is one sequence of a strip, and the model computes the logits of its first
masked token only. Equal masked copies are computed once: those of the two sentences of a minimal pair
at the tokens in which they differ, and those of both methods at words of one token.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from albertine.engines.engine import Engine, check_finite
from albertine.errors import InputError
from albertine.inference.left_to_right import check_has_next_tokens, next_token_log_likelihoods
from albertine.inference.masked_copies import (
    SCORING_METHODS,
    EncodedText,
    MaskedCopies,
    ScoringMethod,
    text_groups,
)
from albertine.inference.score_cache import LogLikelihoods, ScoreCache
from albertine.tasks.sequences import Ids, SequenceBuilder
from albertine.text.tokenizer import Tokenizer
from albertine.text.unicode_check import check_text
from albertine.text.word_encoder import spaced_word_starts

_MAX_LOGITS = 1 << 26  # logits of one strip: 256 MB in fp32
_MAX_CACHED_TOKENS = 1 << 18


@dataclass(frozen=True)
class TextScore:
    """The pseudo-log-likelihood of a text, in nats.

    Attributes:
        tokens: tokens of the text, as in the vocabulary.
        log_likelihoods: log-probability of each token.
        num_words: number of words.
    """

    tokens: tuple[str, ...]
    log_likelihoods: tuple[float, ...]
    num_words: int

    @property
    def pll(self) -> float:
        """Sum over the tokens."""
        return sum(self.log_likelihoods)

    @property
    def pll_per_token(self) -> float | None:
        """Mean over the tokens; None for a text without tokens."""
        return self.pll / len(self.tokens) if self.tokens else None

    @property
    def pll_per_word(self) -> float | None:
        """Sum divided by the number of words; None for a text without tokens."""
        return self.pll / self.num_words if self.num_words else None


class PseudoLikelihoodScorer:
    """Scores texts with a pre-trained model; threads may share it.

    Attributes:
        engine: runs the model.
        tokenizer: tokenizer of the model.
        depth: number of steps of depth; None for those of the model.
        max_length: maximum tokens of a text, with [CLS] and [SEP].
        cache: scores of the texts that were used last.
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, depth: int | None = None):
        self.engine, self.tokenizer, self.depth = engine, tokenizer, depth
        self.cache = ScoreCache(_MAX_CACHED_TOKENS)
        self.max_length = engine.model_settings.max_length
        self._builder = SequenceBuilder(tokenizer, self.max_length)
        self._starts_word = spaced_word_starts(tokenizer)
        self._lock = threading.Lock()  # of the encoder's cache of words and of `cache`

    def score(self, texts: Sequence[str], method: ScoringMethod = "word-l2r") -> list[TextScore]:
        """Return the scores of texts, in order; raise `InputError` if a text is too long for the model."""
        if isinstance(texts, str):
            raise InputError("texts: must be a list of texts, not one text")
        if not isinstance(texts, Iterable):
            raise InputError(f"texts: must be a list of texts, not {type(texts).__name__}")
        if method not in SCORING_METHODS:
            raise InputError(f"method {method}: unknown; known: {', '.join(SCORING_METHODS)}")
        for index, value in enumerate(texts):
            check_text(value, f"text {index}")
        encoded = self.encode(texts)
        for index, text in enumerate(encoded):
            if self.is_too_long(text):
                raise InputError(f"text {index}: {self.length_problem(text)}")
        return [
            self.text_score(text, log_likelihoods)
            for text, (log_likelihoods,) in zip(
                encoded, self.log_likelihoods(encoded, (method,)), strict=True
            )
        ]

    def encode(self, texts: Sequence[str]) -> list[EncodedText]:
        """Return the encoded texts; special tokens never result from text."""
        with self._lock:
            encoded = self._builder.encode(texts)
        return [self._encoded_text(ids) for ids in encoded]

    def _encoded_text(self, ids: Ids) -> EncodedText:
        starts = self._starts_word[ids]
        starts[:1] = True
        bounds = np.append(np.flatnonzero(starts), len(ids)) + 1  # +1 for [CLS]
        sequence, _ = self._builder.build(ids)
        return EncodedText(sequence, bounds[starts.cumsum()], len(bounds) - 1)

    def is_too_long(self, text: EncodedText) -> bool:
        """Return whether a text has more tokens than the model takes."""
        return len(text.ids) > self.max_length

    def length_problem(self, text: EncodedText) -> str:
        """Return the message about a text that is too long."""
        return f"{len(text.ids):,} tokens with [CLS] and [SEP]; the model takes {self.max_length:,}"

    def text_score(self, text: EncodedText, log_likelihoods: LogLikelihoods) -> TextScore:
        """Return the score of a text from the log-probabilities of its tokens."""
        vocabulary = self.tokenizer.vocabulary
        tokens = tuple(vocabulary[token_id] for token_id in text.ids[1:-1].tolist())
        return TextScore(tokens, tuple(log_likelihoods.tolist()), text.num_words)

    def log_likelihoods(
        self, texts: Sequence[EncodedText], methods: Sequence[ScoringMethod]
    ) -> list[tuple[LogLikelihoods, ...]]:
        """Return the log-probabilities of the tokens of each text, one array `[tokens]` for each method.

        Args:
            texts: encoded texts, none of which is too long.
            methods: the methods.
        """
        prefix = ",".join(methods).encode()
        keys = [prefix + text.ids.tobytes() for text in texts]
        with self._lock:
            found = {key: self.cache.get(key) for key in keys}
        known = {key: values for key, values in found.items() if values is not None}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        computed = dict(zip(new, self._compute(list(new.values()), methods), strict=True))
        with self._lock:
            for key, values in computed.items():
                self.cache.add(key, values)
        known |= computed
        return [known[key] for key in keys]

    def _compute(
        self, texts: Sequence[EncodedText], methods: Sequence[ScoringMethod]
    ) -> Iterator[tuple[LogLikelihoods, ...]]:
        """Yield the log-probabilities of different texts; see `log_likelihoods`."""
        if "left-to-right" in methods:
            check_has_next_tokens(self.engine)
        masked_methods = [method for method in methods if method != "left-to-right"]
        for group in text_groups(texts, len(methods)):
            masked = iter(self._masked_log_likelihoods(group, masked_methods))
            causal = iter(self._next_token_log_likelihoods(group) if "left-to-right" in methods else ())
            for _ in group:
                yield tuple(next(causal if method == "left-to-right" else masked) for method in methods)

    def _masked_log_likelihoods(
        self, texts: Sequence[EncodedText], methods: Sequence[ScoringMethod]
    ) -> list[LogLikelihoods]:
        """Return the log-probabilities of masked tokens, for each text those of all methods."""
        if not methods:
            return []
        values = self._log_probabilities(MaskedCopies(texts, methods, self.tokenizer.special_ids.mask))
        lengths = [len(text) for text in texts for _ in methods]
        return np.split(values, np.cumsum(lengths)[:-1])

    def _next_token_log_likelihoods(self, texts: Sequence[EncodedText]) -> list[LogLikelihoods]:
        """Return the log-probabilities of next tokens for each text."""
        max_tokens = min(self.engine.micro_batch_tokens, _MAX_LOGITS // self.engine.model_settings.vocab_size)
        return next_token_log_likelihoods(self.engine, texts, len(self.tokenizer), max_tokens, self.depth)

    def _log_probabilities(self, copies: MaskedCopies) -> LogLikelihoods:
        """Return the log-probability of each target of masked copies, [targets]."""
        vocab_size = len(self.tokenizer)
        max_copies = max(1, _MAX_LOGITS // self.engine.model_settings.vocab_size)
        values = np.empty(copies.num_targets, np.float32)
        for batch in copies.batches(self.engine.micro_batch_tokens, max_copies):
            logits = self.engine.masked_lm_logits(batch.strip, batch.mask_indices, depth=self.depth)
            # Some checkpoints round the vocabulary size up; the additional logits belong to no token.
            logits = logits[:, :vocab_size].float()
            rows, labels = batch.rows.to(logits.device), batch.labels.to(logits.device)
            values[batch.targets] = (logits[rows, labels] - logits.logsumexp(1)[rows]).cpu().numpy()
        return check_finite(values)
