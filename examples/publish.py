"""Train, evaluate, document and pack a model for a hub, and upload it only if you say so.

    python examples/publish.py MY_TEXT OUT --name ME/MY-ALBERT --license apache-2.0 \
        --about "Minutes of the town council, 1990 to 2020, published by the town as CC0."
    python examples/publish.py MY_TEXT OUT ... --push ME/MY-ALBERT

OUT/package is the folder to publish: weights, tokenizer, settings, scores, and README.md, the model card.
If interrupted, run the same command again: it resumes. Read the card before you add --push. The token of
the hub is HF_TOKEN or that of `hf auth login`.
"""

import argparse
import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from model_card import Author, model_card

import albertine
from albertine import progress
from albertine.atomic import atomic_folder
from albertine.corpus.build import build_corpus
from albertine.corpus.corpus import open_corpus
from albertine.corpus.settings import CorpusSettings
from albertine.errors import InputError, WorkError
from albertine.interop.convert import convert_checkpoint
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.report_card.card import ReportCard
from albertine.report_card.page import card_page
from albertine.report_card.run import JSON_FILE, PAGE_FILE, make_report_card
from albertine.report_card.settings import ReportCardSettings
from albertine.settings import MODEL_PRESETS, SettingsSource, build_settings, settings_to_toml
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer


def main() -> None:
    """Train, evaluate and pack a model; upload it with --push."""
    args = _parser().parse_args()
    author = Author(args.name, args.license, args.about, args.example)
    settings = train(args.text, args.out, args.model, args.steps, args.vocab_size)
    corpus, run, package = (args.out / name for name in ("corpus", "run", "package"))
    scores = ReportCardSettings(corpus=corpus, data=args.data)
    card = make_report_card(str(run), args.out / "card", scores)
    pack(package, args.out, author, settings, card)
    print(f"{package}: read its README.md before you publish it")
    if args.push:
        print(push(package, args.push))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", help="a file, a folder or a glob")
    parser.add_argument("out", type=Path)
    parser.add_argument("--name", required=True, help="name in the model card, as OWNER/NAME")
    parser.add_argument("--license", required=True, help="identifier of the license, such as apache-2.0")
    parser.add_argument("--about", required=True, help="what the text is, where it is from, its license")
    parser.add_argument("--example", default="The [MASK] was here.", help="a text with [MASK] for the card")
    parser.add_argument("--data", type=Path, help="folder with tasks, as for albertine report-card")
    parser.add_argument("--model", default="albertine-tiny", choices=MODEL_PRESETS)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--push", metavar="OWNER/NAME", help="create this repository and upload the package")
    return parser


def train(text: str, out: Path, model: str, steps: int, vocab_size: int) -> PretrainSettings:
    """Train a tokenizer and a model on a text; return the settings of the run."""
    tokenizer, corpus = out / "tokenizer", out / "corpus"
    if not tokenizer.exists():
        build_tokenizer([text], tokenizer, TokenizerSettings(vocab_size=vocab_size, allow_smaller=True))
    if not (corpus / "manifest.json").exists():
        build_corpus([text], tokenizer, corpus, CorpusSettings(held_out=0.02))
    values = {
        "corpus": str(corpus),
        "model": {"preset": model},
        "objective": {"max_length": 128},
        "train": {"steps": steps, "batch_tokens": 4096},
    }
    settings = build_settings(PretrainSettings, SettingsSource(values, "this example"))
    pretrain(out / "run", settings)
    return settings


def pack(package: Path, out: Path, author: Author, settings: PretrainSettings, card: ReportCard) -> None:
    """Write the folder to publish; an older one is replaced, because its card may be outdated."""
    shutil.rmtree(package, ignore_errors=True)
    with atomic_folder(package) as folder:
        with progress.quiet_output():  # its message names a folder that moves
            convert_checkpoint(str(out / "run"), folder / "model")  # verifies the written weights
        for file in (folder / "model").iterdir():
            file.rename(folder / file.name)
        (folder / "model").rmdir()
        # Nothing that is published has a path of this machine.
        toml = settings_to_toml(replace(settings, corpus=None))
        (folder / "settings.toml").write_text(toml, encoding="utf-8")
        card = without_paths(card, author.name)
        text = json.dumps(card.to_json(), indent=2) + "\n"
        (folder / JSON_FILE).write_text(text, encoding="utf-8")
        card_page(card).write(folder / PAGE_FILE)
        model = albertine.load(folder).settings
        text = model_card(author, settings, model, open_corpus(out / "corpus").manifest, card)
        (folder / "README.md").write_text(text, encoding="utf-8")


def without_paths(card: ReportCard, name: str) -> ReportCard:
    """Return a report card with the published name of the model and without names of local folders."""
    tasks = [
        replace(task, data=replace(task.data, source=Path(task.data.source).name)) for task in card.tasks
    ]
    return replace(card, model=name, tasks=tasks, skipped_parts=dict.fromkeys(card.skipped_parts, "no data"))


def push(package: Path, name: str) -> str:
    """Upload a folder to a repository of the hub, which is created if needed; return its address."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError, as in interop/hub.py
        HfHubHTTPError,
        HFValidationError,
        HTTPError,
    )

    api = HfApi()
    try:
        url = api.create_repo(name, exist_ok=True)
        api.upload_folder(repo_id=name, folder_path=package, commit_message="Upload model and model card")
    except HFValidationError as error:
        raise InputError(f"{name}: not a valid hub name ({error}); expected OWNER/NAME") from None
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in (401, 403):
            raise InputError(
                f"{name}: the hub refuses the upload (status {status}); set HF_TOKEN to a token that may "
                "write to this repository"
            ) from None
        raise WorkError(f"{name}: the upload failed with status {status}; run the command again") from None
    except (HTTPError, OSError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise WorkError(f"{name}: the upload was interrupted ({reason}); run the command again") from None
    return str(url)


if __name__ == "__main__":
    try:
        main()
    except albertine.AlbertineError as error:
        sys.exit(str(error))
