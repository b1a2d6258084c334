"""Locates models: in local folders, on object storage by URL, or on the Hugging Face hub by name.

The name of a hub repository is OWNER/NAME, or OWNER/NAME@REVISION with a branch, tag or commit.
`huggingface_hub` downloads those of the hub: its cache, `HF_TOKEN`, `HF_ENDPOINT` and
`HF_HUB_OFFLINE` apply. A file enters the cache only when it is complete; an interrupted
download resumes, and a partial file is never loaded.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from albertine.display import display_value
from albertine.errors import InputError, WorkError
from albertine.interop.export_record import EXPORT_FILE, read_export_record
from albertine.interop.tensor_names import ANSWERABLE_FILE, CO_MATCHING_FILE, EXITS_FILE, MATCHING_FILE
from albertine.interop.transformers_config import MODELING_FILE
from albertine.settings import MODEL_PRESETS
from albertine.storage.cache import local_folder
from albertine.storage.urls import storage_url

TASK_CARD_FILE = "task.json"  # of a fine-tuned model; written and read by `albertine.tasks`

# Files to download first, of which every model has some. A model with `EXPORT_FILE` is an export.
_COMMON_FILES = [EXPORT_FILE, "config.json", TASK_CARD_FILE, "tokenizer.json", "tokenizer_config.json"]
_COMMON_FILES += ["special_tokens_map.json", "spiece.model", "vocab.txt"]
# More of a checkpoint, with or without the weights.
_SMALL_FILES = ["model.safetensors.index.json", ANSWERABLE_FILE, MODELING_FILE]
# Of sentence-transformers: its modules, most with a folder of their own.
_SMALL_FILES += ["modules.json", "sentence_*config.json", "config_sentence_transformers.json"]
_SMALL_FILES += ["[0-9]_*/config.json"]
_SAFETENSORS_FILES = ["model.safetensors", "model.safetensors.index.json"]
_WEIGHT_FILES = ["model.safetensors", "model-*-of-*.safetensors", CO_MATCHING_FILE, MATCHING_FILE, EXITS_FILE]
_WEIGHT_FILES += ["[0-9]_Dense/model.safetensors", "[0-9]_Dense/pytorch_model.bin"]
_PICKLE_FILES = ["pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*-of-*.bin"]
# The folder of the model in early versions of sentence-transformers, later beside its other modules.
_MODEL_FOLDER = "0_Transformer"

_GOOGLE_FILES = ["*_config.json", "*.ckpt*", "*.model", "*.vocab"]

_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".onnx", ".data", ".h5")  # of any library

ENSEMBLE_FILE = "ensemble.json"  # of an ensemble; written and read by `albertine.inference`

_Exports = Literal["none", "all", "encoders"]  # which exported models are taken

_MAX_NAME_LENGTH = 96  # of OWNER/NAME, the limit of the hub


def model_files(folder: Path) -> list[Path]:
    """Return the files in the folder of a model that may be read; others may appear beside them."""
    exported = list(read_export_record(folder).checksums) if is_export(folder) else []
    of_a_model = [*_COMMON_FILES, *_SMALL_FILES, *_WEIGHT_FILES, *_PICKLE_FILES]
    patterns = [*_with_model_folder(of_a_model), *_GOOGLE_FILES, ENSEMBLE_FILE, *exported]
    found = {file for pattern in patterns for file in folder.glob(pattern)}
    return sorted(file for file in found if file.is_file())


def _with_model_folder(patterns: Iterable[str]) -> Iterator[str]:
    """Yield patterns of files, each also for the folder that a model may have beside its modules."""
    for pattern in patterns:
        yield from (pattern, f"{_MODEL_FOLDER}/{pattern}")


def is_hub_name(source: str) -> bool:
    """Return whether `source` has the form OWNER/NAME."""
    match = re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", source, re.ASCII)
    return len(source) <= _MAX_NAME_LENGTH and match is not None


def is_ensemble(folder: Path) -> bool:
    """Return whether a folder holds an ensemble, which names several checkpoints."""
    return (folder / ENSEMBLE_FILE).is_file()


def is_export(folder: Path) -> bool:
    """Return whether a folder holds a model that was exported for another library."""
    return (folder / EXPORT_FILE).is_file()


def refuse_export(folder: Path, source: str | Path) -> None:
    """Raise `InputError` if a folder, which the user named `source`, holds an exported model."""
    if is_export(folder):
        raise InputError(
            f"{source}: an exported model, where a checkpoint is expected; name the one that it was made from"
        )


def refuse_ensemble(folder: Path) -> None:
    """Raise `InputError` if a folder holds an ensemble."""
    if is_ensemble(folder):
        raise InputError(
            f"{folder}: an ensemble, where one model is expected; name a member, as in its {ENSEMBLE_FILE}"
        )


def refuse_revision(source: str | Path, revision: str | None) -> None:
    """Raise `InputError` if a revision is given for a source that is not on the hub."""
    if revision is not None:
        raise InputError(f"revision {revision}: only for hub names, and {source} is a folder; leave it out")


def local_model(source: str | Path, *, weights: bool = True) -> Path:
    """Return a source as a path; if it is a URL of object storage, that of its copy in the cache.

    Of a run, only the model is downloaded, and not the checkpoints to resume from.
    """
    # Types are not checked where a notebook passes None.
    if not isinstance(source, str | os.PathLike) or not str(source):  # type: ignore[redundant-expr]
        raise InputError(f"model {display_value(source)}: expected a folder, a URL or a hub name, OWNER/NAME")

    def is_wanted(name: str) -> bool:
        is_checkpoint = "checkpoints" in name.split("/")[:-1]  # also those of one of several runs
        return not is_checkpoint and (weights or not name.endswith(_WEIGHT_SUFFIXES))

    return local_folder(Path(source), is_wanted)


def locate_checkpoint(source: str | Path, revision: str | None = None, *, weights: bool = True) -> Path:
    """Return the folder of a checkpoint; download it if `source` is a URL, or a hub name and not a path.

    Args:
        source: folder, URL of object storage, or hub name.
        revision: branch, tag or commit of a hub repository.
        weights: whether to download the weights too.
    """
    return _locate(source, revision, weights=weights, exports="none")


def locate_model(source: str | Path, revision: str | None = None) -> Path:
    """Return the folder of a checkpoint or of an exported model; see `locate_checkpoint`."""
    return _locate(source, revision, weights=True, exports="all")


def locate_encoder(source: str | Path, revision: str | None = None) -> Path:
    """Return the folder of a checkpoint or of an export with `--task embed`; see `locate_checkpoint`."""
    return _locate(source, revision, weights=True, exports="encoders")


def locate_tokenizer(source: Path) -> Path:
    """Return a path, or the download of a URL or of a hub repository; a path need not exist.

    The folder may be that of an export, which has a tokenizer, too.
    """
    is_on_hub = is_hub_name(str(source).partition("@")[0]) and not source.exists()
    return locate_checkpoint(source, weights=False) if is_on_hub or storage_url(source) else source


def _check_export(folder: Path, source: str | Path, exports: _Exports) -> None:
    """Raise `InputError` if a folder, which the user named `source`, holds an export of another kind."""
    if exports == "none":
        refuse_export(folder, source)
    if exports == "encoders" and is_export(folder) and not read_export_record(folder).embeds:
        raise InputError(
            f"{source}: an export that predicts, and gives no vectors of texts; export the model again with "
            "--task embed"
        )


def _locate(source: str | Path, revision: str | None, *, weights: bool, exports: _Exports) -> Path:
    local = local_model(source, weights=weights)
    if local.is_dir():
        refuse_revision(source, revision)
        refuse_ensemble(local)
        _check_export(local, source, exports)
        return local
    if str(source) in MODEL_PRESETS:
        raise InputError(
            f"{source}: a preset, which has no trained weights; name a checkpoint "
            f'(in Python, albertine.create("{source}") makes a model with fresh weights)'
        )
    name, separator, named_revision = str(source).partition("@")
    if is_hub_name(name) and not local.exists():
        if separator and not named_revision:
            raise InputError(f"{source}: no revision after @; name a branch, tag or commit")
        if revision is not None and named_revision not in ("", revision):
            raise InputError(f"{source}: names another revision than {revision}; leave one of them out")
        return _download(name, named_revision or revision, weights=weights, exports=exports)
    if local.is_file():
        is_model = (local.parent / "config.json").is_file()
        advice = f", here perhaps {local.parent}" if is_model else "; give data with --data"
        raise InputError(f"{source}: a file; a model is a folder{advice}")
    raise InputError(f"{source}: no such folder; a model is a folder, or a hub name such as OWNER/NAME")


def _download(name: str, revision: str | None, *, weights: bool, exports: _Exports) -> Path:
    """Return the folder of a hub repository in the cache, after downloading files that it lacks."""
    from huggingface_hub import snapshot_download

    def download(revision: str | None, *patterns: str) -> Path:
        wanted = [*_with_model_folder([*_COMMON_FILES, *patterns])]
        return Path(snapshot_download(name, revision=revision, allow_patterns=wanted))

    with _readable_hub_errors(name, revision):
        folder = download(revision)
        commit = folder.name  # from here on, so that all files are of one commit
        if is_export(folder):
            _check_export(folder, name, exports)
            _download_export(name, folder)
        elif weights:
            download(commit, *_SMALL_FILES, *_WEIGHT_FILES)
            if not any((folder / file).exists() for file in _with_model_folder(_SAFETENSORS_FILES)):
                download(commit, *_PICKLE_FILES)
        else:
            download(commit, *_SMALL_FILES)
    return folder


def _download_export(name: str, folder: Path) -> None:
    """Download the files that the record of an export names, and no other format of the model."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import RemoteEntryNotFoundError

    record = read_export_record(folder)
    for file in ("config.json", *record.checksums):
        try:
            hf_hub_download(name, file, revision=folder.name)
        except RemoteEntryNotFoundError:
            raise InputError(
                f"{name}: the repository has no {file}, which its {EXPORT_FILE} needs; upload all files"
            ) from None
    cached_repository = folder.parents[1]
    record.check_files(
        folder, f"remove {cached_repository} to download it again, or upload the whole export of {name} again"
    )


