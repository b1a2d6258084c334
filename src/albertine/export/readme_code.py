"""Code for the READMEs of exports that runs a graph without Albertine."""

import json
from dataclasses import dataclass
from typing import Literal

from albertine.tasks.card import TaskCard

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
print(results){prediction}"""

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
print(results){prediction}"""

_PROGRAMS = {"onnx": _ONNX, "openvino": _OPENVINO}
_TOKENIZER = 'tokenizer = Tokenizer.from_file("tokenizer.json")'
LITERAL_TEXT = 'tokenizer.encode_special_tokens = True  # "[MASK]" in a text is ordinary text'
_LABELS = """
labels = json.loads(Path("config.json").read_text(encoding="utf-8"))["id2label"]"""
_LABEL = """
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


@dataclass(frozen=True)
class CodeExample:
    """What a program encodes, and what it prints besides the outputs of the graph.

    Attributes:
        encoding: lines that encode the example.
        prediction: lines that print the prediction.
        truncation: how the tokenizer truncates, besides the number of tokens.
        reads_labels: whether `prediction` reads the names of the labels.
        has_mask: whether the example has the mask token.
    """

    encoding: str
    prediction: str = ""
    truncation: str = ""
    reads_labels: bool = False
    has_mask: bool = False


def text_example(text: str = "A fine film.", *, has_labels: bool = False) -> CodeExample:
    """Return a text, of which the program prints the label if the model predicts one."""
    encoding = f"encoded = tokenizer.encode({json.dumps(text, ensure_ascii=False)})"
    return CodeExample(encoding, f"{_LABELS}{_LABEL}" if has_labels else "", reads_labels=has_labels)


MASKED_EXAMPLE = CodeExample(
    'encoded = tokenizer.encode("It was a [MASK].")',
    """
mask = encoded.tokens.index("[MASK]")
best = results["mlm_logits"][0, mask].argsort()[::-1][:5]
print([tokenizer.id_to_token(int(token)) for token in best])""",
    has_mask=True,
)

WORDS_EXAMPLE = CodeExample(
    """words = "Ida went to the market in Hull .".split()
encoded = tokenizer.encode(words, is_pretokenized=True)""",
    f"""{_LABELS}
for token, word in enumerate(encoded.word_ids):
    if word is not None and word != encoded.word_ids[token - 1]:  # the first token of the word
        print(words[word], labels[str(results["logits"][0, token].argmax())])""",
    reads_labels=True,
)


def question_example(card: TaskCard, *, answerable: bool) -> CodeExample:
    """Return a question about a passage that fits into one sequence.

    Args:
        card: the task card of the model.
        answerable: whether the graph has an output for whether there is an answer.
    """
    no_answer_score = (
        '-results["answerable_logits"][0]' if answerable else "start[0] + end[0] - start[first] - end[last]"
    )
    no_answer = f"\nif {no_answer_score} > {card.no_answer_threshold}:\n    answer = '(no answer)'"
    return CodeExample(
        """question, passage = "How long is it?", "The film is three hours long."
encoded = tokenizer.encode(question, passage)""",
        f"""
start, end = results["start_logits"][0], results["end_logits"][0]
tokens = [token for token, text in enumerate(encoded.sequence_ids) if text == 1]
length = {card.sequence.max_answer_length}  # maximum tokens of an answer
spans = [(first, last) for first in tokens for last in tokens if first <= last < first + length]
first, last = max(spans, key=lambda span: start[span[0]] + end[span[1]])
answer = passage[encoded.offsets[first][0]:encoded.offsets[last][1]].strip()"""
        f"{no_answer if card.allows_no_answer else ''}\nprint(answer)",
        truncation=', strategy="only_second"',
    )


def code_without_albertine(to: Literal["onnx", "openvino"], max_length: int, example: CodeExample) -> str:
    """Return a program that prints all outputs of a graph for an example, and the prediction."""
    literal = "" if example.has_mask else f"\n{LITERAL_TEXT}"
    return _PROGRAMS[to].format(
        standard_imports="import json\nfrom pathlib import Path\n\n" if example.reads_labels else "",
        prediction=example.prediction,
        tokenizer=f"{_TOKENIZER}{literal}\ntokenizer.enable_truncation({max_length}{example.truncation})",
        encoding=example.encoding,
        ids="encoded.ids",
        mask="encoded.attention_mask",
        types="encoded.type_ids",
    )


def code_for_options(to: Literal["onnx", "openvino"], max_length: int) -> str:
    """Return a program that prints the logit of an option, for a head that reads the parts of a question."""
    return _PROGRAMS[to].format(
        standard_imports="",
        prediction="",
        tokenizer=f"{_TOKENIZER}\n{LITERAL_TEXT}",
        encoding=_ENCODED_PARTS.format(max_length=max_length),
        ids="ids",
        mask="[1] * len(ids)",
        types="types",
    )
