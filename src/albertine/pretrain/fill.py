"""`albertine fill`: masks of a text, or of held-out samples, and what the model puts there."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.text import Text

from albertine import progress
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sample, Sampler
from albertine.corpus.settings import Objective
from albertine.corpus.view import drawn
from albertine.errors import InputError
from albertine.pretrain.guess import Guess, Guesser, guesser
from albertine.pretrain.prepare import corpus_of, refuse_other_tokenizer
from albertine.pretrain.settings import FillSettings
from albertine.text.pieces import parted
from albertine.text.tokenizer import Tokenizer

_RIGHT = "bold green"
_LONGEST = 128  # pieces: what one likes to read


def fill(source: str, texts: Sequence[str], settings: FillSettings, *, as_json: bool) -> None:
    """Fill the masks of texts, or of a corpus's held-out samples, and print the guesses."""
    if bool(texts) == (settings.corpus is not None):
        raise InputError("give texts with [MASK] in them, or --corpus for held-out samples; one of the two")
    guess = guesser(source, device=settings.device)
    if texts:
        found = [guess.fill(text, best=settings.best) for text in texts]
        _show_texts(texts, found, guess.tokenizer, as_json=as_json)
        return
    corpus = corpus_of(settings.corpus)
    refuse_other_tokenizer(source, guess.tokenizer.fingerprint, corpus)
    longest = settings.max_length or min(_LONGEST, guess.model.model.max_length)
    if longest > guess.model.model.max_length:
        raise InputError(f"--max-length {longest}: the model takes {guess.model.model.max_length} pieces")
    objective = Objective("sop" if guess.orders else "none", longest, seed=settings.seed)
    _show_samples(guess, corpus, objective, settings, as_json=as_json)


def _show_texts(
    texts: Sequence[str], found: Sequence[list[list[Guess]]], tokenizer: Tokenizer, *, as_json: bool
) -> None:
    if as_json:
        told = [
            {"text": text, "masks": [_as_json(one) for one in masks]}
            for text, masks in zip(texts, found, strict=True)
        ]
        print(json.dumps({"texts": told}, indent=2, ensure_ascii=False))
        return
    out = progress.results()
    for text, masks in zip(texts, found, strict=True):
        out.print(Text(text, "bold"))
        for guesses in masks:
            out.print(Text("  ").append(_listed(guesses, tokenizer)))


def _show_samples(
    guess: Guesser, corpus: Corpus, objective: Objective, settings: FillSettings, *, as_json: bool
) -> None:
    sampler = Sampler(corpus, objective, "dev")
    places = np.arange(settings.first, min(settings.first + settings.samples, len(sampler)))
    if not len(places):
        raise InputError(f"{corpus.folder}: sample {settings.first:,} is asked for; it has {len(sampler):,}")
    samples = sampler.draw(places)
    found = [guesses_of(guess, sample, settings.best) for sample in samples]
    tokenizer = corpus.tokenizer
    pieces = tokenizer.pieces
    if as_json:
        told = [
            {
                "sample": int(place),
                "masks": [
                    {"expected": pieces[label], "guesses": _as_json(one)}
                    for label, one in zip(sample.labels.tolist(), masks, strict=True)
                ],
            }
            for place, sample, masks in zip(places, samples, found, strict=True)
        ]
        print(json.dumps({"samples": told}, indent=2, ensure_ascii=False))
        return
    out = progress.results()
    for place, sample, masks in zip(places, samples, found, strict=True):
        out.print(Text(f"sample {place:,}", "bold"))
        out.print(drawn(sample, tokenizer))
        for label, guesses in zip(sample.labels.tolist(), masks, strict=True):
            _, bare = parted(pieces[label], " ", rest_is_marked=tokenizer.marks_rest)
            out.print(Text(f"  {bare}: ").append(_listed(guesses, tokenizer, pieces[label])))
        out.print()


def guesses_of(guess: Guesser, sample: Sample, best: int) -> list[list[Guess]]:
    """Return what the model puts at the masked places of a sample."""
    places = sample.masked.tolist()
    return guess.guesses(sample.tokens.tolist(), sample.types.tolist(), places, best) if places else []


def _listed(guesses: Sequence[Guess], tokenizer: Tokenizer, expected: str | None = None) -> Text:
    """Write guesses in a line, as pieces that begin a word or go on with one ("/s")."""
    line = Text()
    for one in guesses:
        shown = "".join(parted(one.piece, "x", rest_is_marked=tokenizer.marks_rest)).strip()
        line.append(", " if line else "").append(shown, _RIGHT if one.piece == expected else "")
        line.append(f" {one.score:.1%}", "dim")
    return line


def _as_json(guesses: Sequence[Guess]) -> list[dict[str, Any]]:
    return [{"piece": one.piece, "score": one.score} for one in guesses]
