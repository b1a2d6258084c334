"""The strip: a batch without padding.

The sequences of a batch, whatever their lengths, are concatenated into one tensor of tokens,
and offsets mark where each sequence begins. Projections, feed-forward blocks and norms treat each
token alone; positions, attention, and heads that read [CLS] or a whole sequence use the offsets.
Padded batches can be converted to strips and back.

    tokens   [CLS] a b [SEP] | [CLS] c [SEP]
    offsets  0               4              7
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from albertine.errors import InputError


@dataclass(frozen=True, eq=False)
class Strip:
    """A batch of S sequences with N tokens in all.

    Attributes:
        tokens: token ids, [N].
        segments: segment of each token, [N].
        offsets: start of each sequence and the end of the last one, [S + 1]; always on the CPU,
            because the shapes of the attention calls depend on them.
        parts: start and end, in its sequence, of each span that a head reads by itself, such as passage,
            question and option, [S, parts, 2]; always on the CPU; None if they are not known.
        causal: whether a token attends only to itself and to the tokens before it.
    """

    tokens: Tensor
    segments: Tensor
    offsets: Tensor
    parts: Tensor | None = None
    causal: bool = False

    def __post_init__(self) -> None:
        tokens, offsets = self.tokens, self.offsets
        if tokens.dim() != 1 or self.segments.shape != tokens.shape:
            raise InputError(
                f"a strip needs tokens [N] and segments [N], got {list(tokens.shape)}, "
                f"{list(self.segments.shape)}"
            )
        if offsets.device.type != "cpu":
            object.__setattr__(self, "offsets", offsets.cpu())
        if not self._has_valid_offsets():
            raise InputError(
                f"offsets must start at 0, never decrease and end at {tokens.shape[0]}, the number of tokens"
            )
        if self.parts is not None and not self._has_valid_parts(self.parts):
            raise InputError(
                f"parts must be [{len(self)}, parts, 2], each with its start and end in its sequence"
            )

    def _has_valid_offsets(self) -> bool:
        offsets = self.offsets
        if offsets.dim() != 1 or len(offsets) < 1 or offsets.is_floating_point():
            return False
        is_complete = int(offsets[0]) == 0 and int(offsets[-1]) == len(self.tokens)
        return is_complete and bool((offsets.diff() >= 0).all())

    def _has_valid_parts(self, parts: Tensor) -> bool:
        if parts.dim() != 3 or parts.shape[::2] != (len(self), 2) or parts.is_floating_point():
            return False
        starts, ends = parts.unbind(2)
        return bool(((starts >= 0) & (starts <= ends) & (ends <= self.offsets.diff()[:, None])).all())

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> list[int]:
        """Length of each sequence."""
        lengths: list[int] = self.offsets.diff().tolist()
        return lengths

    @cached_property
    def positions(self) -> Tensor:
        """Position of each token in its own sequence, [N]."""
        # Cached: a tensor made in inference mode could not be used in training afterwards.
        with torch.inference_mode(False):
            return concatenated_ranges([0] * len(self), self.lengths).to(self.tokens.device)

    @cached_property
    def cls_indices(self) -> Tensor:
        """Index in the strip of the first token, [CLS], of each sequence, [S]."""
        empty = next((index for index, length in enumerate(self.lengths) if length == 0), None)
        if empty is not None:
            raise InputError(f"sequence {empty} is empty, so it has no [CLS]")
        with torch.inference_mode(False):
            return self.offsets[:-1].to(self.tokens.device)

    @classmethod
    def from_sequences(
        cls, sequences: Iterable[Sequence[int]], segments: Iterable[Sequence[int]] | None = None
    ) -> "Strip":
        """Concatenate lists of token ids; without segments, every token is in segment 0."""
        token_lists = [list(tokens) for tokens in sequences]
        segment_lists = (
            [[0] * len(tokens) for tokens in token_lists]
            if segments is None
            else [list(sequence_segments) for sequence_segments in segments]
        )
        lengths = [len(tokens) for tokens in token_lists]
        if lengths != [len(sequence_segments) for sequence_segments in segment_lists]:
            raise InputError("each sequence needs as many segments as tokens")
        flat_tokens, flat_segments = (
            torch.tensor(list(chain.from_iterable(lists)), dtype=torch.long)
            for lists in (token_lists, segment_lists)
        )
        return cls(flat_tokens, flat_segments, torch.tensor([0, *lengths]).cumsum(0))

    @classmethod
    def from_padded(
        cls, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> "Strip":
        """Return the tokens of a padded batch, [batch, length], where the mask is 1.

        Positions count these tokens only, so padding on the left does not shift them.
        """
        if input_ids.dim() != 2:
            raise InputError(f"input_ids must be [batch, length], got {list(input_ids.shape)}")
        for name, values in (("attention_mask", attention_mask), ("token_type_ids", token_type_ids)):
            if values is not None and values.shape != input_ids.shape:
                raise InputError(
                    f"{name} must be {list(input_ids.shape)} like input_ids, got {list(values.shape)}"
                )
        if attention_mask is not None and not ((attention_mask == 0) | (attention_mask == 1)).all():
            raise InputError("attention_mask must be 1 at tokens and 0 at padding")
        is_token = (
            torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        )
        segments = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        offsets = torch.nn.functional.pad(is_token.sum(1).cumsum(0), (1, 0)).cpu()
        return cls(input_ids[is_token], segments[is_token], offsets)

    @property
    def attention_mask(self) -> Tensor:
        """Mask of these sequences as a padded batch: True at tokens, False at padding, [S, longest]."""
        lengths = self.offsets.diff()
        longest = max(self.lengths, default=0)
        return (torch.arange(longest) < lengths[:, None]).to(self.tokens.device)

    def pad(self, values: Tensor, fill: float = 0) -> Tensor:
        """Return values of the tokens, [N, ...], as a padded batch, [S, longest, ...]."""
        is_token = self.attention_mask
        padded = values.new_full((*is_token.shape, *values.shape[1:]), fill)
        return padded.masked_scatter(
            is_token.view(*is_token.shape, *[1] * (values.dim() - 1)).expand_as(padded), values
        )

    def to_padded(self, pad_token_id: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return input_ids, attention_mask and token_type_ids, each [S, longest]."""
        return self.pad(self.tokens, pad_token_id), self.attention_mask.long(), self.pad(self.segments)

    @property
    def part_ids(self) -> Tensor:
        """Part of each token, counted from 1; 0 for tokens outside all parts, [N]."""
        ids = torch.zeros(len(self.tokens), dtype=torch.long)
        if self.parts is not None:
            starts = self.offsets[:-1].tolist()
            for start, bounds in zip(starts, self.parts.tolist(), strict=True):
                for number, (first, end) in enumerate(bounds, start=1):
                    ids[start + first : start + end] = number
        return ids.to(self.tokens.device)

    @classmethod
    def cat(cls, strips: Sequence["Strip"]) -> "Strip":
        """Concatenate strips, all of them causal or none."""
        if not strips:
            return cls.from_sequences([])
        if len({strip.causal for strip in strips}) > 1:
            raise InputError("causal strips and others cannot be concatenated")
        lengths = torch.cat([strip.offsets.diff() for strip in strips])
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        parts = [strip.parts for strip in strips if strip.parts is not None]
        return cls(
            torch.cat([strip.tokens for strip in strips]),
            torch.cat([strip.segments for strip in strips]),
            offsets,
            torch.cat(parts) if len(parts) == len(strips) else None,
            strips[0].causal,
        )

    def slice(self, start: int, stop: int) -> "Strip":
        """Return the sequences from `start` up to `stop`, as views of the tokens."""
        if not 0 <= start <= stop <= len(self):
            raise InputError(f"slice {start}:{stop} is out of range for a strip of {len(self)} sequences")
        first, end = int(self.offsets[start]), int(self.offsets[stop])
        return Strip(
            self.tokens[first:end],
            self.segments[first:end],
            self.offsets[start : stop + 1] - first,
            None if self.parts is None else self.parts[start:stop],
            self.causal,
        )

    def select(self, sequences: Tensor) -> tuple["Strip", Tensor]:
        """Return a strip of some of the sequences, and the indices of their tokens in this strip.

        Args:
            sequences: indices of the sequences, on the CPU, in the order of the new strip.
        """
        lengths, starts = self.offsets.diff()[sequences], self.offsets[:-1][sequences]
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        indices = concatenated_ranges(starts.tolist(), lengths.tolist()).to(self.tokens.device)
        parts = None if self.parts is None else self.parts[sequences]
        return Strip(self.tokens[indices], self.segments[indices], offsets, parts, self.causal), indices

    def split(self, max_tokens: int) -> Iterator["Strip"]:
        """Yield strips of whole sequences, in order, each of at most `max_tokens` tokens."""
        start, token_count = 0, 0
        for index, length in enumerate(self.lengths):
            if length > max_tokens:
                raise InputError(
                    f"sequence {index} has {length} tokens, more than the budget of {max_tokens}"
                )
            if token_count + length > max_tokens:
                yield self.slice(start, index)
                start, token_count = index, 0
            token_count += length
        if start < len(self):
            yield self.slice(start, len(self))

    def to(self, device: torch.device | str) -> "Strip":
        """Return the strip with its tokens and segments on a device."""
        tokens, segments = self.tokens.to(device), self.segments.to(device)
        return Strip(tokens, segments, self.offsets, self.parts, self.causal)


def concatenated_ranges(starts: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Return the numbers of all ranges, such as 3 4 10 11 12 for starts 3 and 10, and lengths 2 and 3.

    With numpy: torch would share each of these small operations among its threads, which takes milliseconds
    while other processes, which prepare samples, use the cores.
    """
    counts = np.asarray(lengths, np.int64)
    shifts = np.asarray(starts, np.int64) - np.cumsum(counts) + counts
    return torch.from_numpy(np.arange(counts.sum()) + np.repeat(shifts, counts))
