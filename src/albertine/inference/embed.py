"""Writes the vectors of the texts of a file while they are computed, so that memory is bounded."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from albertine import progress
from albertine.errors import InputError
from albertine.inference.embedding import Vectors, load_embedding_pipeline
from albertine.inference.settings import EmbedSettings
from albertine.inference.table_writer import RowStream, write_table
from albertine.settings.engine import EngineOptions
from albertine.storage.objects import display_path
from albertine.storage.output_file import check_output_file, output_file
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.texts import read_texts
from albertine.tasks.reading import report_skipped
from albertine.tasks.settings import DataSettings
from albertine.text.read_errors import ReadErrors

_SUFFIXES = (".npy", ".jsonl")
_DIGITS = 8  # after the decimal point; more than fp32 has for values between 0.1 and 1


def embed(model: str | Path, settings: EmbedSettings, out: str | Path | None = None) -> int:
    """Write the vectors of the texts of a file; return their number.

    Args:
        model: a run, the folder of a checkpoint (also of `transformers`, sentence-transformers or Google) or
            of an export with `--task embed`, or a hub name.
        settings: the data, its columns, and how to pool.
        out: a path or URL of a file of NumPy, .npy, with an array [texts, vector], or of JSON lines. Without
            it, JSON lines are written to standard output.
    """
    if settings.data is None:
        raise InputError("--data is missing: a .txt, .csv, .tsv, .jsonl or .parquet file, or hub:OWNER/NAME")
    file = None if out is None else Path(out)
    if file is not None:
        _check_file(file)
    pipeline = load_embedding_pipeline(
        model,
        EngineOptions(settings.device, settings.precision, settings.engine),
        pooling=settings.pooling,
        normalize=settings.normalize,
    )
    errors = ReadErrors(skip=settings.on_error == "skip")
    counts = EncodingCounts(pipeline.tokenizer.special_ids)
    chunks = pipeline.embed_examples(_examples(settings, errors), counts)
    if file is not None and file.suffix.lower() == ".npy":
        count = _write_npy((vectors for _, vectors in chunks), pipeline.vector_size, file)
    else:
        count = write_table(RowStream(_rows(chunks)), file, ("embedding",), "vectors")
    report_skipped(errors)
    counts.print_warnings(settings.data)
    return count


def _check_file(file: Path) -> None:
    """Raise `InputError` if vectors cannot be written to a file."""
    if file.suffix.lower() not in _SUFFIXES:
        raise InputError(
            f"{display_path(file)}: unknown format; name a file that ends in {' or '.join(_SUFFIXES)}"
        )
    check_output_file(file)


def _examples(settings: EmbedSettings, errors: ReadErrors) -> Iterator[TextExample]:
    """Yield the texts of the data; raise `InputError` if there are none."""
    assert settings.data is not None
    columns = DataSettings(text=settings.text, id=settings.id, header=settings.header)
    columns = columns.with_explicit_keys(settings.explicit_keys)
    count = 0
    texts = read_texts(settings.data, columns, errors)
    for count, example in enumerate(progress.track(texts, "Embedding", unit="texts"), 1):  # noqa: B007
        yield example
    if not count:
        raise InputError(f"{settings.data}: no texts")


def _rows(
    chunks: Iterable[tuple[Iterable[TextExample], Vectors]],
) -> Iterator[tuple[TextExample, dict[str, Any]]]:
    """Yield each text with its vector as a list of numbers."""
    for examples, vectors in chunks:
        rounded = vectors.astype(np.float64).round(_DIGITS).tolist()
        for example, values in zip(examples, rounded, strict=True):
            yield example, {"embedding": values}


def _write_npy(chunks: Iterable[Vectors], vector_size: int, out: Path) -> int:
    """Write vectors as one array of fp32, [texts, vector], and return their number.

    The number is known at the end; the header, which NumPy pads for that, is then written again.
    """
    count = 0
    with output_file(out) as partial, partial.open("wb") as stream:
        _write_header(stream, count, vector_size)
        start = stream.tell()
        for vectors in chunks:
            stream.write(vectors.astype("<f4", copy=False).tobytes())
            count += len(vectors)
        stream.seek(0)
        _write_header(stream, count, vector_size)
        assert stream.tell() == start
    progress.print_message(f"{display_path(out)}: {count:,} vectors of {vector_size:,} values")
    return count


def _write_header(stream: Any, count: int, vector_size: int) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": (count, vector_size)}
    np.lib.format.write_array_header_1_0(stream, header)
