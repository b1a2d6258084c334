"""The files of a model that was exported in parts: the embedding, each distinct block, and the head.

FOLDER/embed.onnx    input_ids, token_type_ids, position_ids [rows, length] to states [rows, length, hidden];
                     of a model that marks matches, also attention_mask
FOLDER/block.onnx    states and attention_mask to states; one file for each distinct block, block-2.onnx, ...
FOLDER/head.onnx     states to logits; with exit heads, one file for each step, head-2.onnx, ...; a head that
                     compares the texts of a pair also reads attention_mask and token_type_ids
FOLDER/stop.onnx     with an exit unit: states of [CLS] before and after a step to the logit of stopping there
FOLDER/tokens.bin    the matrix of the token embedding, which embed.onnx and a masked-LM head share

For OpenVINO, each graph is an .xml file with its weights in a .bin file, and there is no tokens.bin.
"""

from albertine.model.depth_plan import depth_plan
from albertine.settings import HeadSettings, ModelSettings

EMBED, STOP, TABLE_FILE = "embed", "stop", "tokens.bin"


def numbered(name: str, index: int) -> str:
    """Return the name of the graph of a block or a head, by its index."""
    return name if index == 0 else f"{name}-{index + 1}"


def block_graphs(settings: ModelSettings, depth: int | None = None) -> list[list[str]]:
    """Return the graphs of the blocks that each step of depth applies in turn.

    Args:
        settings: settings of the model.
        depth: number of steps, by default those of the model.
    """
    plan = depth_plan(settings, depth)
    distinct = list(dict.fromkeys(depth_plan(settings)))
    names = [numbered("block", distinct.index(block)) for block in plan]
    return [
        names[first : first + settings.inner_groups] for first in range(0, len(names), settings.inner_groups)
    ]


def head_graphs(settings: ModelSettings, head: HeadSettings) -> list[str]:
    """Return the graph of the head that predicts after each step of depth."""
    has_own = head.exits == "own"
    return [numbered("head", step if has_own else 0) for step in range(settings.layers)]


def step_graphs(settings: ModelSettings, head: HeadSettings) -> list[str]:
    """Return the names of all graphs of a model; the first is that of the embedding."""
    blocks = [name for names in block_graphs(settings) for name in names]
    stop = [STOP] if head.learned_exit else []
    return [EMBED, *dict.fromkeys(blocks), *dict.fromkeys(head_graphs(settings, head)), *stop]


def step_files(settings: ModelSettings, head: HeadSettings, suffix: str = ".onnx") -> list[str]:
    """Return the names of all files of a model; the first is that of the embedding."""
    names = step_graphs(settings, head)
    if suffix == ".onnx":
        return [*(name + suffix for name in names), TABLE_FILE]
    return [name + ending for name in names for ending in (".xml", ".bin")]
