"""What to ask a model for a report, of held-out text: a word to guess, an order to tell, states to follow."""

from collections.abc import Iterator

import numpy as np

from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sample, Sampler
from albertine.corpus.settings import Objective
from albertine.errors import InputError
from albertine.model.strip import Strip
from albertine.pretrain.guess import Guesser
from albertine.report.examples import Filled, Ordered
from albertine.study.transitions import Transition, transitions
from albertine.text.pieces import parted
from albertine.text.tokenizer import Tokenizer

_LONGEST = 44  # pieces: what one reads at a glance
_LEAST_LETTERS = 3
_GUESSES = 5
_GOES_ON = "-"
_FOLLOWED = 64  # samples whose states are followed


def to_fill(guess: Guesser, corpus: Corpus, count: int, seed: int) -> list[Filled]:
    """Hide a word in each of some held-out samples, and let the model guess."""
    draw = np.random.Generator(np.random.PCG64(seed))
    found: list[Filled] = []
    for sample in _samples(corpus, guess.model.model.max_length, 8 * count, seed):
        ids = sample.original()
        words = _whole_words(ids.tolist(), corpus.tokenizer)
        if sample.label or not words or len(found) == count:  # swapped, it would not read as it was written
            continue
        at = int(words[int(draw.integers(len(words)))])
        word = _read(corpus.tokenizer, corpus.tokenizer.pieces[ids[at]])
        before, after = (
            corpus.tokenizer.text(ids[:at].tolist()),
            corpus.tokenizer.text(ids[at + 1 :].tolist()),
        )
        ids[at] = corpus.tokenizer.special.mask
        (guesses,) = guess.guesses(ids.tolist(), sample.types.tolist(), [at], _GUESSES)
        said = [(_read(corpus.tokenizer, one.piece), one.score) for one in guesses]
        found.append(Filled(before, word, after, said))
    return found


def _whole_words(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Return the places of words that are one piece, with some letters, in the middle of a sample."""
    said = [_read(tokenizer, tokenizer.pieces[one]) for one in ids]
    return [
        at
        for at in range(len(ids) // 4, len(ids) - len(ids) // 4)
        if said[at].isalpha() and len(said[at]) >= _LEAST_LETTERS and not said[at + 1].startswith(_GOES_ON)
    ]


def _read(tokenizer: Tokenizer, piece: str) -> str:
    """Return a piece without its marks, with a hyphen where it goes on with a word."""
    before, bare = parted(piece, "x", rest_is_marked=tokenizer.marks_rest)
    return f"{_GOES_ON}{bare}" if before == "/" else bare


def to_order(guess: Guesser, corpus: Corpus, count: int, seed: int) -> list[Ordered]:
    """Ask for the order of two segments, as they stand in the text and swapped."""
    found = []
    for sample in _samples(corpus, guess.model.model.max_length, count, seed):
        first, second = _segments(sample, guess)
        if sample.label:
            first, second = second, first
        found.append(Ordered(first, second, guess.order(first, second), guess.order(second, first)))
    return found


def _segments(sample: Sample, guess: Guesser) -> tuple[str, str]:
    ids = sample.original()
    return guess.tokenizer.text(ids[sample.types == 0].tolist()), guess.tokenizer.text(
        ids[sample.types == 1].tolist()
    )


def followed(guess: Guesser, corpus: Corpus, seed: int) -> list[Transition]:
    """Follow the states of held-out samples from layer to layer."""
    samples = _samples(corpus, guess.model.model.max_length, _FOLLOWED, seed, longest=128)
    strips = (Strip.from_sequences([one.original().tolist()], [one.types.tolist()]) for one in samples)
    return transitions(guess.model, strips)


def can_be_asked(corpus: Corpus, guess: Guesser) -> bool:
    """Tell whether a corpus has held-out samples that a model can read."""
    try:
        return next(_samples(corpus, guess.model.model.max_length, 1, 0), None) is not None
    except InputError:
        return False


def _samples(corpus: Corpus, takes: int, count: int, seed: int, longest: int = _LONGEST) -> Iterator[Sample]:
    sampler = Sampler(corpus, Objective("sop", min(longest, takes), short=0.0, seed=seed), "dev")
    yield from sampler.draw(np.arange(min(count, len(sampler))))
