"""The JavaScript libraries of a web export: pinned npm packages, fetched once into a cache folder.

`npm pack` fetches them from the registry that the user has configured. Each archive is compared with its
checksum, the one that npm publishes as `integrity`.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError, WorkError

_TIMEOUT = 600  # seconds
_MAX_FILE_BYTES = 64_000_000


@dataclass(frozen=True)
class NpmPackage:
    """A version of a package.

    Attributes:
        name: its name.
        version: its version.
        sha512: checksum of its archive, in base 64.
    """

    name: str
    version: str
    sha512: str

    @property
    def archive(self) -> str:
        """Name of the file that `npm pack` writes."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


ORT = NpmPackage(
    "onnxruntime-web",
    "1.30.0",
    "q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
)
TOKENIZERS = NpmPackage(
    "@huggingface/tokenizers",
    "0.2.0",
    "LidMHe1FpcSYH4vcSjXooda34pC0M8m1gmDOv7SQi6Iv+ib1zX7J3sHBCC9/3FPCkn2k1b55FneVqMRxrr99pg==",
)

# Files of a package by the names that they get: some web servers do not know the suffix .mjs.
_CPU_FILES = {
    "dist/ort.wasm.min.mjs": "ort.js",
    "dist/ort-wasm-simd-threaded.mjs": "ort-cpu.js",
    "dist/ort-wasm-simd-threaded.wasm": "ort-cpu.wasm",
}
_GPU_FILES = {
    "dist/ort.webgpu.min.mjs": "ort-webgpu.js",
    "dist/ort-wasm-simd-threaded.asyncify.mjs": "ort-gpu.js",
    "dist/ort-wasm-simd-threaded.asyncify.wasm": "ort-gpu.wasm",
}
_TOKENIZER_FILES = {"dist/tokenizers.min.mjs": "tokenizers.js", "LICENSE": "tokenizers.LICENSE"}

CPU_LIBRARY_FILES = (*_CPU_FILES.values(), "tokenizers.js")  # what a page loads where there is no WebGPU


def package_archives(folder: Path | None) -> dict[NpmPackage, Path]:
    """Return the verified archive of each package; fetch those that the cache lacks.

    Args:
        folder: folder with the archives, as `npm pack` names them; None for npm and the cache.
    """
    archives = {}
    for package in (ORT, TOKENIZERS):
        file = (_cache_folder() if folder is None else folder) / package.archive
        if not file.is_file():
            if folder is not None:
                raise InputError(
                    f"--packages: {file} is missing; run: npm pack {package.name}@{package.version}"
                )
            _fetch(package, file)
        if not _is_intact(package, file):
            advice = "delete it" if folder is None else f"run: npm pack {package.name}@{package.version}"
            raise InputError(f"{file}: not the published archive, or damaged; {advice}")
        archives[package] = file
    return archives


def has_cached_packages() -> bool:
    """Return whether the cache has all packages, so that an export needs no network."""
    return all((_cache_folder() / package.archive).is_file() for package in (ORT, TOKENIZERS))


def copy_libraries(archives: Mapping[NpmPackage, Path], folder: Path, *, gpu: bool) -> None:
    """Write the files of the packages that a page needs into a new folder.

    Args:
        archives: the archive of each package.
        folder: the folder.
        gpu: also those for WebGPU.
    """
    folder.mkdir()
    ort_files = _CPU_FILES | (_GPU_FILES if gpu else {})
    for package, names in ((ORT, ort_files), (TOKENIZERS, _TOKENIZER_FILES)):
        with tarfile.open(archives[package]) as archive:
            for name, new_name in names.items():
                stream = archive.extractfile(f"package/{name}")
                assert stream is not None
                (folder / new_name).write_bytes(stream.read(_MAX_FILE_BYTES))


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  # never raises
    return Path(base) / "albertine" / "npm"


def _fetch(package: NpmPackage, file: Path) -> None:
    """Fetch the archive of a package with npm."""
    title = f"{package.name} {package.version}"
    npm = shutil.which("npm")
    if npm is None:
        raise InputError(f"export to web needs npm, to fetch {title}; install Node.js, or give --packages")
    progress.print_message(f"fetching {title} with npm into {file.parent}")
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        command = [npm, "pack", f"{package.name}@{package.version}", "--silent", "--ignore-scripts"]
        try:
            result = subprocess.run(
                [*command, "--pack-destination", folder],
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_TIMEOUT,
                check=False,
                cwd=folder,
            )
        except subprocess.TimeoutExpired:
            raise WorkError(
                f"npm does not answer; it should fetch {title}; try again, or give --packages"
            ) from None
        fetched = Path(folder) / package.archive
        if result.returncode or not fetched.is_file():
            raise WorkError(
                f"npm cannot fetch {title} (status {result.returncode}{_reason(result.stderr)}); check the "
                "network, or give --packages with the archives"
            )
        if not _is_intact(package, fetched):
            raise WorkError(
                f"npm fetched another archive of {title} than the published one; check its registry"
            )
        fetched.replace(file)


def _reason(messages: str) -> str:
    """Return the first message of npm that says something."""
    lines = [line.strip() for line in messages.splitlines() if line.strip()]
    return f": {display_text(lines[0])}" if lines else ""


def _is_intact(package: NpmPackage, file: Path) -> bool:
    digest = hashlib.sha512(file.read_bytes()).digest()
    return base64.b64encode(digest).decode() == package.sha512
