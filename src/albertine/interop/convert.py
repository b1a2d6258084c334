"""Rewrites a checkpoint in the layout of `transformers`, and proves that it still says the same."""

import shutil
import tempfile
from pathlib import Path

import torch

from albertine import progress
from albertine.errors import WorkError
from albertine.interop.hub import locate
from albertine.interop.huggingface import CARD, load_folder, save_folder
from albertine.interop.load import load_checkpoint
from albertine.model.network import Model
from albertine.model.strip import Strip
from albertine.text.tokenizer import has_tokenizer, load_tokenizer
from albertine.whole import refuse_taken


def convert(source: str, destination: Path) -> None:
    """Load, write beside the destination, load again, compare outputs; then the destination appears."""
    refuse_taken(destination)
    folder = locate(source)
    model = load_checkpoint(folder).eval()
    tokenizer = load_tokenizer(folder) if has_tokenizer(folder) else None
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=f".{destination.name}.") as scratch:
        written = Path(scratch) / "checkpoint"
        save_folder(model, written, tokenizer=tokenizer)
        if (folder / CARD).is_file():  # what a tuned model knows of its task
            shutil.copyfile(folder / CARD, written / CARD)
        verify(model, load_folder(written).eval(), written)
        written.replace(destination)
    progress.say(f"{destination}: written and verified; the outputs are those of {source}")


def verify(model: Model, again: Model, place: Path) -> None:
    """Refuse a copy whose outputs on a few sequences are not exactly the same."""
    generator = torch.Generator().manual_seed(0)
    lengths = [min(length, model.model.max_length) for length in (8, 3, 16, 8)]
    if model.head_settings.kind == "choice":
        lengths *= model.head_settings.options
    rows = [torch.randint(0, model.model.vocab_size, (n,), generator=generator).tolist() for n in lengths]
    strip = Strip.from_sequences(rows)
    with torch.inference_mode():
        one, other = (net.encoder(strip) for net in (model, again))
        heads = [_tensors(net(strip)) for net in (model, again)]
    if not all(torch.equal(a, b) for a, b in zip([one, *heads[0]], [other, *heads[1]], strict=True)):
        raise WorkError(f"{place}: gives other outputs than its source; nothing was kept")


def _tensors(output: object) -> list[torch.Tensor]:
    """Return all tensors of a head's output."""
    found: list[torch.Tensor] = []
    for value in vars(output).values():
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif hasattr(value, "__dict__"):
            found += _tensors(value)
    return found
