"""For someone with a language or a domain of their own: from a folder of text to a model that fills gaps.

    python examples/own_text.py MY_TEXT OUT --pieces 8000 --steps 3000

Each call below is what one command of `albertine` does. Broken off, run it again: corpus and
pre-training go on where they were.
"""

import argparse
import sys
from pathlib import Path

import albertine
from albertine.corpus.build import build_corpus
from albertine.corpus.settings import CorpusSettings, Objective
from albertine.pretrain.probe import probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.settings import MODELS
from albertine.text.settings import VocabularySettings
from albertine.text.vocabulary import make_vocabulary
from albertine.train.settings import TrainSettings


def main() -> None:
    """Learn from text, then answer."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("text", help="a file, a folder or a glob")
    asked.add_argument("out", type=Path)
    asked.add_argument("--pieces", type=int, default=8000)
    asked.add_argument("--steps", type=int, default=3000)
    asked.add_argument("--model", default="albert-tiny", choices=MODELS)
    given = asked.parse_args()
    tokenizer, corpus, run = (given.out / name for name in ("tokenizer", "corpus", "run"))

    if not tokenizer.exists():
        make_vocabulary([given.text], tokenizer, VocabularySettings(vocab_size=given.pieces, or_less=True))
    if not (corpus / "manifest.json").exists():
        build_corpus([given.text], tokenizer, corpus, CorpusSettings(held_out=0.05))

    settings = PretrainSettings(
        corpus=corpus,
        model=MODELS[given.model],
        objective=Objective(max_length=128),
        train=TrainSettings(steps=given.steps, batch_tokens=4096),
    )
    # What is named here was said on purpose; the vocabulary's size follows the corpus.
    pretrain(run, settings, frozenset({"objective.max_length"}))

    found = probe(str(run), ProbeSettings(corpus=corpus, max_length=128))
    print(f"hidden pieces right: {found.mlm_accuracy.value:.1%}, loss {found.mlm_loss.value:.2f}")
    print(
        f"without any context it would be {found.unigram:.2f}; orders right: {found.sop_accuracy.value:.1%}"
    )

    guess = albertine.guesser(run)
    for text in ("The [MASK] was here.", "It was a [MASK] day."):
        (guesses,) = guess.fill(text)
        print(text, *(f"{one.piece.strip('▁')} {one.score:.0%}" for one in guesses), sep="  ")


if __name__ == "__main__":
    try:
        main()
    except albertine.AlbertineError as error:
        sys.exit(str(error))
