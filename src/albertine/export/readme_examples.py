"""Examples for the code in the READMEs of exports: what the program encodes, and how it shows the prediction.

Both are the same whether the model is one graph or a graph for each block and head.
"""

import json
from dataclasses import dataclass

from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from albertine.tasks.registry import TASK_TYPES
from albertine.tasks.types.multi_label import MultiLabel
from albertine.tasks.types.multiple_choice import MultipleChoice
from albertine.tasks.types.regression import Regression
from albertine.tasks.types.span_extraction import SpanExtraction
from albertine.tasks.types.tagging import Tagging
from albertine.tasks.types.text_task import num_texts_of

_LITERAL_TEXT = 'tokenizer.encode_special_tokens = True  # "[MASK]" in a text is ordinary text\n'


@dataclass(frozen=True)
class CodeExample:
    """What a program encodes, and what it prints besides the outputs of the graph.

    Attributes:
        encoding: lines that encode the example as `rows`.
        prediction: lines that print the prediction, from the outputs by name in `results`.
        truncation: how the tokenizer truncates, besides the number of tokens.
        tokenizer_setting: a line that sets what else the tokenizer does; may be empty.
        token_types: expression of the token types of a `row`.
        reads_labels: whether `prediction` reads the names of the labels.
        note: text about the rows; may be empty.
    """

    encoding: str
    prediction: str = ""
    truncation: str = ""
    tokenizer_setting: str = _LITERAL_TEXT
    token_types: str = "row.type_ids"
    reads_labels: bool = False
    note: str = ""


_MASK = CodeExample(
    'rows = [tokenizer.encode("It was a [MASK].")]',
    """masked = rows[0].tokens.index("[MASK]")
best = results["mlm_logits"][0, masked].argsort()[::-1][:5]
print([tokenizer.id_to_token(int(token)) for token in best])""",
    tokenizer_setting="",
)

_WORDS = CodeExample(
    """words = "Ida went to the market in Hull .".split()
rows = [tokenizer.encode(words, is_pretokenized=True)]""",
    """for token, word in enumerate(rows[0].word_ids):
    if word is not None and word != rows[0].word_ids[token - 1]:  # the first token of the word
        print(words[word], labels[str(results["logits"][0, token].argmax())])""",
    reads_labels=True,
)

_LABEL = 'print(labels[str(results["logits"][0].argmax())])'
_NUMBER = 'print(float(results["logits"][0]))'
_LABEL_SET = """probabilities = 1 / (1 + np.exp(-results["logits"][0]))
print([labels[str(label)] for label in np.flatnonzero(probabilities >= {threshold})])"""

_QUESTION = """question, passage = "How long is it?", "The film is three hours long."
rows = [tokenizer.encode(question, passage)]"""
_ANSWER = """start, end = results["start_logits"][0], results["end_logits"][0]
tokens = [token for token, text in enumerate(rows[0].sequence_ids) if text == 1]
length = {max_length}  # maximum tokens of an answer
spans = [(first, last) for first in tokens for last in tokens if first <= last < first + length]
first, last = max(spans, key=lambda span: start[span[0]] + end[span[1]])
answer = passage[rows[0].offsets[first][0]:rows[0].offsets[last][1]].strip()
{no_answer}print(answer)"""

# The question and the option are given as if each was a word: so the option begins with a token of its own,
# and `word_ids` tells them apart.
_OPTIONS = """passage, question = "The film is three hours long.", "How long is it?"
options = {options}
tokenizer.enable_padding()
rows = tokenizer.encode_batch(
    [([passage], [question, option]) for option in options], is_pretokenized=True
)"""
_EXAMPLE_OPTIONS = ("Three hours.", "Two days.", "A week.", "A minute.")
_OPTION = 'print(options[results["logits"].argmax()])'
_TYPES_OF_PARTS = """[  # 2 in the passage, 5 in the question, 7 in the option, 1 at the last token
    kind if text is None else 2 + 3 * kind + 2 * text for kind, text in zip(row.type_ids, row.word_ids)
]"""

_OPTIONS_NOTE = """A row is a question with one of its options: `[CLS] passage [SEP] question option [SEP]`.
The answer is the option with the highest of the logits.
"""


def task_example(head: HeadSettings, card: TaskCard | None) -> CodeExample:
    """Return an example of what a model predicts.

    Args:
        head: settings of its head.
        card: its task card; None for a pre-trained model.
    """
    if card is None:
        return _MASK
    task_type = TASK_TYPES[card.type_name]
    if issubclass(task_type, SpanExtraction):
        return _question(card, answerable=head.answerable)
    if issubclass(task_type, Tagging):
        return _WORDS
    if issubclass(task_type, MultipleChoice):
        return _choice(card, head)
    is_pair = head.matching or num_texts_of(card) == 2
    texts = ("A fine film.", "The film is bad.") if is_pair else ("A fine film.",)
    if issubclass(task_type, Regression):
        return text_example(*texts, prediction=_NUMBER)
    if issubclass(task_type, MultiLabel):
        prediction = _LABEL_SET.format(threshold=card.label_threshold)
        return text_example(*texts, prediction=prediction, reads_labels=True)
    return text_example(*texts, prediction=_LABEL, reads_labels=True)


def text_example(*texts: str, prediction: str = "", reads_labels: bool = False) -> CodeExample:
    """Return a text or a pair of texts.

    Args:
        texts: the texts.
        prediction: see `CodeExample`.
        reads_labels: see `CodeExample`.
    """
    quoted = ", ".join(json.dumps(text, ensure_ascii=False) for text in texts)
    return CodeExample(f"rows = [tokenizer.encode({quoted})]", prediction, reads_labels=reads_labels)


def _question(card: TaskCard, *, answerable: bool) -> CodeExample:
    """Return a question about a passage that fits into one sequence.

    Args:
        card: the task card of the model.
        answerable: whether the graph has an output for whether there is an answer.
    """
    score = (
        '-results["answerable_logits"][0]' if answerable else "start[0] + end[0] - start[first] - end[last]"
    )
    no_answer = f"if {score} > {card.no_answer_threshold}:\n    answer = '(no answer)'\n"
    return CodeExample(
        _QUESTION,
        _ANSWER.format(
            max_length=card.sequence.max_answer_length, no_answer=no_answer if card.allows_no_answer else ""
        ),
        truncation=', strategy="only_second"',
    )


def _choice(card: TaskCard, head: HeadSettings) -> CodeExample:
    """Return a question about a passage, with a row for each option."""
    return CodeExample(
        _OPTIONS.format(options=list(_EXAMPLE_OPTIONS[: card.num_options])),
        _OPTION,
        truncation=', strategy="only_first"',
        token_types=_TYPES_OF_PARTS if head.co_matching else CodeExample.token_types,
        note=_OPTIONS_NOTE,
    )
