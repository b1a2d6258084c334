"""`albertine.pipeline(MODEL, task="embed")`: a model as a function from texts to vectors.

embed = albertine.pipeline("runs/first", task="embed")
embed("The door was locked.")                    a vector, [hidden]
embed(["The door was locked.", "It rained."])    an array, [texts, hidden], in fp32

The vector of a text is pooled from the hidden states of its tokens, [CLS] and [SEP] included. For a folder
of sentence-transformers, pooling and layers are those of the folder, and the vectors those of that library.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import tokenizers
import torch
from numpy.typing import NDArray
from torch import Tensor

from albertine import progress
from albertine.engines.engine import EncoderEngine, check_finite
from albertine.engines.exported_folder import open_exported_encoder
from albertine.engines.torch_engine import prepare_torch_engine
from albertine.errors import InputError
from albertine.interop.hub import is_export, locate_encoder
from albertine.interop.load import load_encoder
from albertine.interop.sentence_transformers_folder import (
    SentenceModules,
    has_sentence_modules,
    read_sentence_modules,
)
from albertine.model.model import Model
from albertine.model.sentence_vectors import PoolingMode, apply_layers, pool
from albertine.model.strip import Strip
from albertine.settings.engine import DEFAULT_OPTIONS, EngineOptions
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import TextExample, example_chunks
from albertine.tasks.sequences import (
    EncodedExample,
    SequenceBuilder,
    TaskSample,
    longest_first_groups,
    strip_from_samples,
)
from albertine.text.tokenizer import Tokenizer, load_tokenizer
from albertine.text.unicode_check import check_text

Pooling = Literal["mean", "cls"]
Vectors: TypeAlias = NDArray[np.float32]

_CHUNK_SIZE = 4096  # texts


@dataclass(frozen=True)
class PoolingOptions:
    """How the hidden states of the tokens of a text become its vector.

    Attributes:
        modes: how to pool; several vectors are concatenated.
        normalize: whether to divide the vector by its length.
    """

    modes: tuple[PoolingMode, ...]
    normalize: bool

    def override(self, pooling: Pooling | None, normalize: bool | None) -> "PoolingOptions":
        """Return the options with other values where they are given; None keeps a value."""
        if pooling is not None and pooling not in get_args(Pooling):
            raise InputError(f"pooling {pooling}: unknown; known: {', '.join(get_args(Pooling))}")
        return PoolingOptions(
            self.modes if pooling is None else (pooling,), self.normalize if normalize is None else normalize
        )


class EmbeddingPipeline:
    """Turns texts into vectors; threads may share it.

    Attributes:
        engine: runs the model.
        vector_size: number of values of a vector.
        max_length: maximum tokens of a text, with [CLS] and [SEP]; longer texts are truncated.
        pooling_options: how hidden states become vectors by default.
        tokenizer: tokenizer of the model.
    """

    def __init__(self, engine: EncoderEngine, tokenizer: Tokenizer, modules: SentenceModules):
        """Store a model, and the pooling and the layers that turn its hidden states into vectors.

        Args:
            engine: runs the model.
            tokenizer: tokenizer of the model.
            modules: the pooling and the layers.
        """
        self.engine, self.tokenizer = engine, tokenizer
        self._prompt, self._lower_case = modules.prompt, modules.lower_case
        self._layers = [None if layer is None else layer.to(engine.device) for layer in modules.layers]
        model_length = engine.model_settings.max_length
        self.max_length = min(modules.max_length or model_length, model_length)
        self.pooling_options = PoolingOptions(modules.poolings, modules.normalize)
        self.vector_size = self._vector_size(modules.poolings)
        self._builder = SequenceBuilder(tokenizer, self.max_length)
        self._lock = threading.Lock()  # an encoder has a cache of words, which is not thread-safe
        self._has_reported_truncation = False

    def __call__(
        self, texts: str | Sequence[str], *, pooling: Pooling | None = None, normalize: bool | None = None
    ) -> Vectors:
        """Return the vector of a text, [vector], or of each text of a list, [texts, vector], in order.

        Args:
            texts: a text, or a list of texts.
            pooling: "mean" of the hidden states of all tokens, or "cls" for that of the first one; by default
                that of the pipeline.
            normalize: whether to divide a vector by its length; by default that of the pipeline.
        """
        if not isinstance(texts, Iterable):
            raise InputError(f"texts: must be a text or a list of texts, not {type(texts).__name__}")
        options = self.pooling_options.override(pooling, normalize)
        text_list = [texts] if isinstance(texts, str) else list(texts)
        for index, text in enumerate(text_list):
            check_text(text, "text" if isinstance(texts, str) else f"text {index}")
        vectors = np.empty((len(text_list), self._vector_size(options.modes)), np.float32)
        examples = [TextExample(f"text {index}", str(index), (text,)) for index, text in enumerate(text_list)]
        counts = EncodingCounts(self.tokenizer.special_ids)
        start = 0
        for chunk, chunk_vectors in self.embed_examples(examples, counts, options):
            vectors[start : start + len(chunk)] = chunk_vectors
            start += len(chunk)
        if counts.num_truncated_examples and not self._has_reported_truncation:
            self._has_reported_truncation = True
            progress.print_message(
                f"embed: {counts.num_truncated_examples:,} of {len(text_list):,} texts truncated to "
                f"{self.max_length:,} tokens; tokens cut off: {counts.max_truncated_tokens:,} at most; later "
                "texts are truncated without a message"
            )
        return vectors[0] if isinstance(texts, str) else vectors

    def embed_examples(
        self,
        examples: Iterable[TextExample],
        counts: EncodingCounts,
        options: PoolingOptions | None = None,
    ) -> Iterator[tuple[Sequence[TextExample], Vectors]]:
        """Yield examples in chunks, in order, each with the vectors of its texts, [texts, vector].

        Args:
            examples: the examples, of any number.
            counts: the counts of truncated and unknown tokens, which are updated.
            options: how hidden states become vectors; None for the options of the pipeline.
        """
        for chunk in example_chunks(examples, _CHUNK_SIZE):
            encoded = self.encode([example.texts[0] for example in chunk])
            counts.add(encoded)
            yield chunk, self.embed(encoded, options)

    def encode(self, texts: Sequence[str]) -> list[EncodedExample]:
        """Return the encoded texts, truncated to `max_length`; special tokens never result from text."""
        if self._lower_case:
            # The normalizer of sentence-transformers; `str.lower` gives others for a few letters.
            lower = tokenizers.normalizers.Lowercase()
            texts = [lower.normalize_str(self._prompt + text) for text in texts]
        elif self._prompt:
            texts = [self._prompt + text for text in texts]
        with self._lock:
            all_ids = self._builder.encode(texts)
        max_tokens = self.max_length - 2  # without [CLS] and [SEP]
        encoded = []
        for ids in all_ids:
            sequence, segments = self._builder.build(ids[:max_tokens])
            sample = TaskSample((sequence,), (segments,))
            encoded.append(EncodedExample((sample,), num_truncated_tokens=max(0, len(ids) - max_tokens)))
        return encoded

    def embed(self, encoded: Sequence[EncodedExample], options: PoolingOptions | None = None) -> Vectors:
        """Return the vectors of encoded texts, in order, [texts, vector]; equal texts are computed once.

        Args:
            encoded: the texts.
            options: how hidden states become vectors; None for the options of the pipeline.
        """
        options = options or self.pooling_options
        keys = [example.samples[0].ids[0].tobytes() for example in encoded]
        rows: dict[bytes, int] = {}
        for key in keys:
            rows.setdefault(key, len(rows))
        samples = list(dict(zip(keys, (example.samples[0] for example in encoded), strict=True)).values())
        vectors = np.empty((len(rows), self._vector_size(options.modes)), np.float32)
        for indices in longest_first_groups(samples, self.engine.micro_batch_tokens):
            strip = strip_from_samples([samples[index] for index in indices])
            vectors[indices] = self._vectors(strip, options).cpu().numpy()
        check_finite(vectors)
        return vectors[[rows[key] for key in keys]]

    def _vectors(self, strip: Strip, options: PoolingOptions) -> Tensor:
        """Return the vectors of the sequences of a strip, [sequences, vector]."""
        if options.modes == ("cls",):
            vectors = self.engine.hidden_at(strip, strip.cls_indices).float()
        else:
            hidden = self.engine.hidden_states(strip)
            vectors = pool(hidden, strip.to(hidden.device), options.modes)
        with torch.no_grad():
            return apply_layers(vectors, self._layers, normalize=options.normalize)

    def _vector_size(self, modes: Sequence[PoolingMode]) -> int:
        """Return the number of values of a vector; raise `InputError` if the layers do not fit it."""
        size = len(modes) * self.engine.model_settings.hidden_size
        for layer in self._layers:
            if layer is not None:
                out_size, in_size = layer.weight.shape
                if in_size != size:
                    raise InputError(
                        f"pooling {', '.join(modes)}: gives {size} values, but the Dense layer of the model "
                        f"takes {in_size}; use its own pooling"
                    )
                size = out_size
        return size


def load_embedding_pipeline(
    source: str | Path,
    options: EngineOptions = DEFAULT_OPTIONS,
    *,
    revision: str | None = None,
    pooling: Pooling | None = None,
    normalize: bool | None = None,
) -> EmbeddingPipeline:
    """Load the encoder of a model to embed texts; see `pipeline`."""
    folder = locate_encoder(source, revision)
    modules = modules_of_folder(folder)
    pooling_options = PoolingOptions(modules.poolings, modules.normalize).override(pooling, normalize)
    modules = replace(modules, poolings=pooling_options.modes, normalize=pooling_options.normalize)
    if is_export(folder):
        return exported_embedding_pipeline(modules, options)
    if options.engine not in (None, "auto", "torch"):
        raise InputError(
            f"engine {options.engine}: vectors of {source} come from torch; albertine export --task embed "
            "writes it for other engines"
        )
    model = load_encoder(modules.model_folder)
    return make_embedding_pipeline(modules, model, options)


def modules_of_folder(folder: Path) -> SentenceModules:
    """Return the pooling and the layers after the encoder of a checkpoint folder."""
    if has_sentence_modules(folder):
        return read_sentence_modules(folder)
    return SentenceModules(folder)


def make_embedding_pipeline(
    modules: SentenceModules, model: Model, options: EngineOptions = DEFAULT_OPTIONS
) -> EmbeddingPipeline:
    """Return a pipeline for a loaded model and the tokenizer of its folder; "auto" precision is fp32."""
    tokenizer = load_tokenizer(modules.model_folder, model.settings.vocab_size)
    engine = prepare_torch_engine(model, options.device, options.with_fp32_default().precision)
    return EmbeddingPipeline(engine, tokenizer, modules)


def exported_embedding_pipeline(
    modules: SentenceModules, options: EngineOptions = DEFAULT_OPTIONS
) -> EmbeddingPipeline:
    """Return a pipeline for an exported encoder; "auto" precision is fp32."""
    engine = open_exported_encoder(modules.model_folder, options.with_fp32_default())
    tokenizer = load_tokenizer(modules.model_folder, engine.model_settings.vocab_size)
    return EmbeddingPipeline(engine, tokenizer, modules)
