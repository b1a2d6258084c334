"""Code for the READMEs of exports that runs the graphs without Albertine."""

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent

from albertine.engines.step_files import STOP, block_graphs, head_graphs, step_graphs
from albertine.export.readme_examples import CodeExample
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.export import ExportFormat


@dataclass(frozen=True)
class Library:
    """How a program opens and runs graphs with a library.

    Attributes:
        title: name of the library.
        package: name of its package.
        suffix: suffix of a graph's file.
        preparation: lines that define `run`, which returns the outputs of a graph by name.
        open_graph: expression that opens the graph in a `{file}`.
    """

    title: str
    package: str
    suffix: str
    preparation: str
    open_graph: str


LIBRARIES: Mapping[ExportFormat, Library] = {
    "onnx": Library(
        "ONNX Runtime",
        "onnxruntime",
        ".onnx",
        """def run(graph, inputs):
    names = [output.name for output in graph.get_outputs()]
    return dict(zip(names, graph.run(names, inputs)))""",
        "onnxruntime.InferenceSession({file})",
    ),
    "openvino": Library(
        "OpenVINO",
        "openvino",
        ".xml",
        """def run(graph, inputs):
    return {output.any_name: values for output, values in graph(inputs).items()}

core = openvino.Core()
# Without the hint, products are in bf16 where the processor computes it fast.
hint = {"INFERENCE_PRECISION_HINT": "f32"}""",
        'core.compile_model({file}, "CPU", hint)',
    ),
}

_PROGRAM = """{standard_imports}import numpy as np
import {package}
from tokenizers import Tokenizer

{preparation}

{graphs}
tokenizer = Tokenizer.from_file("tokenizer.json")
{tokenizer_setting}tokenizer.enable_truncation({max_length}{truncation})
{labels}{encoding}
ids = np.array([row.ids for row in rows])
mask = np.array([row.attention_mask for row in rows])
types = np.array([{token_types} for row in rows])
{computation}"""

_STANDARD_IMPORTS = "import json\nfrom pathlib import Path\n\n"
_LABELS = 'labels = json.loads(Path("config.json").read_text(encoding="utf-8"))["id2label"]\n'

_COMPUTATION = """results = run(graph, {{"input_ids": ids, "attention_mask": mask, "token_type_ids": types}})
print(results)
{prediction}"""

_STEP_GRAPHS = """graphs = {{name: {graph} for name in {names}}}
blocks = {blocks}
heads = {heads}"""
_STEPS = """positions = mask.cumsum(1) - 1
inputs = {{"input_ids": ids, "token_type_ids": types, "position_ids": positions{embed_mask}}}
states = run(graphs["embed"], inputs)["states"]
for step, (names, head) in enumerate(zip(blocks, heads)):
    for name in names:
        inputs = {{"states": states, "attention_mask": mask, "position_ids": positions{step_value}}}
        states = run(graphs[name], inputs)["next_states"]
    {results}
    print(step + 1, results)
{prediction}"""
_RESULTS = 'results = run(graphs[head], {"states": states})'
_PAIR_RESULTS = """inputs = {"states": states, "attention_mask": mask, "token_type_ids": types}
    results = {name: values[:, 0] for name, values in run(graphs[head], inputs).items()}"""


def code_for_one_graph(to: ExportFormat, max_length: int, example: CodeExample) -> str:
    """Return a program that prints all outputs of a graph for an example, and the prediction."""
    graph = LIBRARIES[to].open_graph.format(file=f'"model{LIBRARIES[to].suffix}"')
    computation = _COMPUTATION.format(prediction=example.prediction)
    return _program(to, max_length, example, f"graph = {graph}", computation)


def code_for_steps(
    to: ExportFormat, max_length: int, example: CodeExample, model: ModelSettings, head: HeadSettings
) -> str:
    """Return a program that prints the outputs of the head and the prediction after each step of depth."""
    graphs = _STEP_GRAPHS.format(
        graph=LIBRARIES[to].open_graph.format(file=f'f"{{name}}{LIBRARIES[to].suffix}"'),
        names=[name for name in step_graphs(model, head) if name != STOP],
        blocks=block_graphs(model),
        heads=head_graphs(model, head),
    )
    steps = _STEPS.format(
        embed_mask=', "attention_mask": mask' if model.mark_matches else "",
        step_value=', "step": np.array(step)' if model.step_signal else "",
        results=_PAIR_RESULTS if head.matching else _RESULTS,
        prediction=indent(example.prediction, "    "),
    )
    return _program(to, max_length, example, graphs, steps)


def _program(to: ExportFormat, max_length: int, example: CodeExample, graphs: str, computation: str) -> str:
    """Return a program that encodes an example and computes with it.

    Args:
        to: format of the graphs.
        max_length: number of tokens to which the tokenizer truncates.
        example: the example.
        graphs: lines that open the graphs.
        computation: lines that compute and print.
    """
    return _PROGRAM.format(
        standard_imports=_STANDARD_IMPORTS if example.reads_labels else "",
        package=LIBRARIES[to].package,
        preparation=LIBRARIES[to].preparation,
        graphs=graphs,
        tokenizer_setting=example.tokenizer_setting,
        max_length=max_length,
        truncation=example.truncation,
        labels=_LABELS if example.reads_labels else "",
        encoding=example.encoding,
        token_types=example.token_types,
        computation=computation,
    ).rstrip()
