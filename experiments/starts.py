"""Initial weights: those of Albertine, heads that match tokens, and the context start."""

import math
import time
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from albertine.corpus.corpus import Corpus
from albertine.errors import InputError
from albertine.model.model import INITIALIZER_RANGE, Model, truncated_normal
from albertine.pretrain.local_start import HEAD_OFFSETS, apply_local_start
from albertine.pretrain.position_extrapolation import Sinusoids
from albertine.settings import HeadSettings
from experiments.network import VariantEncoder, VariantModel
from experiments.variation import Variation

_LINEAR_BIAS = 2.0  # with this bias GELU is nearly linear, and the norm behind it removes the constant
_MASKED_NEIGHBOURS = 0.15
_BATCH_SIZE, _LR = 2048, 0.004


def new_model(variation: Variation, corpus: Corpus, token_counts: NDArray[np.float64]) -> VariantModel:
    """Return a model whose published parts have the initial weights of `albertine pretrain`."""
    vocab_size = len(corpus.tokenizer)
    torch.manual_seed(variation.seed)
    model = VariantModel(variation, vocab_size)
    generator = torch.Generator().manual_seed(variation.seed)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.data = truncated_normal(module.weight.shape, generator) * INITIALIZER_RANGE
            if module.bias is not None:
                module.bias.data.zero_()
    _copy_published_start(model, variation, vocab_size)
    if variation.rotary_start:
        _set_rotary_start(model)
    model.encoder.segments.weight.data.mul_(variation.segment_scale)
    log_shares = torch.from_numpy(np.log((token_counts + 1) / (token_counts + 1).sum())).float()
    model.bias.data.copy_(log_shares)
    if variation.match_heads:
        _set_match_heads(model)
    if variation.context_seconds:
        apply_context_start(model, corpus)
    return model


def _copy_published_start(model: VariantModel, variation: Variation, vocab_size: int) -> None:
    """Copy the weights that a new ALBERT of the same size has, with or without the local start."""
    v, settings = variation, variation.model_settings(vocab_size)
    published: Any = Model(settings, HeadSettings(kind="pretrain"), seed=v.seed)
    if v.local_start and not v.rotary:
        apply_local_start(published, v.seed, v.layers)
    embedding, block = published.encoder.embedding, published.encoder.attention[0]
    encoder, head = model.encoder, published.head
    pairs: list[tuple[Any, Any]] = [
        (encoder.tokens, embedding.tokens),
        (encoder.segments, embedding.segments),
        (encoder.projection, embedding.projection),
        (encoder.qkv, block.qkv),
        (encoder.out, block.out),
        (model.dense, head.masked.dense),
        (model.pooler, head.pooler.dense),
        (model.pair, head.pair),
    ]
    if encoder.positions is not None:
        pairs.append((encoder.positions, embedding.positions))
    for target, source in pairs:
        target.weight.data.copy_(source.weight.data)


def _set_rotary_start(model: VariantModel, margin: float = 3.0) -> None:
    """Let each head attend to the token at its offset, by the biases of queries and keys.

    The score of the token at the offset exceeds that of its neighbours by the margin.
    """
    v, encoder = model.encoder.variation, model.encoder
    size = v.hidden_size // v.heads
    pairs = size // 2
    frequencies = 10_000.0 ** (-torch.arange(pairs) / pairs)
    scale = math.sqrt(margin * math.sqrt(size) / float((1 - frequencies.cos()).sum()))
    query, key = (torch.zeros(v.heads, 2, pairs) for _ in range(2))
    for head, offset in zip(range(v.heads), cycle(HEAD_OFFSETS)):
        query[head] = scale * torch.stack([(offset * frequencies).cos(), (offset * frequencies).sin()])
        key[head, 0] = scale
    encoder.qkv.bias.data[: v.hidden_size] = query.flatten()
    encoder.qkv.bias.data[v.hidden_size : 2 * v.hidden_size] = key.flatten()


def _position_size(model: VariantModel) -> int:
    """Return how many elements of an embedding hold sinusoids in the local start."""
    settings = model.encoder.variation.model_settings(vocab_size=8)  # does not matter
    return 2 * len(Sinusoids.for_model(settings))


