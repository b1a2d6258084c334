"""Reading text of every format and compression in chunks of any size; errors name the location."""

import contextlib
import gzip
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from albertine import json_input
from albertine.errors import AlbertineError, InputError, WorkError
from albertine.text import parquet_rows, sources
from albertine.text.documents import detect_layout, read_documents
from albertine.text.find_sources import find_sources
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import ReadingSettings
from albertine.text.sources import source_chunks

BOOK = "The cat sat on the mat. It was warm.\n\nThen a dog came! \u201cRun,\u201d said the cat.\n"
SENTENCES = ["The cat sat on the mat.", "It was warm.", "Then a dog came!", "\u201cRun,\u201d said the cat."]
LINE_DOCUMENTS = [["The cat sat.", "It ran."], ["A dog came!"], ["Was it big?", "It was.", "Very."]]


def read_with_errors(*names: object, skip: bool, **options: str) -> tuple[list[list[str]], ReadErrors]:
    """Return all documents and the read errors."""
    reading = ReadingSettings(**options)  # type: ignore[arg-type]  # values as on the command line
    errors = ReadErrors(skip=skip)
    documents = [
        document
        for source in find_sources([str(name) for name in names])
        for chunk in source_chunks(source)
        for document in read_documents(chunk, reading, errors)
    ]
    return documents, errors


def read_all(*names: object, **options: str) -> list[list[str]]:
    """Return all documents; raise the first read error."""
    return read_with_errors(*names, skip=False, **options)[0]


def compressed(content: bytes, suffix: str) -> bytes:
    if suffix == ".gz":
        return gzip.compress(content)
    if suffix == ".zst":
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(content)
        return bytes(sink.getvalue())
    return content


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("byte_order_mark", [b"", b"\xef\xbb\xbf"])
def test_prose(tmp_path: Path, suffix: str, ending: str, byte_order_mark: bytes) -> None:
    file = tmp_path / f"book.txt{suffix}"
    file.write_bytes(compressed(byte_order_mark + BOOK.replace("\n", ending).encode(), suffix))
    assert read_all(file) == [SENTENCES]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_lines(tmp_path: Path, suffix: str) -> None:
    text = "\n\n".join("\n".join(document) for document in LINE_DOCUMENTS)
    (tmp_path / f"a.txt{suffix}").write_bytes(compressed(text.encode(), suffix))
    assert read_all(tmp_path) == LINE_DOCUMENTS
    assert read_all(tmp_path, layout="prose") == [[line for document in LINE_DOCUMENTS for line in document]]


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_json_lines(tmp_path: Path, suffix: str) -> None:
    rows = [{"body": BOOK, "id": 1}, {"body": "One more. And another."}]
    text = "\n".join(map(json.dumps, rows)) + "\n\n"
    (tmp_path / f"a.jsonl{suffix}").write_bytes(compressed(text.encode(), suffix))
    assert read_all(tmp_path, field="body") == [SENTENCES, ["One more.", "And another."]]
    with pytest.raises(InputError, match="byte 0: no field text; fields: body, id; choose one with --field"):
        read_all(tmp_path)


