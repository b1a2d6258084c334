"""The files of a model that was exported for browsers.

FOLDER/embed.onnx    input_ids, token_type_ids [1, length] to states [1, length, hidden]
FOLDER/block.onnx    states to states; one file for each distinct block, block-2.onnx and so on
FOLDER/head.onnx     states to logits; with exit heads, one file for each step, head-2.onnx and so on
FOLDER/tokens.bin    the token embedding, which the embedding and a masked-LM head share
"""

from albertine.model.depth_plan import depth_plan
from albertine.settings import HeadSettings, ModelSettings

EMBED_FILE, TABLE_FILE = "embed.onnx", "tokens.bin"


def numbered_file(name: str, index: int) -> str:
    """Return the name of the file of a block or a head, by its index."""
    return f"{name}.onnx" if index == 0 else f"{name}-{index + 1}.onnx"


def block_files(settings: ModelSettings, depth: int | None = None) -> list[list[str]]:
    """Return the files of the blocks that each step of depth applies in turn.

    Args:
        settings: settings of the model.
        depth: number of steps, by default those of the model.
    """
    plan = depth_plan(settings, depth)
    distinct = list(dict.fromkeys(depth_plan(settings)))
    files = [numbered_file("block", distinct.index(block)) for block in plan]
    return [
        files[first : first + settings.inner_groups] for first in range(0, len(files), settings.inner_groups)
    ]


def head_files(settings: ModelSettings, head: HeadSettings) -> list[str]:
    """Return the file of the head that predicts after each step of depth."""
    has_own = head.exits == "own"
    return [numbered_file("head", step if has_own else 0) for step in range(settings.layers)]


def web_files(settings: ModelSettings, head: HeadSettings) -> list[str]:
    """Return the names of all files of the model; the first is that of the embedding."""
    blocks = [name for files in block_files(settings) for name in files]
    return [EMBED_FILE, *dict.fromkeys(blocks), *dict.fromkeys(head_files(settings, head)), TABLE_FILE]
