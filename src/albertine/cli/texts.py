"""Commands that make vocabularies and corpora from text."""

from typing import Annotated

from cyclopts import App, Parameter

from albertine.check.settings import CheckSettings
from albertine.cli.application import TEXTS, ClusterOption, JsonFlag, app, check_texts
from albertine.command import DEFAULT_OPTIONS, SETTINGS_PARAMETER, CommonOptions, NoSettings, PathOrUrl
from albertine.corpus.settings import CorpusSettings, CorpusShowSettings
from albertine.errors import InputError, ProblemsFound
from albertine.executors.cluster import open_cluster
from albertine.settings.schema import first_changed
from albertine.text.settings import ReadingSettings, TokenizerSettings

tokenizer = App(name="tokenizer", help="Train or inspect a vocabulary.", group=TEXTS)


app.command(tokenizer)


@tokenizer.command(name="train", usage="Usage: albertine tokenizer train --out PATH [OPTIONS] TEXT...")
def tokenizer_train(
    *text: str,
    out: PathOrUrl,
    cluster: ClusterOption = None,
    settings: Annotated[TokenizerSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Train a unigram vocabulary of subword tokens on text, the kind that ALBERT uses.

    Example: albertine tokenizer train novels/ --vocab-size 30000 --out my-tokenizer

    Args:
        text: Files, folders, globs, s3:// URLs, hub:OWNER/NAME, or -; .txt, .jsonl, .parquet, also .gz, .zst.
        out: A new folder, or a URL of one, which `transformers` can also load.
    """
    from albertine.text.tokenizer_training import build_tokenizer

    resolved_settings = options.read_settings(TokenizerSettings)
    with open_cluster(cluster) as executor:
        build_tokenizer(text, out, resolved_settings, executor)


@tokenizer.command(name="show", usage="Usage: albertine tokenizer show [OPTIONS] FOLDER [TEXT]")
def tokenizer_show(
    folder: PathOrUrl,
    text: str | None = None,
    /,
    *,
    stats: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    json: JsonFlag = False,
    settings: Annotated[ReadingSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show the tokens and ids of a text, or statistics of a vocabulary on files.

    Example: albertine tokenizer show my-tokenizer "The cat sat." --stats novel.txt

    Args:
        folder: The folder or URL of a tokenizer, or of a checkpoint that contains one, or a hub name.
        text: The text to tokenize.
        stats: File, folder or quoted glob, for tokens per word and unknown tokens in it; repeatable.
    """
    from albertine.interop.hub import locate_tokenizer
    from albertine.text import show
    from albertine.text.tokenizer import load_tokenizer
    from albertine.text.unicode_check import check_text

    reading_settings = options.read_settings(ReadingSettings)
    unused = None if stats else first_changed(reading_settings, ("layout", "field", "language", "on_error"))
    if unused:
        raise InputError(f"--{unused.replace('_', '-')}: is for --stats FILE; leave it out")
    check_texts([text or ""])
    check_text(text or "", "TEXT")
    tokenizer = load_tokenizer(locate_tokenizer(folder))
    stats_result = show.tokenizer_stats(tokenizer, stats, reading_settings) if stats else None
    show.show_tokenizer(folder, tokenizer, text, stats_result, as_json=json)


corpus = App(name="corpus", help="Build, inspect or verify a corpus.", group=TEXTS)


app.command(corpus)


@corpus.command(
    name="build", usage="Usage: albertine corpus build --tokenizer PATH --out PATH [OPTIONS] TEXT..."
)
def corpus_build(
    *text: str,
    tokenizer: PathOrUrl,
    out: PathOrUrl,
    cluster: ClusterOption = None,
    json: JsonFlag = False,
    settings: Annotated[CorpusSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Tokenize text into shards for pre-training. If interrupted, run the same command again to resume.

    Example: albertine corpus build novels/ --tokenizer my-tokenizer --held-out 0.01 --out my-corpus

    Args:
        text: Files, folders, globs, s3:// URLs, hub:OWNER/NAME, or -; .txt, .jsonl, .parquet, also .gz, .zst.
        tokenizer: The folder or URL of a tokenizer, or of a checkpoint that contains one, or a hub name.
        out: A new folder or URL, or that of an interrupted build.
    """
    from albertine.corpus import show
    from albertine.corpus.build import build_corpus
    from albertine.interop.hub import locate_tokenizer

    resolved_settings = options.read_settings(CorpusSettings)
    with open_cluster(cluster, resolved_settings.workers) as executor:
        manifest = build_corpus(text, locate_tokenizer(tokenizer), out, resolved_settings, executor)
    show.show_manifest(out, manifest, as_json=json)


@corpus.command(name="show")
def corpus_show(
    folder: PathOrUrl,
    /,
    *,
    json: JsonFlag = False,
    settings: Annotated[CorpusShowSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Show samples as the model gets them: segments, order, masked tokens.

    Example: albertine corpus show my-corpus --objective.pair nsp --samples 5

    Args:
        folder: The folder or URL of a corpus.
    """
    from albertine.corpus import show
    from albertine.corpus.corpus import Corpus

    resolved_settings = options.read_settings(CorpusShowSettings)
    show.show_samples(Corpus(folder), resolved_settings, as_json=json)


@corpus.command(name="check")
def corpus_check(
    folder: PathOrUrl, /, *, json: JsonFlag = False, options: CommonOptions = DEFAULT_OPTIONS
) -> None:
    """Verify the checksums, counts and order of a corpus, and report a damaged shard.

    Example: albertine corpus check my-corpus

    Args:
        folder: The folder or URL of a corpus.
    """
    from albertine.corpus import show
    from albertine.corpus.check import check_corpus

    options.read_settings(NoSettings)
    show.show_manifest(folder, check_corpus(folder).manifest, as_json=json)


@app.command(group=TEXTS, usage="Usage: albertine check [OPTIONS] DATA...")
def check(
    *data: str,
    json: JsonFlag = False,
    settings: Annotated[CheckSettings | None, SETTINGS_PARAMETER] = None,
    options: CommonOptions = DEFAULT_OPTIONS,
) -> None:
    """Check text, a table or a corpus before you use it, and report what will go wrong.

    Each line has a severity, a count, an example with its place, and what to do. The exit status is 0 if
    there are only notes and warnings, and 4 if there are errors.

    Example: albertine check reviews.csv --text review --label stars --dev dev.csv --tokenizer my-run

    Args:
        data: Text, folders, tables (.csv, .tsv, .jsonl, .parquet), hub:OWNER/NAME, a built corpus, or URLs.
    """
    from albertine.check.check import check_data
    from albertine.check.show import show_report, summary

    report = check_data(data, options.read_settings(CheckSettings))
    show_report(report, as_json=json)
    if report.count("error"):
        raise ProblemsFound(f"{summary(report)}; fix the errors first")