def _set_match_heads(model: VariantModel, score: float = 8.0, other_segment_score: float = 2.0) -> None:
    """Let the last heads attend to equal tokens, and to the other segment rather than to their own.

    The last element of an embedding holds the segment, as a sign. The weights are scaled by the states that
    the first layer reads, so that the scores are the same before and after the norm.
    """
    v, encoder = model.encoder.variation, model.encoder
    head_size, width = v.hidden_size // v.heads, v.embedding_size
    with torch.no_grad():
        encoder.segments.weight.zero_()
        encoder.segments.weight[:, -1] = 3 * INITIALIZER_RANGE * torch.tensor([1.0, -1.0])
        encoder.tokens.weight[:, -1] = 0
        states = _first_layer_input(encoder).double()
    to_embedding = torch.linalg.pinv(encoder.projection.weight.double())
    compared = slice(_position_size(model) if v.local_start else 0, width - 1)
    generator = torch.Generator().manual_seed(v.seed)
    for head in range(v.heads - v.match_heads, v.heads):
        directions = torch.randn(width - 1 - compared.start, head_size, generator=generator).double()
        elements = _slow_elements(v, head_size)[: len(directions)]
        tokens = torch.zeros(head_size, width, dtype=torch.float64)
        tokens[elements, compared] = torch.linalg.qr(directions[:, : len(elements)])[0].T
        segment = torch.zeros_like(tokens)
        segment[-1, -1] = 1
        tokens, segment = tokens @ to_embedding, segment @ to_embedding
        for part, target in ((tokens, score), (segment, other_segment_score)):
            mean_score = (states @ part.T).square().sum(1).mean() / math.sqrt(head_size)
            part *= (target / mean_score).sqrt()
        rows = slice(head * head_size, (head + 1) * head_size)
        encoder.qkv.weight.data[rows] = (tokens + segment).float()
        encoder.qkv.weight.data[v.hidden_size :][rows] = (tokens - segment).float()


def _first_layer_input(encoder: VariantEncoder) -> Tensor:
    """Return what the first layer reads for each token of the vocabulary, [vocab, hidden]."""
    ids = torch.arange(encoder.tokens.num_embeddings)
    embedded = encoder.tokens(ids) + encoder.segments(ids % 2)
    if encoder.positions is not None:
        embedded = embedded + encoder.positions(ids % encoder.positions.num_embeddings)
    return encoder.block_input(encoder.projection(encoder.norm(embedded)), layer=0, block=0)


def _slow_elements(variation: Variation, head_size: int) -> list[int]:
    """Return the elements of a head that positions hardly turn, without the one that compares segments."""
    if not variation.rotary:
        return list(range(head_size - 1))
    pairs = head_size // 2
    slow = [pair for pair in range(pairs - 1) if 64 * 10_000.0 ** (-pair / pairs) < 1]  # in 64 tokens
    if not slow:
        raise InputError(f"match_heads: heads of {head_size} elements are too narrow for rotary positions")
    return slow + [pairs + pair for pair in slow]


def apply_context_start(model: VariantModel, corpus: Corpus) -> None:
    """Train a linear model that predicts a token from its neighbours, and write it into the weights.

    The heads of the local start fetch the neighbours; their values and outputs, the token embeddings and
    the MLM head are what the linear model has. It predicts every token, and its only large product is with
    the vocabulary, so that it sees ten times as many targets per second as the transformer. Its output
    goes to the directions of the hidden state that the embedding leaves free.
    """
    v, encoder = model.encoder.variation, model.encoder
    started = time.process_time()
    encoder.segments.weight.data.mul_(0.1)  # a random segment vector would change the fetched values
    free = torch.linalg.svd(encoder.projection.weight.double())[0][:, v.embedding_size :].float()
    neighbours = _Neighbours(model, free.shape[1])
    ids = torch.from_numpy(
        np.concatenate([shard.tokens for shard in corpus.shards("train")]).astype(np.int64)
    )
    optimizer = torch.optim.Adam(neighbours.groups(), betas=(0.9, 0.99))
    peaks = [group["lr"] for group in optimizer.param_groups]
    generator = torch.Generator().manual_seed(v.seed)
    reach = max(map(abs, neighbours.offsets))
    while (fraction := (time.process_time() - started) / v.context_seconds) < 1:
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * min(1.0, (1 - fraction) / 0.7)
        indices = torch.randint(reach, len(ids) - reach, (_BATCH_SIZE,), generator=generator)
        logits = neighbours(ids, indices, generator)
        functional.cross_entropy(logits, ids[indices]).backward()
        optimizer.step()
        optimizer.zero_grad()
    neighbours.write(free, corpus.tokenizer.special_ids.mask)


