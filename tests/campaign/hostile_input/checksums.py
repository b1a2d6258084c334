"""Corrects the checksums of a folder after a file has changed, so that commands read its content."""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

from tests.campaign.hostile_input.formats import JSON, Format
from tests.campaign.hostile_input.hostile_values import HostileValues


def correct_corpus(folder: Path) -> None:
    """Correct the checksums in the manifest of a corpus, if it can be parsed."""
    file = folder / "manifest.json"
    try:
        manifest = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return
    _correct_checksums(manifest, folder)
    file.write_text(json.dumps(manifest, indent=2))


def _correct_checksums(tree: Any, folder: Path) -> None:
    """Correct every {"file": NAME, "sha256": ...} and every {NAME: SHA-256} of a file in the folder."""
    if isinstance(tree, list):
        for value in tree:
            _correct_checksums(value, folder)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if isinstance(value, str) and len(value) == 64 and (folder / str(key)).is_file():
                tree[key] = _checksum(folder / key)
            elif key == "sha256" and isinstance(tree.get("file"), str) and (folder / tree["file"]).is_file():
                tree[key] = _checksum(folder / tree["file"])
            else:
                _correct_checksums(value, folder)


def _checksum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def correct_checkpoint(folder: Path) -> None:
    """Correct the checksums of the files of a checkpoint, and the digest of its state."""
    file = folder / "state.json"
    document = json.loads(file.read_bytes())
    _correct_checksums(document["state"].get("files"), folder)
    file.write_bytes(_write_state(document, random.Random(0)))


def _write_state(document: Any, rng: random.Random) -> bytes:
    """Return `state.json` with the correct checksum of its state."""
    if isinstance(document, dict) and "state" in document and "sha256" in document:
        text = json.dumps(document["state"], sort_keys=True, default=str)
        document = {**document, "sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}
    return JSON.write(document, rng)


def _edit_state(document: Any, rng: random.Random, values: HostileValues) -> Any:
    if isinstance(document, dict) and isinstance(document.get("state"), dict) and document["state"]:
        return {**document, "state": JSON.edit(document["state"], rng, values)}
    return JSON.edit(document, rng, values)


STATE = Format(JSON.parse, _write_state, _edit_state)
