"""TF-IDF of words and bigrams, as scikit-learn computes it, in numpy and in bounded memory.

The values are those of `TfidfVectorizer(token_pattern=WORD_PATTERN, ngram_range=(1, 2),
sublinear_tf=True)`, unless the training texts have more n-grams than there may be columns.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
# One character of such a script, a word of another, or a punctuation mark.
WORD_PATTERN = rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+|[^\w\s]"
_WORD = re.compile(WORD_PATTERN)

_WORD_BITS = 20  # of the number of a word; if there are more words, the later ones are not counted
_NGRAM_BITS = 2 * _WORD_BITS + 1
_WORD_LIMIT, _NGRAM_LIMIT = 1 << _WORD_BITS, 1 << _NGRAM_BITS


@dataclass(frozen=True)
class TfidfEntries:
    """The TF-IDF vectors of some texts, as entries sorted by text and column.

    Attributes:
        text_indices: the index of the text of each entry, `[entries]`.
        columns: the column of each entry, `[entries]`.
        values: the value of each entry, `[entries]`; the vector of a text has the length 1, or no entries.
    """

    text_indices: Integers
    columns: Integers
    values: NDArray[np.float64]


class TfidfVocabulary:
    """The n-grams of training texts, each with a column and an inverse document frequency.

    Attributes:
        ngrams: the n-gram of each column, as an integer made of the numbers of its words, sorted, `[width]`.
        inverse_frequencies: the inverse document frequency of each column, `[width]`.
    """

    def __init__(self, chunks: Iterable[Sequence[str]], max_width: int):
        """Count the n-grams of texts, and keep those that are in the most texts.

        Args:
            chunks: the training texts, in lists that are short enough to process at once.
            max_width: maximum number of columns.
        """
        self._words: dict[str, int] = {}
        counted, num_texts = [np.zeros(0, np.int64)], 0
        for texts in chunks:
            counted.append(np.unique(self.ngram_keys(texts)) % _NGRAM_LIMIT)
            num_texts += len(texts)
        ngrams, frequencies = np.unique(np.concatenate(counted), return_counts=True)
        kept = np.sort(np.argsort(-frequencies, kind="stable")[:max_width])
        self.ngrams: Integers = ngrams[kept]
        self.inverse_frequencies = np.log((1 + num_texts) / (1 + frequencies[kept])) + 1

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.ngrams)

    def names(self) -> list[str]:
        """Return the n-gram of each column as text."""
        words = ["", *self._words]  # the upper half of an n-gram counts from 1; 0 is none
        halves = (divmod(ngram, _WORD_LIMIT) for ngram in self.ngrams.tolist())
        return [f"{words[first]} {words[second + 1]}".strip() for first, second in halves]

    def ngram_keys(self, texts: Sequence[str]) -> Integers:
        """Return a key for each word and bigram of texts, unsorted: `text index * _NGRAM_LIMIT + n-gram`.

        A word that is not in the training texts gets a number, too, so that two texts that share it can be
        compared.
        """
        numbers: list[int] = []
        lengths = []
        for text in texts:
            words = _WORD.findall(text.lower())
            numbers += map(self._word_number, words)
            lengths.append(len(words))
        words_of_texts = np.array(numbers, np.int64)
        bases = np.repeat(np.arange(len(texts)) * _NGRAM_LIMIT, lengths)
        is_known = words_of_texts >= 0
        is_bigram = is_known[:-1] & is_known[1:] & (bases[:-1] == bases[1:])
        unigrams = bases + words_of_texts
        bigrams = (words_of_texts[:-1] + 1) * _WORD_LIMIT + unigrams[1:]
        return np.concatenate([unigrams[is_known], bigrams[is_bigram]])

    def _word_number(self, word: str) -> int:
        number = self._words.get(word)
        if number is None:
            if len(self._words) == _WORD_LIMIT:
                return -1
            number = self._words[word] = len(self._words)
        return number

    def entries(self, keys: Integers, num_texts: int) -> TfidfEntries:
        """Return the TF-IDF of texts.

        Args:
            keys: the n-grams of the texts, from `ngram_keys`.
            num_texts: number of texts.
        """
        distinct, counts = np.unique(keys, return_counts=True)
        texts, ngrams = np.divmod(distinct, _NGRAM_LIMIT)
        columns = np.searchsorted(self.ngrams, ngrams)
        is_known = np.append(self.ngrams, -1)[columns] == ngrams
        texts, columns = texts[is_known], columns[is_known]
        values = (1 + np.log(counts[is_known])) * self.inverse_frequencies[columns]
        lengths = np.sqrt(np.bincount(texts, values**2, num_texts))
        return TfidfEntries(texts, columns, values / lengths[texts])


def unigram_keys(keys: Integers) -> Integers:
    """Return the distinct words among n-grams from `ngram_keys`, sorted; equal words have equal keys."""
    distinct: Integers = np.unique(keys[keys % _NGRAM_LIMIT < _WORD_LIMIT])
    return distinct


def text_counts(keys: Integers, num_texts: int) -> Integers:
    """Return the number of keys of each text, `[texts]`."""
    counts: Integers = np.bincount(keys // _NGRAM_LIMIT, minlength=num_texts)
    return counts


def count_words(text: str) -> int:
    """Return the number of words of a text."""
    return len(_WORD.findall(text))
