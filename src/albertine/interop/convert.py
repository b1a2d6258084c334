"""Rewrites a checkpoint in the layout of `transformers`, and proves that it still says the same."""

import shutil
import tempfile
from pathlib import Path

import torch

from albertine import progress
from albertine.atomic import refuse_existing_folder
from albertine.errors import WorkError
from albertine.interop.hub import locate_checkpoint
from albertine.interop.huggingface import TASK_CARD_FILE, load_folder, save_folder
from albertine.interop.load import load_checkpoint
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.text.tokenizer import has_tokenizer, load_tokenizer


def convert_checkpoint(source: str, destination: Path) -> None:
    """Load, write beside the destination, load again, compare outputs; then the destination appears."""
    refuse_existing_folder(destination)
    folder = locate_checkpoint(source)
    model = load_checkpoint(folder).eval()
    tokenizer = load_tokenizer(folder) if has_tokenizer(folder) else None
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=f".{destination.name}.") as scratch:
        written = Path(scratch) / "checkpoint"
        save_folder(model, written, tokenizer=tokenizer)
        if (folder / TASK_CARD_FILE).is_file():  # what a tuned model knows of its task
            shutil.copyfile(folder / TASK_CARD_FILE, written / TASK_CARD_FILE)
        verify_copy(model, load_folder(written).eval(), written)
        written.replace(destination)
    progress.print_message(f"{destination}: written and verified; the outputs are those of {source}")


def verify_copy(model: Model, copy: Model, folder: Path) -> None:
    """Refuse a copy whose outputs on a few sequences are not exactly the same."""
    generator = torch.Generator().manual_seed(0)
    lengths = [min(length, model.settings.max_length) for length in (8, 3, 16, 8)]
    if model.head_settings.kind == "choice":
        lengths *= model.head_settings.options
    sequences = [
        torch.randint(0, model.settings.vocab_size, (n,), generator=generator).tolist() for n in lengths
    ]
    strip = Strip.from_sequences(sequences)
    with torch.inference_mode():
        one, other = (net.encoder(strip) for net in (model, copy))
        heads = [_output_tensors(net(strip)) for net in (model, copy)]
    if not all(torch.equal(a, b) for a, b in zip([one, *heads[0]], [other, *heads[1]], strict=True)):
        raise WorkError(f"{folder}: gives other outputs than its source; nothing was kept")


def _output_tensors(output: object) -> list[torch.Tensor]:
    """Return all tensors of a head's output."""
    found: list[torch.Tensor] = []
    for value in vars(output).values():
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif hasattr(value, "__dict__"):
            found += _output_tensors(value)
    return found
