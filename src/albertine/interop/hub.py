"""Checkpoints by name from the Hugging Face hub, kept in its cache.

`huggingface_hub` does the fetching: its cache, `HF_TOKEN`, `HF_ENDPOINT` and
`HF_HUB_OFFLINE` mean here what they mean everywhere. A file enters the cache when
it is complete, so a download that broke off is taken up again, never half loaded.
"""

import re
from pathlib import Path

from albertine.errors import InputError, WorkError, did_you_mean
from albertine.settings import MODEL_PRESETS

_SMALL_FILES = ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]
_SMALL_FILES += ["spiece.model", "vocab.txt", "model.safetensors.index.json", "answerable.safetensors"]

_MAX_NAME_LENGTH = 96  # name of a repository


def is_hub_name(source: str) -> bool:
    """Tell whether this reads as OWNER/NAME."""
    match = re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", source, re.ASCII)
    return len(source) <= _MAX_NAME_LENGTH and match is not None


def locate_checkpoint(source: str | Path, revision: str | None = None, *, weights: bool = True) -> Path:
    """Return the folder of a checkpoint, fetching it from the hub if that is where it is."""
    if Path(source).is_dir():
        return Path(source)
    if is_hub_name(str(source)) and not Path(source).exists():
        return download_checkpoint(str(source), revision, weights=weights)
    raise InputError(
        f"{source}: neither a folder, a hub name nor a preset{did_you_mean(str(source), MODEL_PRESETS)}"
    )


def download_checkpoint(name: str, revision: str | None = None, *, weights: bool = True) -> Path:
    """Return the folder in the cache that holds a repository's checkpoint, fetching what is not there yet."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    def download(*patterns: str) -> Path:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*_SMALL_FILES, *patterns]))

    try:
        folder = download("model*.safetensors") if weights else download()
        if weights and not any(folder.glob("model*.safetensors")):
            folder = download("pytorch_model.bin")
    except HFValidationError as error:
        raise InputError(f"{name}: no name that the hub has ({error})") from None
    except GatedRepoError:
        raise InputError(
            f"{name}: the hub asks for permission; accept its terms there and set HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise InputError(
            f"{name}: neither a folder here nor a repository on the hub; if it is private, set HF_TOKEN"
        ) from None
    except RevisionNotFoundError:
        raise InputError(f"{name}: the hub has no revision {revision}") from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        raise WorkError(
            f"{name}: neither a folder here nor in the cache, and the hub cannot be reached"
        ) from None
    except (HfHubHTTPError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise WorkError(f"{name}: the download broke off ({reason}); run the same again to go on") from None
    return folder
