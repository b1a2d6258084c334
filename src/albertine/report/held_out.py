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
from albertine.text.pieces import WholeWords, plain

_LONGEST = 44  # pieces: what one reads at a glance
_GUESSES = 5
_LONGEST_PAIR = 80  # two sentences and more on each side: less says little of an order
_FOLLOWED = 64  # samples whose states are followed


def to_fill(guess: Guesser, corpus: Corpus, count: int, seed: int) -> list[Filled]:
    """Hide a word in each of some held-out samples, and let the model guess."""
    draw = np.random.Generator(np.random.PCG64(seed))
    found: list[Filled] = []
    whole = WholeWords(corpus.tokenizer)
    for sample in _samples(corpus, guess.model.model.max_length, 8 * count, seed):
        ids = sample.original()
        quarter = len(ids) // 4
        words = [at for at in whole.of(ids).tolist() if quarter <= at < len(ids) - quarter]
        if sample.label or not words or len(found) == count:  # swapped, it would not read as it was written
            continue
        at = words[int(draw.integers(len(words)))]
        word = plain(corpus.tokenizer.pieces[ids[at]], corpus.tokenizer)
        before, after = (
            corpus.tokenizer.text(ids[:at].tolist()),
            corpus.tokenizer.text(ids[at + 1 :].tolist()),
        )
        ids[at] = corpus.tokenizer.special.mask
        (guesses,) = guess.guesses(ids.tolist(), sample.types.tolist(), [at], _GUESSES)
        said = [(plain(one.piece, corpus.tokenizer), one.score) for one in guesses]
        found.append(Filled(before, word, after, said))
    return found


def to_order(guess: Guesser, corpus: Corpus, count: int, seed: int) -> list[Ordered]:
    """Ask for the order of two segments, as they stand in the text and swapped."""
    found = []
    for sample in _samples(corpus, guess.model.model.max_length, count, seed, longest=_LONGEST_PAIR):
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
