"""Pseudo-log-likelihoods (PLL): scores of texts by a masked language model.

The PLL of a text is the sum of the log-probabilities of its tokens, each predicted while it is masked
(Salazar et al. 2020). Method "token" masks this token alone. It overrates words of several tokens,
whose other tokens give the masked one away. Method "word-l2r" also masks the tokens after it in the
same word (Kauf and Ivanova 2023).

Each masked copy of a text is one sequence of a strip, and the model computes the logits of its first
masked token only. Equal masked copies are computed once: those of the two sentences of a minimal pair
at the tokens in which they differ, and those of both methods at words of one token.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.engines.engine import Engine
from albertine.errors import InputError
from albertine.model.strip import Strip
from albertine.tasks.sequences import Ids, SequenceBuilder
from albertine.text.tokenizer import Tokenizer
from albertine.text.word_encoder import spaced_word_starts

ScoringMethod = Literal["word-l2r", "token"]
SCORING_METHODS: tuple[ScoringMethod, ...] = get_args(ScoringMethod)

_MAX_LOGITS = 1 << 26  # logits of one strip: 256 MB in fp32
_MAX_CONTEXTS = 1 << 16  # masked copies that are compared and sorted by length together
_MAX_CACHED_TOKENS = 1 << 20

LogLikelihoods: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class EncodedText:
    """A text as a sequence of token ids.

    Attributes:
        ids: ids of [CLS], the tokens and [SEP], [tokens + 2].
        word_ends: index in `ids` after the last token of the word of each token, [tokens].
        num_words: number of words.
    """

    ids: Ids
    word_ends: NDArray[np.int64]
    num_words: int

    def __len__(self) -> int:
        """Return the number of tokens without [CLS] and [SEP]."""
        return len(self.word_ends)


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
    """Scores texts with a pre-trained model; threads may share it."""

    def __init__(self, engine: Engine, tokenizer: Tokenizer):
        self.engine, self.tokenizer = engine, tokenizer
        self.max_length = engine.model_settings.max_length
        self._builder = SequenceBuilder(tokenizer, self.max_length)
        self._starts_word = spaced_word_starts(tokenizer)
        self._lock = threading.Lock()  # of the encoder's cache of words and of `_cache`
        self._cache: dict[bytes, tuple[LogLikelihoods, ...]] = {}
        self._num_cached_tokens = 0

    def score(self, texts: Sequence[str], method: ScoringMethod = "word-l2r") -> list[TextScore]:
        """Return the scores of texts, in order; raise `InputError` if a text is too long for the model."""
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
            known = {key: self._cache[key] for key in keys if key in self._cache}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        scored = self._compute(list(new.values()), methods)
        known |= zip(new, scored, strict=True)
        with self._lock:
            self._num_cached_tokens += len(methods) * sum(map(len, new.values()))
            if self._num_cached_tokens > _MAX_CACHED_TOKENS:
                self._cache.clear()
                self._num_cached_tokens = 0
            else:
                self._cache |= {key: known[key] for key in new}
        return [known[key] for key in keys]

    def _compute(
        self, texts: Sequence[EncodedText], methods: Sequence[ScoringMethod]
    ) -> Iterator[tuple[LogLikelihoods, ...]]:
        """Yield the log-probabilities of different texts; see `log_likelihoods`."""
        for group in _groups(texts, len(methods)):
            contexts = _MaskedContexts(group, methods, self.tokenizer.special_ids.mask)
            values = self._target_log_probabilities(contexts)
            lengths = [len(text) for text in group for _ in methods]
            parts = iter(np.split(values, np.cumsum(lengths)[:-1]))
            yield from (tuple(next(parts) for _ in methods) for _ in group)

    def _target_log_probabilities(self, contexts: "_MaskedContexts") -> LogLikelihoods:
        """Return the log-probability of each target, [targets]."""
        vocab_size = len(self.tokenizer)
        max_sequences = max(1, _MAX_LOGITS // self.engine.model_settings.vocab_size)
        values = np.empty(contexts.num_targets, np.float32)
        for batch in contexts.batches(self.engine.micro_batch_tokens, max_sequences):
            logits = self.engine.masked_lm_logits(batch.strip, batch.mask_indices)
            # Some checkpoints round the vocabulary size up; the additional logits belong to no token.
            logits = logits[:, :vocab_size].float()
            rows, labels = batch.target_rows.to(logits.device), batch.labels.to(logits.device)
            values[batch.targets] = (logits[rows, labels] - logits.logsumexp(1)[rows]).cpu().numpy()
        return values


def _groups(texts: Iterable[EncodedText], num_methods: int) -> Iterator[list[EncodedText]]:
    """Yield consecutive texts in groups of bounded size; a longer text is a group by itself."""
    group: list[EncodedText] = []
    num_contexts = 0
    for text in texts:
        count = num_methods * len(text)
        if group and num_contexts + count > _MAX_CONTEXTS:
            yield group
            group, num_contexts = [], 0
        group.append(text)
        num_contexts += count
    if group:
        yield group


@dataclass(frozen=True)
class _Batch:
    """A strip of masked copies, and the targets in them.

    Attributes:
        strip: the masked copies.
        mask_indices: index in the strip of the first masked token of each copy, [copies].
        target_rows: copy of each target, [batch targets].
        labels: token id of each target, [batch targets].
        targets: index of each target among all targets, [batch targets].
    """

    strip: Strip
    mask_indices: torch.Tensor
    target_rows: torch.Tensor
    labels: torch.Tensor
    targets: NDArray[np.int64]


class _MaskedContexts:
    """The different masked copies of some texts, sorted by length.

    A target is a token of a text to be predicted by one method. Targets are in the order of the texts,
    then of the methods, then of the tokens.
    """

    def __init__(self, texts: Sequence[EncodedText], methods: Sequence[ScoringMethod], mask_id: int):
        self._texts, self._mask_id = texts, mask_id
        spans: list[tuple[int, int, int]] = []  # text, first and end of the masked tokens
        index_by_digest: dict[bytes, int] = {}
        target_contexts: list[int] = []
        for text_index, text in enumerate(texts):
            index_by_span: dict[tuple[int, int], int] = {}
            for method in methods:
                for start in range(1, len(text) + 1):
                    end = start + 1 if method == "token" else int(text.word_ends[start - 1])
                    index = index_by_span.get((start, end))
                    if index is None:
                        digest = self._digest(text, start, end)
                        index = index_by_digest.setdefault(digest, len(spans))
                        index_by_span[start, end] = index
                        if index == len(spans):
                            spans.append((text_index, start, end))
                    target_contexts.append(index)
        self._spans = sorted(spans, key=lambda span: len(texts[span[0]].ids))
        order = sorted(range(len(spans)), key=lambda index: len(texts[spans[index][0]].ids))
        ranks = np.empty(len(spans), np.int64)
        ranks[order] = np.arange(len(spans))
        target_ranks = ranks[np.array(target_contexts, np.int64)]
        self._targets = target_ranks.argsort(kind="stable")  # in the order of the contexts
        self._target_ranks = target_ranks[self._targets]
        labels = [text.ids[1:-1] for text in texts for _ in methods]
        self._labels = np.concatenate([np.empty(0, np.int32), *labels])[self._targets].astype(np.int64)

    def _digest(self, text: EncodedText, start: int, end: int) -> bytes:
        ids = text.ids
        masked = b"".join((ids[:start].tobytes(), b"%d" % (end - start), ids[end:].tobytes()))
        return blake2b(masked + b"%d" % start, digest_size=16).digest()

    @cached_property
    def num_targets(self) -> int:
        """Number of targets."""
        return len(self._targets)

    def batches(self, max_tokens: int, max_sequences: int) -> Iterator[_Batch]:
        """Yield strips of at most this many tokens and sequences; a longer sequence is a strip by itself."""
        first, num_tokens = 0, 0
        for rank, (text_index, _, _) in enumerate(self._spans):
            length = len(self._texts[text_index].ids)
            if rank > first and (num_tokens + length > max_tokens or rank - first == max_sequences):
                yield self._batch(first, rank)
                first, num_tokens = rank, 0
            num_tokens += length
        if first < len(self._spans):
            yield self._batch(first, len(self._spans))

    def _batch(self, first: int, stop: int) -> _Batch:
        spans = self._spans[first:stop]
        sequences: list[Any] = [self._texts[text_index].ids for text_index, _, _ in spans]
        tokens = np.concatenate(sequences).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in sequences], dtype=np.int64)])
        for offset, (_, start, end) in zip(offsets.tolist(), spans, strict=False):
            tokens[offset + start : offset + end] = self._mask_id
        strip = Strip(
            torch.from_numpy(tokens),
            torch.zeros(len(tokens), dtype=torch.long),
            torch.from_numpy(offsets),
        )
        mask_indices = offsets[:-1] + np.array([start for _, start, _ in spans])
        low, high = np.searchsorted(self._target_ranks, [first, stop])
        return _Batch(
            strip,
            torch.from_numpy(mask_indices),
            torch.from_numpy(self._target_ranks[low:high] - first),
            torch.from_numpy(self._labels[low:high]),
            self._targets[low:high],
        )
