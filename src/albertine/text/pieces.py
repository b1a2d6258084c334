"""How a piece reads beside others: marks of the vocabulary taken off, spaces put back."""

from albertine.text.pipelines import WORD_REST, WORD_START


def parted(piece: str, after: str, *, rest_is_marked: bool) -> tuple[str, str]:
    """Return what parts a piece from the character before it, and the piece without its marks.

    That is a space, a slash where a word goes on, or nothing.

    Args:
        piece: as the vocabulary has it.
        after: the last character before it; a space where there is none.
        rest_is_marked: whether the vocabulary marks pieces that go on with a word, as BERT's does.
    """
    if piece.startswith(WORD_START):
        return " ", piece.removeprefix(WORD_START) or WORD_START
    if piece.startswith(WORD_REST):
        return "/", piece.removeprefix(WORD_REST)
    is_word = piece[:1].isalnum()
    if after == " " or piece[:1] in ("[", "<") or (rest_is_marked and is_word):
        return " ", piece
    return ("/" if is_word and after.isalnum() else ""), piece
