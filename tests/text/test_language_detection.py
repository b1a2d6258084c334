"""Tests of the detected language, of the settings that follow from it, and of pages in six languages.

The pages in tests/text/languages have one sentence per line and a blank line between paragraphs.
"""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from albertine.corpus.build import build_corpus
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError
from albertine.text import language_samples, sources
from albertine.text.documents import read_documents
from albertine.text.find_sources import find_sources
from albertine.text.language_detection import (
    detect_language,
    detect_source_language,
    resolve_reading_language,
    resolve_tokenizer_language,
)
from albertine.text.language_samples import NUM_PASSAGES, PASSAGE_LENGTH, sample_passages
from albertine.text.read_errors import ReadErrors
from albertine.text.settings import ReadingSettings, TokenizerSettings
from albertine.text.sources import source_chunks
from albertine.text.tokenizer import load_tokenizer
from albertine.text.tokenizer_training import build_tokenizer

PAGES = Path(__file__).parent / "languages"
LANGUAGES = ("de", "el", "tr", "hi", "zh", "ja")
ENGLISH = "The ferry to the island runs only on three days in winter, and nobody minds. "


def sentences(language: str) -> list[str]:
    return [line for line in (PAGES / f"{language}.txt").read_text(encoding="utf-8").split("\n") if line]


def prose(language: str) -> str:
    """Return the page as wrapped prose."""
    joint = "" if language in ("zh", "ja") else " "
    page = (PAGES / f"{language}.txt").read_text(encoding="utf-8").strip()
    return "\n\n".join(joint.join(paragraph.split("\n")) for paragraph in page.split("\n\n")) + "\n"


@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_and_most_of_their_sentences_are_recognized(language: str) -> None:
    assert detect_source_language(
        find_sources([str(PAGES / f"{language}.txt")]), ReadingSettings()
    ).shares == {language: 1.0}
    shares = detect_language(sentences(language)).shares
    assert shares.get(language, 0) >= 0.5
    assert sum(share for code, share in shares.items() if code not in (language, "")) <= 0.06


@pytest.mark.parametrize(
    ("language", "found"), [("de", 18), ("el", 16), ("tr", 18), ("hi", 17), ("zh", 18), ("ja", 18)]
)
def test_sentences_are_found_in_prose(language: str, found: int, tmp_path: Path) -> None:
    (tmp_path / "page.txt").write_text(prose(language), encoding="utf-8")
    sources = find_sources([str(tmp_path)])
    reading = resolve_reading_language(ReadingSettings(layout="prose"), sources)
    documents = [
        document
        for chunk in source_chunks(sources[0])
        for document in read_documents(chunk, reading, ReadErrors(skip=False))
    ]
    expected = sentences(language)
    assert sum(sentence in expected for document in documents for sentence in document) == found
    assert "".join("".join(documents[0]).split()) == "".join("".join(expected).split())  # nothing is lost


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_default_vocabularies_keep_the_words_of_a_language_apart(language: str, tmp_path: Path) -> None:
    distinct = {
        "de": ("schon schön", "Masse Maße", "Weg weg", "fordern fördern"),
        "el": ("που πού", "η ή"),
        "tr": ("acı açı", "kış kis", "ısı isi", "Isı İsi"),
        "hi": ("फल फ़ल", "क्या कया"),
        "zh": ("买 卖",),
        "ja": ("かき がき", "はは ばば ぱぱ"),
    }[language]
    page = PAGES / f"{language}.txt"
    settings = TokenizerSettings(vocab_size=2_000, allow_smaller=True, byte_fallback=True)
    build_tokenizer([str(page)], tmp_path / "kept", settings)
    kept = load_tokenizer(tmp_path / "kept")
    for words in distinct:
        normalized = [kept.normalize(word) for word in words.split()]
        assert len(set(normalized)) == len(normalized), normalized
    options = json.loads((tmp_path / "kept" / "tokenizer_config.json").read_text())
    assert options["language"] == language
    assert options["do_lower_case"] == (language not in ("de", "tr"))
    text = page.read_text(encoding="utf-8")
    assert kept.special_ids.unk not in kept.encode(text)

    from dataclasses import replace

    plain = replace(settings, cased=False, keep_accents=False)
    build_tokenizer([str(page)], tmp_path / "plain", plain)
    stripped = load_tokenizer(tmp_path / "plain")
    lost = [words for words in distinct if len(set(map(stripped.normalize, words.split()))) == 1]
    assert bool(lost) == (language != "zh")  # a given option wins