@contextmanager
def _readable_hub_errors(name: str, revision: str | None) -> Iterator[None]:
    """Turn the errors of `huggingface_hub` into lines that say what is wrong and what to do."""
    from huggingface_hub.errors import (  # type: ignore[attr-defined]  # HTTPError
        GatedRepoError,
        HFValidationError,
        HTTPError,  # of httpx or, in later versions, of httpx2: the base class of all network errors
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except HFValidationError as error:
        raise InputError(f"{name}: not a valid hub name ({error}); expected OWNER/NAME") from None
    except GatedRepoError:
        raise InputError(
            f"{name}: access to this repository is restricted; accept its terms on the hub and set HF_TOKEN"
        ) from None
    except RepositoryNotFoundError:
        raise InputError(
            f"{name}: neither a local folder nor a repository on the hub; if it is private, set HF_TOKEN"
        ) from None
    except RevisionNotFoundError:
        raise InputError(
            f"{name}: the hub repository has no revision {revision}; name a branch, tag or commit"
        ) from None
    except (LocalEntryNotFoundError, OfflineModeIsEnabled):
        raise WorkError(
            f"{name}: neither a local folder nor in the cache, and the hub cannot be reached"
        ) from None
    except (HTTPError, OSError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise WorkError(
            f"{name}: the download was interrupted ({reason}); run the command again to resume it"
        ) from None