def test_parquet(tmp_path: Path) -> None:
    table = pa.table({"text": [BOOK, "One more. And another.", "  "]})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    assert read_all(tmp_path) == [SENTENCES, ["One more.", "And another."]]
    with pytest.raises(InputError, match=r"no field body; fields: text"):
        read_all(tmp_path, field="body")
    _, errors = read_with_errors(tmp_path, skip=True, field="body")
    assert errors.count == table.num_rows
    assert errors.messages[0].endswith("a.parquet: no field body; fields: text; choose one with --field")
    parquet.write_table(pa.table({"text": [BOOK, None]}), tmp_path / "a.parquet")
    _, errors = read_with_errors(tmp_path, skip=True)
    assert errors.messages[0].endswith("row 1: field text is NoneType, expected text")
    (tmp_path / "a.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:-9])
    with pytest.raises(InputError, match="damaged, or not Parquet"):
        read_all(tmp_path)


def test_hub_dataset_from_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    (tmp_path / "set").mkdir()
    for name, rows in (("a", [BOOK]), ("b", ["One more. And another."])):
        text = "\n".join(json.dumps({"text": row}) for row in rows)
        (tmp_path / "set" / f"train-{name}.jsonl").write_text(text)
    assert read_all(f"hub:{tmp_path / 'set'}") == [SENTENCES, ["One more.", "And another."]]
    with pytest.raises(InputError, match="cannot open the dataset"):
        read_all(f"hub:{tmp_path / 'nowhere'}")


@given(
    documents=st.lists(
        st.lists(st.text("ab é", min_size=1).filter(str.strip), min_size=1, max_size=4), min_size=1
    ),
    size=st.integers(1, 40),
)
def test_chunk_size_does_not_change_the_lines(
    documents: list[list[str]], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    text = "\n\n".join("\n".join(document) for document in documents)
    (folder / "a.txt").write_text(text, encoding="utf-8")
    (folder / "b.jsonl").write_text(
        "\n".join(json.dumps({"text": line}) for document in documents for line in document)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CHUNK_BYTES", size)
        lines = [line for document in read_all(folder / "a.txt", layout="lines") for line in document]
        records = read_all(folder / "b.jsonl", layout="prose")
    assert lines == [line.strip() for document in documents for line in document]
    assert len(records) == sum(map(len, documents))


def test_documents_are_not_split_at_chunk_boundaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n\n".join("\n".join(document) for document in LINE_DOCUMENTS * 40)
    (tmp_path / "a.txt").write_text(text)
    monkeypatch.setattr(sources, "CHUNK_BYTES", 100)
    assert read_all(tmp_path, layout="lines") == LINE_DOCUMENTS * 40


def test_layout_is_detected() -> None:
    lines = "\n\n".join("\n".join(document) for document in LINE_DOCUMENTS * 5)
    assert detect_layout(lines, "en") == "lines"
    assert detect_layout(BOOK * 20, "en") == "prose"
    assert detect_layout("There was no plan B\u00a0.\nNone at all.\n" * 9, "en") == "lines"
    assert detect_layout("One paragraph. Of two sentences.\nAnother one here. It too.\n" * 9, "en") == "prose"
    assert (
        detect_layout("A title without an end\nand a line that\ngoes on over\nthe end.\n" * 9, "en")
        == "prose"
    )


def test_folders_globs_and_repeated_names(tmp_path: Path) -> None:
    for name in ("b.txt", "sub/a.txt", ".hidden.txt", "notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"I am {name}.")
    names = [Path(source.name).name for source in find_sources([str(tmp_path), str(tmp_path / "*.txt")])]
    assert names == ["b.txt", "a.txt"]
    assert find_sources([str(tmp_path / "**" / "*.txt")])
    assert read_all(tmp_path / "notes.md") == [["I am notes.md."]]


@pytest.mark.parametrize("start", ["", "\ufeff", "\n \n", "\ufeff\n", '{"text": "cut off\n'])
def test_json_lines_of_standard_input_are_recognized(
    start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = f'{start}{{"text": "One."}}\n{{"text": "Two."}}\n'.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    (source,) = find_sources(["-"], spool=tmp_path / "spool")
    assert source.format == "jsonl"


@pytest.mark.parametrize("content", ["{curly} braces.\nMore text.\n", "{"])
def test_standard_input_that_only_begins_like_json_is_text(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    (source,) = find_sources(["-"], spool=tmp_path / "spool")
    assert source.format == "text"
    assert "begins with {, but is no JSON; read as plain text" in capsys.readouterr().err


@pytest.mark.parametrize("content", ['{\n  "text": "One."\n}\n', '{"text": "cut off', "{}x"])
def test_json_of_several_lines_on_standard_input_is_refused(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    with pytest.raises(InputError, match="give one record per line, as jq -c does"):
        find_sources(["-"], spool=tmp_path / "spool")


def test_standard_input_is_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BOOK.encode())))
    (source,) = find_sources(["-"], spool=tmp_path / "spool")
    assert source.name == "standard input"
    documents = read_documents(next(source_chunks(source)), ReadingSettings(), ReadErrors(skip=False))
    assert list(documents) == [SENTENCES]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"fine\nnot \xff fine\n", "byte 9: not UTF-8"),
        ("a.txt", b"", "empty"),
        ("a.txt", "wide".encode("utf-16"), "UTF-16 text; convert it, as in: iconv -f UTF-16 -t UTF-8"),
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', "byte 14: not JSON"),
        ("a.jsonl", b'{"text": 5}\n', "field text is int, expected text"),
        ("a.jsonl", b"[1]\n", "record is list, expected an object with field text"),
        ("a.jsonl", b'{"text": "\xff"}\n', "byte 0: not UTF-8"),
        ("a.txt.gz", gzip.compress(b"some text. " * 99, mtime=0)[:-9], "damaged, or not gzip"),
        ("a.txt.gz", b"no gzip at all", "damaged, or not gzip"),
        ("a.txt.zst", compressed(b"some text. " * 99, ".zst")[:-9], "damaged, or not zstd"),
        ("a.txt.zst", b"no zstd at all", "damaged, or not zstd"),
        ("a.parquet.gz", b"PAR1", "Parquet has its own compression"),
        ("a.json", b"{}", "a single JSON document; convert it to .jsonl"),
        ("a.csv", b"text,label\nIt is fine.,1\n", "a table; convert it to .jsonl"),
        ("a.tsv.gz", gzip.compress(b"It is fine.\t1\n", mtime=0), "a table; convert it to .jsonl"),
        ("a.txt", b"w\0i\0d\0e\0", "zero bytes, not UTF-8 text"),
        ("a.jsonl", b'{"text": "\\ud800"}', "an unpaired surrogate"),
    ],
)
def test_error_names_the_unreadable_input(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(AlbertineError) as raised:
        read_all(tmp_path / name)
    assert name in str(raised.value)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unreadable_input_is_skipped_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"It is fine.\nIt is \xff not.\nThis is.\n")
    (tmp_path / "b.jsonl").write_bytes(b'{"text": "Good."}\n{"txt": "x"}\nbad\n{"text": "Also good."}\n')
    documents, errors = read_with_errors(tmp_path, skip=True)
    assert documents == [["It is fine.", "This is."], ["Good."], ["Also good."]]
    assert errors.count == 3
    assert "a.txt, byte 18: not UTF-8" in errors.messages[0]


@pytest.mark.parametrize("argument", ["nowhere", "no*where", "-"])
def test_error_names_the_missing_input(
    argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=argument.replace("*", r"\*")):
        find_sources([argument], spool=tmp_path / "spool")


def test_files_of_a_folder_that_are_no_text_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [
        "a.txt",
        "b.jsonl.gz",
        "c.pdf",
        "d.PDF",
        "e.csv.gz",
        "LICENSE",
        ".hidden.md",
        "g.1",
        "h.2",
        "i.3",
    ]
    for name in names:
        (tmp_path / name).touch()
    find_sources([str(tmp_path / "*.pdf")])
    assert capsys.readouterr().err == ""  # files that were named
    assert [Path(source.name).name for source in find_sources([str(tmp_path)])] == names[:2]
    message = capsys.readouterr().err
    assert f"{tmp_path}: files left out: 2 .pdf, 1 without a suffix, 1 .csv, 1 .1, 1 .2, 1 more;" in message


def test_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no text files in this folder"):
        find_sources([str(tmp_path)])


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("{}", "closed"),
        ("{}/closed", "closed"),
        ("{}/closed/a.txt", "closed/a.txt"),
        ("{}/closed/*.txt", "closed/*.txt"),
        ("{}/*/a.txt", "closed/a.txt"),
        ("{}/**/*.txt", "closed"),
        ("*/*.txt", "closed"),
        ("**/*.txt", "closed"),
        ("*.txt", None),
    ],
)
def test_folders_without_permission_are_named(argument: str, named: str | None) -> None:
    done, folder = _find_beside_a_closed_folder(argument, {"b.txt": "Fine."})
    if named is None:
        assert done.stdout == "['b.txt']\n"
    else:
        path = f"{folder}/{named}" if "{}" in argument else named
        assert done.stdout.removeprefix("./") == f"{path}: Permission denied\n", done.stderr