class _Neighbours(nn.Module):
    """The linear model: the sum of one matrix per head times the embedding of its neighbour."""

    def __init__(self, model: VariantModel, free_size: int):
        super().__init__()
        v, encoder = model.encoder.variation, model.encoder
        self.model, self.position_size = [model], _position_size(model)
        head_size, rest = v.hidden_size // v.heads, v.embedding_size - self.position_size
        self.offsets = list(islice(cycle(HEAD_OFFSETS), v.heads))
        self.tokens = nn.Parameter(encoder.tokens.weight.detach().clone())
        self.values = nn.Parameter(torch.stack([_orthogonal(head_size, rest) for _ in self.offsets]))
        self.outputs = nn.Parameter(
            0.5 * torch.stack([_orthogonal(free_size, head_size) for _ in self.offsets])
        )
        self.gain = nn.Parameter(torch.ones(v.embedding_size))
        self.bias = nn.Parameter(model.bias.detach().clone())
        self.dense = nn.Parameter(_orthogonal(v.embedding_size, free_size), requires_grad=False)

    def groups(self) -> list[dict[str, Any]]:
        """Return the parameters with their learning rates."""
        return [
            {"params": [self.tokens], "lr": _LR / 2},
            {"params": [self.values, self.outputs, self.bias], "lr": _LR},
            {"params": [self.gain], "lr": 5 * _LR},
        ]

    def forward(self, ids: Tensor, indices: Tensor, generator: torch.Generator) -> Tensor:
        """Return the logits of the tokens at some indices of a long text, [indices, vocab]."""
        encoder = self.model[0].encoder
        assert encoder.positions is not None
        updates = []
        for offset, value, output in zip(self.offsets, self.values, self.outputs, strict=True):
            positions = torch.randint(0, 128, (len(indices),), generator=generator)
            embedded = self.tokens[ids[indices + offset]] + encoder.segments.weight[0].detach()
            embedded = embedded + encoder.positions.weight[positions].detach()
            embedded = functional.layer_norm(embedded, embedded.shape[-1:])[:, self.position_size :]
            visible = torch.rand(len(indices), 1, generator=generator) >= _MASKED_NEIGHBOURS
            updates.append((embedded * visible) @ value.T @ output.T)
        total = torch.stack(updates).sum(0)
        total = total * torch.rsqrt(total.square().mean(1, keepdim=True) + 1e-4)
        dense = functional.gelu(0.5 * total @ self.dense.T + _LINEAR_BIAS, approximate="tanh")
        predicted = functional.layer_norm(dense, dense.shape[-1:]) * self.gain
        return functional.linear(predicted, self.tokens, self.bias)

    @torch.no_grad()
    def write(self, free: Tensor, mask_id: int, out_scale: float = 0.15) -> None:
        """Write the linear model into the weights of the model.

        Args:
            free: directions of the hidden state that the embedding leaves free, [hidden, free].
            mask_id: id of [MASK], which is no context.
            out_scale: size of what one layer adds; small, because every layer adds it.
        """
        model, encoder, hidden = self.model[0], self.model[0].encoder, free.shape[0]
        scale = INITIALIZER_RANGE / self.tokens.square().mean(1).sqrt().mean()
        encoder.tokens.weight.copy_(self.tokens * scale)
        encoder.tokens.weight[mask_id, self.position_size :] = 0
        model.norm.weight.copy_(self.gain / scale)
        model.bias.copy_(self.bias)
        to_rest = torch.linalg.pinv(encoder.projection.weight.double())[self.position_size :].float()
        head_size = self.values.shape[1]
        for head, (value, output) in enumerate(zip(self.values, self.outputs, strict=True)):
            columns = slice(head * head_size, (head + 1) * head_size)
            encoder.qkv.weight[2 * hidden :][columns] = value @ to_rest
            encoder.out.weight[:, columns] = out_scale * free @ output
        encoder.down.weight.zero_()
        # A prediction that the layers have added up has about this size in the normalized hidden state.
        size = min(1.0, out_scale * encoder.variation.layers)
        model.dense.weight.copy_(0.5 / size * self.dense @ free.T)
        model.dense.bias.fill_(_LINEAR_BIAS)


def _orthogonal(rows: int, columns: int) -> Tensor:
    return nn.init.orthogonal_(torch.empty(rows, columns))
