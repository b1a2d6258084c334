"""Code for the READMEs of exports that runs a graph without Albertine."""

from typing import Literal

_ONNX = """import numpy as np
import onnxruntime
from tokenizers import Tokenizer

session = onnxruntime.InferenceSession("model.onnx")
encoded = Tokenizer.from_file("tokenizer.json").encode({text})
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
encoded = Tokenizer.from_file("tokenizer.json").encode({text})
outputs = model({{
    "input_ids": np.array([encoded.ids]),
    "attention_mask": np.array([encoded.attention_mask]),
    "token_type_ids": np.array([encoded.type_ids]),
}})
print({{output.any_name: values for output, values in outputs.items()}})"""


def code_without_albertine(to: Literal["onnx", "openvino"], text: str = "A fine film.") -> str:
    """Return a program that prints all outputs of a graph for a text."""
    return (_ONNX if to == "onnx" else _OPENVINO).format(text=repr(text).replace("'", '"'))