def test_a_glob_that_matches_files_leaves_out_a_folder_without_permission() -> None:
    done, _ = _find_beside_a_closed_folder("*/*.txt", {"open/b.txt": "Fine."})
    assert done.stdout == "['open/b.txt']\n"
    assert done.stderr == "closed: left out: Permission denied\n"


def _find_beside_a_closed_folder(
    argument: str, files: dict[str, str]
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """Find sources in a folder with files and a folder that may not be read; return the folder, too."""
    # Another process, because the user of this one may read everything.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file, text in files.items():
            (folder / file).parent.mkdir(exist_ok=True)
            (folder / file).write_text(text)
        (folder / "closed").mkdir()
        (folder / "closed" / "a.txt").write_text("Closed.")
        (folder / "closed").chmod(0o700 if os.geteuid() == 0 else 0)
        script = (
            "import os, sys\n"
            "from albertine.errors import InputError\n"
            "from albertine.text.find_sources import find_sources\n"
            "if os.geteuid() == 0: os.seteuid(65534)\n"
            "try: print([source.name for source in find_sources([sys.argv[1]])])\n"
            "except InputError as error: print(error)\n"
        )
        command = [sys.executable, "-c", script, argument.format(folder)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        (folder / "closed").chmod(0o700)
    return done, folder


def test_a_model_is_not_read_as_text(tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "metrics.jsonl"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match="a model, which holds no text; name text or a table"):
        find_sources([str(tmp_path)])


def test_unreadable_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("It is fine.")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"This is cut. " * 99)[:-9])
    (tmp_path / "c.txt").write_bytes("wide".encode("utf-16"))
    (tmp_path / "d.parquet").write_bytes(b"PAR1")
    (tmp_path / "e.txt").write_bytes(b"")
    documents, errors = read_with_errors(tmp_path, skip=True)
    assert documents[0] == ["It is fine."]
    assert errors.count == 4
    for expected in ("b.txt.gz: damaged", "c.txt: UTF-16", "d.parquet: damaged", "e.txt: empty"):
        assert any(expected in message for message in errors.messages)


