"""Code for the READMEs of exports that runs a graph without Albertine."""

import json
from typing import Literal

_ONNX = """import numpy as np
import onnxruntime
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("model.onnx")
{tokenizer}
encoded = tokenizer.encode({text})
outputs = session.run(None, {{
    "input_ids": np.array([encoded.ids]),
    "attention_mask": np.array([encoded.attention_mask]),
    "token_type_ids": np.array([encoded.type_ids]),
}})
print({{output.name: values for output, values in zip(session.get_outputs(), outputs)}})"""

_OPENVINO = """import numpy as np
import openvino
from tokenizers import Tokenizer

# Without the hint, products are in bf16 where the processor computes it fast.
hint = {{"INFERENCE_PRECISION_HINT": "f32"}}
model = openvino.Core().compile_model("model.xml", "CPU", hint)
{tokenizer}
encoded = tokenizer.encode({text})
outputs = model({{
    "input_ids": np.array([encoded.ids]),
    "attention_mask": np.array([encoded.attention_mask]),
    "token_type_ids": np.array([encoded.type_ids]),
}})
print({{output.any_name: values for output, values in outputs.items()}})"""


def code_without_albertine(
    to: Literal["onnx", "openvino"], text: str = "A fine film.", max_length: int | None = None
) -> str:
    """Return a program that prints all outputs of a graph for a text, which it may truncate."""
    tokenizer = 'tokenizer = Tokenizer.from_file("tokenizer.json")'
    if max_length is not None:
        tokenizer += f"\ntokenizer.enable_truncation({max_length})"
    program = _ONNX if to == "onnx" else _OPENVINO
    return program.format(tokenizer=tokenizer, text=json.dumps(text, ensure_ascii=False))
