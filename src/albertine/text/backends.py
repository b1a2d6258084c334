"""Tokenization pipelines of ALBERT and BERT for the library `tokenizers`.

ALBERT: LaTeX quotes become straight, accents are removed, text is lower-cased; each word gets
the prefix "▁" and is split into its most probable sequence of tokens (unigram model).
BERT: similar normalization; each word is split into the longest matching tokens from the left
(WordPiece), and all but the first get the prefix "##".

ALBERT's pipeline follows Google's reference code, BERT's is the one of `transformers`: see
docs/decisions/tokenizer-like-transformers.md.
"""

import os
import threading
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from albertine.display import display_text
from albertine.errors import InputError
from albertine.text.byte_tokens import with_low_byte_scores

_STDERR = 2  # the file descriptor
_stderr_lock = threading.Lock()

WORD_START = "▁"
CONTINUATION_PREFIX = "##"


def albert_backend(
    vocabulary: Sequence[tuple[str, float]],
    *,
    unk_id: int,
    cased: bool = False,
    keep_accents: bool = False,
    character_map: bytes | None = None,
    byte_fallback: bool = False,
) -> Tokenizer:
    """Return ALBERT's pipeline for a unigram vocabulary.

    Args:
        vocabulary: text and log probability of each token; the index is the id.
        unk_id: id of the unknown token.
        cased: keep capitals.
        keep_accents: keep accents; characters are then neither composed nor decomposed.
        character_map: SentencePiece's precompiled character normalization (`precompiled_charsmap`).
        byte_fallback: write a character without a token as byte tokens, which the vocabulary contains.
    """
    normalizer_steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
    ]
    if not keep_accents:
        normalizer_steps += [normalizers.NFKD(), normalizers.Replace(Regex(_accent_pattern()), "")]
    if not cased:
        normalizer_steps.append(normalizers.Lowercase())
    if character_map:
        # SentencePiece's normalization composes characters, but `tokenizers` applies it only to groups of
        # fewer than 6 bytes, and a decomposed Korean syllable has up to 9.
        normalizer_steps += [] if keep_accents else [normalizers.NFC()]
        normalizer_steps.append(normalizers.Precompiled(character_map))
    tokens = with_low_byte_scores(vocabulary) if byte_fallback else list(vocabulary)
    backend = Tokenizer(models.Unigram(tokens, unk_id=unk_id, byte_fallback=byte_fallback))
    backend.normalizer = normalizers.Sequence(normalizer_steps)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always"),
        ]
    )
    backend.decoder = decoders.Metaspace(replacement=WORD_START, prepend_scheme="always")
    if byte_fallback:
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), backend.decoder])
    return backend


@cache
def _accent_pattern() -> str:
    """Return the pattern of the characters that ALBERT's reference code removes as accents.

    These have a combining class. `StripAccents` of `tokenizers` removes all marks, also the vowel signs
    of Hindi and Thai.
    """
    accents = [code for code in range(0x300, 0x20000) if unicodedata.combining(chr(code))]
    starts = [code for code in accents if not unicodedata.combining(chr(code - 1))]
    ends = [code for code in accents if not unicodedata.combining(chr(code + 1))]
    ranges = (f"\\x{{{start:X}}}-\\x{{{end:X}}}" for start, end in zip(starts, ends, strict=True))
    return f"[{''.join(ranges)}]"


def bert_backend(
    vocabulary: Sequence[str],
    *,
    unk_token: str,
    cased: bool = False,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
) -> Tokenizer:
    """Return BERT's pipeline for a WordPiece vocabulary.

    Args:
        vocabulary: the tokens; the index is the id.
        unk_token: token of words that the vocabulary cannot represent.
        cased: keep capitals.
        strip_accents: remove accents; None: remove them unless `cased`.
        tokenize_chinese_chars: treat each Chinese character as a word.
    """
    ids = {token: index for index, token in enumerate(vocabulary)}
    backend = Tokenizer(models.WordPiece(ids, unk_token=unk_token))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=tokenize_chinese_chars,
        strip_accents=strip_accents,
        lowercase=not cased,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix=CONTINUATION_PREFIX)
    return backend


def set_special_tokens(backend: Tokenizer, tokens: Sequence[str], cls_token: str, sep_token: str) -> None:
    """Register the special tokens of a pipeline, and make it add [CLS] and [SEP] to a text or a pair."""
    backend.add_special_tokens(list(tokens))
    ids = [(token, backend.token_to_id(token)) for token in (cls_token, sep_token)]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls_token}:0 $A:0 {sep_token}:0",
        pair=f"{cls_token}:0 $A:0 {sep_token}:0 $B:1 {sep_token}:1",
        special_tokens=ids,
    )


class LibraryErrors:
    """Context manager that raises `InputError` for an error of the library, which a damaged file causes.

    A panic of the library's Rust code is a `BaseException`, its other errors while it encodes and decodes
    are of class `Exception` itself.
    """

    def __init__(self, source: object):
        """Store the name of the file, for error messages."""
        self._source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, error_type: object, error: BaseException | None, _: object) -> None:
        if error_type is Exception or getattr(error_type, "__name__", "") == "PanicException":
            raise InputError(
                f"{self._source}: the library tokenizers cannot use it ({display_text(str(error))}); "
                "get the file again"
            ) from None


@contextmanager
def hidden_panics() -> Iterator[None]:
    """Hide what Rust prints about a panic; it goes to the file descriptor of stderr and has many lines."""
    with _stderr_lock:
        try:
            original = os.dup(_STDERR)
        except OSError:  # stderr is closed
            yield
            return
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, _STDERR)
            os.close(null)
            yield
        finally:
            os.dup2(original, _STDERR)
            os.close(original)