@pytest.mark.parametrize(
    ("content", "problem"),
    [((BOOK * 40).encode("utf-16"), "UTF-16 text"), (b"\0PNG" + BOOK.encode() * 40, "zero bytes")],
)
def test_all_chunks_of_a_file_that_is_not_text_are_refused(
    content: bytes, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "CHUNK_BYTES", 500)
    (tmp_path / "a.txt").write_bytes(content)
    documents, errors = read_with_errors(tmp_path, skip=True)
    assert not documents
    assert errors.count == 1
    assert problem in errors.messages[0]
    (source,) = find_sources([str(tmp_path)])
    chunks = list(source_chunks(source))
    assert len(chunks) > 3
    with pytest.raises(InputError, match=f"a.txt: {problem}"):
        list(read_documents(chunks[2], ReadingSettings(), ReadErrors(skip=False)))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *product(["a.txt", "a.jsonl", "a.txt.gz", "a.parquet"], ["truncate", "remove"]),
        *product(["a.txt.gz", "a.parquet"], ["grow"]),
    ],
)
def test_a_file_that_changes_while_it_is_read_is_refused(name: str, change: str, tmp_path: Path) -> None:
    file = tmp_path / name
    if name == "a.parquet":
        parquet.write_table(pa.table({"text": [BOOK]}), file)
    else:
        content = (json.dumps({"text": BOOK}) + "\n").encode() * 3
        file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (source,) = find_sources([str(file)])
    (chunk,) = source_chunks(source)
    match change:
        case "truncate":
            os.truncate(file, source.size // 2)
        case "grow":
            os.truncate(file, source.size + 5)
        case "remove":
            file.unlink()
    with pytest.raises(WorkError, match=f"{name}: shortened, replaced or removed while it was read"):
        list(read_documents(chunk, ReadingSettings(), ReadErrors(skip=True)))


def test_a_file_that_changes_while_a_chunk_is_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text((json.dumps({"text": BOOK}) + "\n") * 3)
    (source,) = find_sources([str(file)])
    (chunk,) = source_chunks(source)
    documents = read_documents(chunk, ReadingSettings(), ReadErrors(skip=True))
    assert next(documents)
    os.truncate(file, source.size - 5)
    with pytest.raises(WorkError, match="shortened, replaced or removed while it was read"):
        list(documents)


def test_a_file_that_grows_is_read_as_it_was_found(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text((json.dumps({"text": BOOK}) + "\n") * 3)
    (source,) = find_sources([str(file)])
    (chunk,) = source_chunks(source)
    with file.open("a") as stream:
        stream.write(json.dumps({"text": "More."}) + "\n")
    assert len(list(read_documents(chunk, ReadingSettings(), ReadErrors(skip=False)))) == 3


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [50, 130, 1000])
def test_documents_are_not_split_with_any_line_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, size: int
) -> None:
    text = "\n\n".join("\n".join(document) for document in LINE_DOCUMENTS * 40).replace("\n", ending)
    (tmp_path / "a.txt").write_bytes(text.encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(sources, "CHUNK_BYTES", size)
    assert read_all(tmp_path / "a.txt", layout="lines") == LINE_DOCUMENTS * 40
    assert read_all(tmp_path / "b.txt.gz", layout="lines") == LINE_DOCUMENTS * 40


def test_lines_layout_is_detected_in_long_files() -> None:
    text = "\n\n".join("\n".join(document) for document in LINE_DOCUMENTS * 500)
    assert detect_layout(text, "en") == "lines"


def test_single_long_line_is_split_between_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("word " * 500)
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": "word " * 500}))
    monkeypatch.setattr(sources, "CHUNK_BYTES", 99)
    monkeypatch.setattr(sources, "_SEARCH_BYTES", 50)
    documents = read_all(tmp_path / "a.txt")
    assert len(documents) > 9
    assert {word for document in documents for line in document for word in line.split()} == {"word"}


def test_corrupt_gzip_raises_no_unexpected_error(tmp_path: Path) -> None:
    content = gzip.compress("\n".join(f"Sentence number {n}." for n in range(500)).encode())
    for offset in range(0, len(content), 23):
        (tmp_path / "a.txt.gz").write_bytes(
            content[:offset] + bytes([content[offset] ^ 0x55]) + content[offset + 1 :]
        )
        with contextlib.suppress(AlbertineError):
            read_all(tmp_path / "a.txt.gz")


def test_loops_of_links_end(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "b.txt").write_text("It is b.")
    (tmp_path / "text" / "a").mkdir()
    (tmp_path / "text" / "a" / "c.txt").write_text("It is c.")
    for name in ("loop", "other"):
        (tmp_path / "text" / name).symlink_to(tmp_path / "text")
        (tmp_path / "text" / "a" / name).symlink_to("..")
    documents = [["It is c."], ["It is b."]]
    assert read_all(tmp_path / "text") == documents
    for pattern in ("**/*.txt", "**", "**/a/**/*.txt", "*/**/?.txt"):
        found = {Path(source.name).name for source in find_sources([str(tmp_path / "text" / pattern)])}
        assert found >= {"c.txt"}, pattern
    assert len(find_sources([str(tmp_path / "**" / "*.txt")])) == 2


def test_recursive_glob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.txt", "b/c.txt", "b/d/e.txt", "b/.hidden/f.txt", "[x]/g.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    monkeypatch.chdir(tmp_path)

    def found(pattern: str) -> list[str]:
        return [source.name for source in find_sources([pattern])]

    assert found("**/*.txt") == ["[x]/g.txt", "a.txt", "b/c.txt", "b/d/e.txt"]
    assert found("b/**/*.txt") == ["b/c.txt", "b/d/e.txt"]
    assert found(f"{tmp_path}/b/**/e.txt") == [f"{tmp_path}/b/d/e.txt"]
    assert found("**/d/*") == ["b/d/e.txt"]


@given(
    content=st.text("ab\r\n", max_size=60).map(str.encode), limit=st.integers(1, 9), size=st.integers(1, 7)
)
def test_bounded_lines(content: bytes, limit: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_SEARCH_BYTES", size)
        lines = list(sources.bounded_lines(io.BytesIO(content), limit))
    whole = content.splitlines(keepends=True)
    assert [line for _, line in lines] == [line if len(line) <= limit else None for line in whole]
    assert [offset for offset, _ in lines] == [sum(map(len, whole[:index])) for index in range(len(whole))]


@given(text=st.text("aé漢🙂。 \n", min_size=1), size=st.integers(8, 40), is_compressed=st.booleans())
def test_text_is_split_between_characters(
    text: str, size: int, is_compressed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("text") / ("a.txt.gz" if is_compressed else "a.txt")
    file.write_bytes(gzip.compress(text.encode()) if is_compressed else text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CHUNK_BYTES", size)
        patch.setattr(sources, "_SEARCH_BYTES", 8)
        (source,) = find_sources([str(file)])
        blocks = [block for chunk in source_chunks(source) for _, block in sources.read_blocks(chunk)]
    assert b"".join(blocks) == text.encode()
    assert "".join(block.decode() for block in blocks) == text
    assert max(map(len, blocks)) <= 2 * size + 16


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst", "a.jsonl", "a.jsonl.gz", "a.parquet"])
@pytest.mark.parametrize("layout", ["prose", "lines"])
def test_sentences_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, layout: str
) -> None:
    monkeypatch.setattr(sources, "CHUNK_BYTES", 1 << 18)
    text = "acgt" * 80_000
    if name == "a.parquet":
        parquet.write_table(pa.table({"text": [text]}), tmp_path / name)
    else:
        content = json.dumps({"text": text}) if ".jsonl" in name else text
        (tmp_path / name).write_bytes(compressed(content.encode(), Path(name).suffix))
    documents = read_all(tmp_path / name, layout=layout)
    assert "".join(sentence for document in documents for sentence in document) == text
    assert max(len(sentence) for document in documents for sentence in document) == 1 << 16


def test_long_sentences_are_split_at_spaces(tmp_path: Path) -> None:
    text = "word " * 30_000
    (tmp_path / "a.txt").write_text(text)
    (document,) = read_all(tmp_path)
    assert len(document) == 3
    assert " ".join(document).split() == text.split()


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_long_records_are_refused_or_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sources, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(sources, "CHUNK_BYTES", 300)
    monkeypatch.setattr(sources, "_SEARCH_BYTES", 50)
    lines = [json.dumps({"text": text}) for text in ("It is a.", "b" * 9000, "It is c.", "d" * 900)]
    (tmp_path / name).write_bytes(compressed("\n".join(lines).encode(), Path(name).suffix))
    with pytest.raises(InputError, match=r"byte 21: a line of more than 64 MiB; fix it, or use --on-error"):
        read_all(tmp_path)
    documents, errors = read_with_errors(tmp_path, skip=True)
    assert documents == [["It is a."], ["It is c."], ["d" * 900]]
    assert errors.count == 1


def test_json_of_too_many_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"byte 0: not JSON \(nested too deeply\)"):
        read_all(tmp_path)
    monkeypatch.setattr(json_input, "_MAX_VALUES", 100)
    (tmp_path / "a.jsonl").write_text('{"text": [' + "[]," * 200 + "[]]}")
    with pytest.raises(InputError, match="byte 0: JSON of more than 100 values"):
        read_all(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("mark", "'`«»‘“„‹《「")
def test_unpaired_quotation_marks_take_linear_time(mark: str) -> None:
    """Without a division of the text, 256 KiB of some of these marks take a minute."""
    started = time.process_time()
    assert detect_layout(mark * (1 << 18), "en") == "prose"
    assert detect_layout(f"{mark * (1 << 17)}\n" * 2, "en") == "prose"
    assert time.process_time() - started < 10


def write_invalid_text(file: Path, rows: int = 3) -> None:
    """Write a table whose middle text is not UTF-8, which Arrow does not check."""
    texts = [b"It is fine."] * (rows // 2) + [b"not \xff"] + [b"It is fine."] * (rows // 2)
    column = pa.array(texts, pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"text": column}), file)


def test_invalid_utf8_in_parquet_is_refused_or_skipped(tmp_path: Path) -> None:
    write_invalid_text(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a.parquet, group 0, row 1: column text: not UTF-8; fix it, or"):
        read_all(tmp_path)
    documents, errors = read_with_errors(tmp_path, skip=True)
    assert documents == [["It is fine."], ["It is fine."]]
    assert errors.count == 1


def test_nested_parquet_column_is_no_text(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"text": [["a", "b"]]}), tmp_path / "a.parquet")
    with pytest.raises(
        InputError, match=r"field text is list<.*, expected text; choose another with --field"
    ):
        read_all(tmp_path)


def test_decompression_bomb_of_parquet_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"text": ["a" * (20 << 20)]}), tmp_path / "a.parquet", compression="zstd")
    with pytest.raises(InputError, match="20 MiB compressed more than 200:1"):
        read_all(tmp_path)


