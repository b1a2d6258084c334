"""Train a model on your own text, for example in another language, and let it fill masks.

    python examples/pretrain_on_own_text.py MY_TEXT OUT --vocab-size 8000 --steps 3000

Each call corresponds to one command of `albertine`. If interrupted, run the same command again: the
corpus and the pre-training resume.
"""

import argparse
import sys
from pathlib import Path

import albertine
from albertine.corpus.build import build_corpus
from albertine.corpus.settings import CorpusSettings
from albertine.pretrain.probe import probe
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings, ProbeSettings
from albertine.settings import MODEL_PRESETS, SettingsSource, build_settings
from albertine.text.settings import TokenizerSettings
from albertine.text.tokenizer_training import build_tokenizer


def main() -> None:
    """Train a tokenizer, build a corpus, pre-train a model and print predictions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", help="a file, a folder or a glob")
    parser.add_argument("out", type=Path)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--model", default="albertine-tiny", choices=MODEL_PRESETS)
    args = parser.parse_args()
    tokenizer, corpus, run = (args.out / name for name in ("tokenizer", "corpus", "run"))

    if not tokenizer.exists():
        build_tokenizer(
            [args.text], tokenizer, TokenizerSettings(vocab_size=args.vocab_size, allow_smaller=True)
        )
    if not (corpus / "manifest.json").exists():
        build_corpus([args.text], tokenizer, corpus, CorpusSettings(held_out=0.05))

    values = {
        "corpus": str(corpus),
        "model": {"preset": args.model},
        "objective": {"max_length": 128},
        "train": {"steps": args.steps, "batch_tokens": 4096},
    }
    pretrain(run, build_settings(PretrainSettings, SettingsSource(values, "this example")))

    probe_result = probe(str(run), ProbeSettings(corpus=corpus, max_length=128))
    loss = f"{probe_result.mlm_loss.value:.2f} ({probe_result.unigram_loss:.2f} from token frequencies alone)"
    print(f"masked tokens: accuracy {probe_result.mlm_accuracy.value:.1%}, loss {loss}")
    print(f"segment order: accuracy {probe_result.sop_accuracy.value:.1%}")

    pipeline = albertine.fill_mask_pipeline(run)
    for text in ("The [MASK] was here.", "It was a [MASK] day."):
        (predictions,) = pipeline.fill(text)
        print(
            text,
            *(f"{prediction.token.strip('▁')} {prediction.score:.0%}" for prediction in predictions),
            sep="  ",
        )


if __name__ == "__main__":
    try:
        main()
    except albertine.AlbertineError as error:
        sys.exit(str(error))
