"""Code for the READMEs of exports that runs a graph without Albertine."""

import json
from typing import Literal

_ONNX = """{standard_imports}import numpy as np
import onnxruntime
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("model.onnx")
{tokenizer}
{encoding}
outputs = session.run(None, {{
    "input_ids": np.array([{ids}]),
    "attention_mask": np.array([{mask}]),
    "token_type_ids": np.array([{types}]),
}})
results = {{output.name: values for output, values in zip(session.get_outputs(), outputs)}}
print(results){label}"""

_OPENVINO = """{standard_imports}import numpy as np
import openvino
from tokenizers import Tokenizer

# Without the hint, products are in bf16 where the processor computes it fast.
hint = {{"INFERENCE_PRECISION_HINT": "f32"}}
model = openvino.Core().compile_model("model.xml", "CPU", hint)
{tokenizer}
{encoding}
outputs = model({{
    "input_ids": np.array([{ids}]),
    "attention_mask": np.array([{mask}]),
    "token_type_ids": np.array([{types}]),
}})
results = {{output.any_name: values for output, values in outputs.items()}}
print(results){label}"""

_PROGRAMS = {"onnx": _ONNX, "openvino": _OPENVINO}
_TOKENIZER = 'tokenizer = Tokenizer.from_file("tokenizer.json")'
_LABEL = """
labels = json.loads(Path("config.json").read_text())["id2label"]
print(labels[str(results["logits"][0].argmax())])"""

_ENCODED_PARTS = """passage, question, option = "The film is long.", "How long is it?", "Three hours."
texts = passage, question, option
parts = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
passage_tokens = {max_length} - 3 - len(parts[1]) - len(parts[2])
parts[0] = parts[0][:max(0, passage_tokens)]
cls, sep = ([tokenizer.token_to_id(token)] for token in ("[CLS]", "[SEP]"))
# Types: 2 in the passage, 5 in the question, 7 in the option, 1 at the end.
ids = cls + parts[0] + sep + parts[1] + parts[2] + sep
types = [0] + [2] * len(parts[0]) + [0] + [5] * len(parts[1]) + [7] * len(parts[2]) + [1]"""


def code_without_albertine(
    to: Literal["onnx", "openvino"], max_length: int, text: str = "A fine film.", *, has_labels: bool = False
) -> str:
    """Return a program that prints all outputs of a graph for a text, and the label if it predicts one."""
    return _PROGRAMS[to].format(
        standard_imports="import json\nfrom pathlib import Path\n\n" if has_labels else "",
        label=_LABEL if has_labels else "",
        tokenizer=f"{_TOKENIZER}\ntokenizer.enable_truncation({max_length})",
        encoding=f"encoded = tokenizer.encode({json.dumps(text, ensure_ascii=False)})",
        ids="encoded.ids",
        mask="encoded.attention_mask",
        types="encoded.type_ids",
    )


def code_for_options(to: Literal["onnx", "openvino"], max_length: int) -> str:
    """Return a program that prints the logit of an option, for a head that reads the parts of a question."""
    return _PROGRAMS[to].format(
        standard_imports="",
        label="",
        tokenizer=_TOKENIZER,
        encoding=_ENCODED_PARTS.format(max_length=max_length),
        ids="ids",
        mask="[1] * len(ids)",
        types="types",
    )