def test_long_lists_of_parquet_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal elements take almost no space in the file."""
    file = tmp_path / "a.parquet"
    table = pa.table({"text": ["a", "b"], "a.b": [["c"] * 60_000, ["c"] * 60_000], "tags": [["x"], []]})
    parquet.write_table(table, file, row_group_size=1)
    monkeypatch.setattr(parquet_rows, "_MAX_LIST_ELEMENTS", 50_000)
    with pytest.raises(InputError, match=r"lists of 60,000 elements, more than 50,000; write smaller row"):
        list(parquet_rows.parquet_rows(file, ["text", "a.b"]))
    assert len(list(parquet_rows.parquet_rows(file, ["text", "tags"]))) == 2
    monkeypatch.setattr(parquet_rows, "_MAX_LIST_ELEMENTS", 60_000)
    assert len(list(parquet_rows.parquet_rows(file, ["a.b"]))) == 2
    monkeypatch.setattr(parquet_rows, "_LARGEST_COLUMN_SCRIPT", "import os; os.abort()")
    with pytest.raises(InputError, match=r"a.parquet: damaged, or not Parquet; get the file again"):
        list(parquet_rows.parquet_rows(file, ["tags"]))


@pytest.mark.slow
def test_changed_bytes_of_parquet_raise_no_unexpected_error(tmp_path: Path) -> None:
    """Some changes of the footer would end the process if the metadata of columns were read."""
    file = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"text": [BOOK] * 20, "number": range(20)}), file, row_group_size=7)
    content, rng = file.read_bytes(), random.Random(0)
    for _ in range(1500):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(content))] = rng.randrange(256)
        file.write_bytes(changed)
        with contextlib.suppress(AlbertineError):
            read_all(file)