@pytest.mark.parametrize(
    ("given", "cased", "keep_accents"),
    [
        (TokenizerSettings(), True, True),
        (TokenizerSettings(cased=False), False, True),
        (TokenizerSettings(keep_accents=False), True, False),
        (TokenizerSettings(language="en"), False, False),
        (TokenizerSettings(language="fr"), False, True),
        (TokenizerSettings(language="tr"), True, True),
    ],
)
def test_a_given_option_wins(given: TokenizerSettings, cased: bool, keep_accents: bool) -> None:
    resolved = resolve_tokenizer_language(given, find_sources([str(PAGES / "de.txt")]))
    assert (resolved.cased, resolved.keep_accents) == (cased, keep_accents)
    assert resolved.language == ("de" if given.language == "auto" else given.language)


def test_one_line_says_what_was_found_and_what_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    german = find_sources([str(PAGES / "de.txt")])
    resolve_tokenizer_language(TokenizerSettings(), german)
    assert capsys.readouterr().err == (
        "language: German (100% of 2 passages sampled); capitals and accents are kept, sentences are split "
        "by its rules; --no-cased, --no-keep-accents, --language override this\n"
    )
    resolve_tokenizer_language(TokenizerSettings(language="tr", cased=True), german)
    assert capsys.readouterr().err == (
        "language: Turkish (--language tr); accents are kept, sentences are split at the marks of all "
        "scripts; --no-keep-accents overrides this\n"
    )
    resolve_tokenizer_language(TokenizerSettings(language="en"), german)
    assert not capsys.readouterr().err
    (tmp_path / "a.txt").write_text(ENGLISH * 100)
    resolve_tokenizer_language(TokenizerSettings(), find_sources([str(tmp_path)]))
    assert capsys.readouterr().err == "language: English (100% of 8 passages sampled)\n"
    (tmp_path / "a.txt").write_text("xkcd qwv zzzq 17 bnmp " * 100)
    resolved = resolve_tokenizer_language(TokenizerSettings(), find_sources([str(tmp_path)]))
    assert (resolved.language, resolved.cased, resolved.keep_accents) == ("en", False, False)
    assert capsys.readouterr().err.startswith("language: unknown (100% of 3 passages sampled); treated as")


def test_a_mixed_text_keeps_what_any_of_its_languages_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text(ENGLISH * 300)
    (tmp_path / "b.txt").write_text(prose("de") * 6, encoding="utf-8")
    resolved = resolve_tokenizer_language(TokenizerSettings(), find_sources([str(tmp_path)]))
    assert (resolved.language, resolved.cased, resolved.keep_accents) == ("en", True, True)
    message = capsys.readouterr().err
    assert "language: English (" in message
    assert "sampled, German " in message
    assert "capitals and accents are kept; --no-cased, --no-keep-accents, --language override this" in message


def test_a_mostly_unknown_text_keeps_what_its_other_language_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("xkcd qwv zzzq 17 bnmp " * 800)
    (tmp_path / "b.txt").write_text(prose("de") * 5, encoding="utf-8")
    resolved = resolve_tokenizer_language(TokenizerSettings(), find_sources([str(tmp_path)]))
    assert (resolved.language, resolved.cased, resolved.keep_accents) == ("en", True, True)
    message = capsys.readouterr().err
    assert message.startswith("language: unknown (")
    assert message.endswith(
        "; capitals and accents are kept, sentences are split as in English; "
        "--no-cased, --no-keep-accents, --language override this\n"
    )


def test_the_sample_is_bounded_and_the_same_each_time(tmp_path: Path) -> None:
    rng = random.Random(1)
    words = ENGLISH.split()
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(" ".join(rng.choices(words, k=60_000)))
    passages = sample_passages(find_sources([str(tmp_path)]), ReadingSettings())
    assert len(passages) == NUM_PASSAGES
    assert max(map(len, passages)) <= PASSAGE_LENGTH
    assert passages == sample_passages(find_sources([str(tmp_path)]), ReadingSettings())
    assert len(set(passages)) > 0.9 * NUM_PASSAGES


def test_the_sample_of_many_compressed_files_does_not_end_with_the_first(tmp_path: Path) -> None:
    for number in range(40):
        text = ENGLISH * 300 if number < 20 else prose("de") * 20
        (tmp_path / f"{number:02}.txt.gz").write_bytes(gzip.compress(text.encode()))
    detected = detect_source_language(find_sources([str(tmp_path)]), ReadingSettings())
    assert 0.2 < detected.shares["de"] < 0.8


