"""How text becomes pieces: ALBERT's way and BERT's, as the `tokenizers` library runs them.

ALBERT: straight quotes for LaTeX's, accents taken off, lower case; then every
word, marked by a leading "▁", is cut into the pieces that are likeliest together.
BERT: the same cleaning by its own rules; then the longest pieces from the left,
all but a word's first marked by "##".

Both are built part for part as `transformers` builds them, which sets up its own
pipeline from the vocabulary and a few flags, whatever else a file says.
"""

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

WORD_START = "▁"
CONTINUATION_PREFIX = "##"


def albert_backend(
    pieces: Sequence[tuple[str, float]],
    *,
    unk_id: int,
    cased: bool = False,
    keep_accents: bool = False,
    character_map: bytes | None = None,
) -> Tokenizer:
    """Return ALBERT's pipeline over a unigram vocabulary.

    Args:
        pieces: each piece with its log probability; a piece's place is its id.
        unk_id: id of the unknown piece.
        cased: keep capitals.
        keep_accents: keep accents, and characters composed or decomposed as they come.
        character_map: SentencePiece's own normalisation, as its vocabularies carry it.
    """
    normalizer_steps: list[normalizers.Normalizer] = [
        normalizers.Replace("``", '"'),
        normalizers.Replace("''", '"'),
    ]
    if not keep_accents:
        normalizer_steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if not cased:
        normalizer_steps.append(normalizers.Lowercase())
    if character_map:
        normalizer_steps.append(normalizers.Precompiled(character_map))
    backend = Tokenizer(models.Unigram(list(pieces), unk_id=unk_id, byte_fallback=False))
    backend.normalizer = normalizers.Sequence(normalizer_steps)
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always"),
        ]
    )
    backend.decoder = decoders.Metaspace(replacement=WORD_START, prepend_scheme="always")
    return backend


def bert_backend(
    vocabulary: Sequence[str],
    *,
    unk_token: str,
    cased: bool = False,
    strip_accents: bool | None = None,
    tokenize_chinese_chars: bool = True,
) -> Tokenizer:
    """Return BERT's pipeline over a WordPiece vocabulary.

    Args:
        vocabulary: a piece's place is its id.
        unk_token: the piece for words that the vocabulary cannot spell.
        cased: keep capitals.
        strip_accents: take accents off; None: where capitals go, accents go.
        tokenize_chinese_chars: make every Chinese character a word.
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
    """Make a pipeline know its special pieces, and put them around one text or two."""
    backend.add_special_tokens(list(tokens))
    ids = [(piece, backend.token_to_id(piece)) for piece in (cls_token, sep_token)]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls_token}:0 $A:0 {sep_token}:0",
        pair=f"{cls_token}:0 $A:0 {sep_token}:0 $B:1 {sep_token}:1",
        special_tokens=ids,
    )