@pytest.mark.parametrize("form", ["txt.gz", "jsonl", "jsonl.gz", "parquet"])
def test_the_language_of_every_format_is_found(form: str, tmp_path: Path) -> None:
    file = tmp_path / f"page.{form}"
    lines = sentences("de") * 20
    match form:
        case "txt.gz":
            file.write_bytes(gzip.compress((prose("de") * 20).encode()))
        case "parquet":
            pyarrow.parquet.write_table(pa.table({"text": lines}), file)
        case _:
            content = "".join(json.dumps({"text": line}) + "\n" for line in lines).encode()
            file.write_bytes(gzip.compress(content) if form.endswith("gz") else content)
    detected = detect_source_language(find_sources([str(file)]), ReadingSettings())
    assert detected.code == "de"
    assert detected.shares["de"] > 0.95


@pytest.mark.parametrize("content", [b"", b"\n\n \n", b"\xff\xfe\x00", b"\x80" * 5000, b"{" * 5000])
@pytest.mark.parametrize("suffix", ["txt", "jsonl", "parquet", "txt.gz"])
def test_unreadable_text_has_no_language(content: bytes, suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"a.{suffix}").write_bytes(content)
    detected = detect_source_language(find_sources([str(tmp_path)]), ReadingSettings())
    assert detected.code == ""


@pytest.mark.parametrize(("records", "empty"), [(1, 0), (3, 0), (20, 0), (1, 500)])
def test_the_language_of_few_long_records_is_found(records: int, empty: int, tmp_path: Path) -> None:
    lines = [json.dumps({"text": prose("de") * 10})] * records + [json.dumps({"text": ""})] * empty
    (tmp_path / "a.jsonl").write_text("".join(line + "\n" for line in lines))
    passages = sample_passages(find_sources([str(tmp_path)]), ReadingSettings())
    assert len(passages) == min(NUM_PASSAGES, -(-(tmp_path / "a.jsonl").stat().st_size // PASSAGE_LENGTH))
    assert detect_language(passages).code == "de"


def test_the_language_of_a_record_longer_than_a_chunk_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sources, language_samples):
        monkeypatch.setattr(module, "CHUNK_BYTES", 20_000)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": prose("de") * 50}) + "\n")
    assert detect_source_language(find_sources([str(tmp_path)]), ReadingSettings()).code == "de"


def test_a_refused_file_has_no_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "CHUNK_BYTES", 20_000)
    (tmp_path / "a.txt").write_bytes((prose("de") * 50).encode("utf-16"))
    (tmp_path / "b.txt").write_text(ENGLISH * 100)
    detected = detect_source_language(find_sources([str(tmp_path)]), ReadingSettings(on_error="skip"))
    assert detected.shares == {"en": 1.0}


def test_files_without_permission_are_left_out_or_stop_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text(prose("de") * 20, encoding="utf-8")
    (tmp_path / "b.txt").write_text(ENGLISH * 100)
    open_path = Path.open

    def refuse(path: Path, *arguments: Any) -> Any:
        if path.name == "a.txt":
            raise PermissionError(13, "Permission denied", str(path))
        return open_path(path, *arguments)

    monkeypatch.setattr(Path, "open", refuse)
    found = find_sources([str(tmp_path)])
    assert detect_source_language(found, ReadingSettings(on_error="skip")).shares == {"en": 1.0}
    with pytest.raises(InputError, match=r"a\.txt: Permission denied"):
        detect_source_language(found, ReadingSettings())


def test_the_corpus_records_the_language_and_resumes_with_it(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text(prose("de") * 3, encoding="utf-8")
    settings = TokenizerSettings(vocab_size=400, allow_smaller=True)
    build_tokenizer([str(tmp_path / "text")], tmp_path / "tokenizer", settings)
    manifest = build_corpus(
        [str(tmp_path / "text")], tmp_path / "tokenizer", tmp_path / "corpus", CorpusSettings(workers=1)
    )
    assert manifest.settings["language"] == "de"


def test_an_interrupted_build_keeps_its_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from albertine.corpus import build

    (tmp_path / "a.txt").write_text(prose("de") * 3, encoding="utf-8")
    settings = TokenizerSettings(vocab_size=400, allow_smaller=True)
    build_tokenizer([str(tmp_path / "a.txt")], tmp_path / "tokenizer", settings)
    arguments = (
        [str(tmp_path / "a.txt")],
        tmp_path / "tokenizer",
        tmp_path / "corpus",
        CorpusSettings(workers=1),
    )

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(build, "write_shards", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_corpus(*arguments)
    monkeypatch.setattr(build, "resolve_reading_language", interrupt)  # not called: the language is recorded
    assert build_corpus(*arguments).settings["language"] == "de"
