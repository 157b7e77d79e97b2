"""Words in any script: how texts are counted, cut, compared and searched.

A word stands between spaces. Where a script has none (Chinese, Japanese, Thai, Lao, Khmer, Burmese,
Tibetan and their relatives), each letter with the marks on it is a word; text that mixes scripts
has both. In text without such letters words are what `str.split` and `\\w+` make of it.

How much text a letter is was measured on programs' messages and their translations: an English
word, of 6.1 characters with its space, is 5/3 Han characters, 4 kana or letters of Thai, 10/3 of
Khmer and Tibetan, 5/2 of Burmese. Rules about runs of n words ask for as much text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile

WORD = 60
"""What a word between spaces weighs; a letter of a script without spaces weighs a part of it."""
CHARACTERS = 6
"""Characters of an English word and its space."""


HAN = (
    "\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
SCRIPTS = {
    HAN: WORD * 3 // 5,
    # Burmese
    "\u1000-\u103f\u104a-\u108f\u109a-\u109f\ua9e0-\ua9ef\ua9fa-\ua9ff\uaa60-\uaa7f": WORD * 2 // 5,
    # Tibetan, Khmer
    "\u0f00-\u0f1f\u0f34-\u0fff\u1780-\u17df\u17ea-\u17ff": WORD * 3 // 10,
    # Kana and Bopomofo; Thai and Lao; Tai, Balinese, Javanese
    "\u3031-\u3035\u3041-\u312f\u31a0-\u31bf\u31f0-\u31ff\uff66-\uff9f\U0001b000-\U0001b16f"
    "\u0e00-\u0e4f\u0e5a-\u0ecf\u0eda-\u0eff"
    "\u1950-\u19cf\u1a20-\u1a7f\u1b00-\u1b4f\ua980-\ua9cf\uaa80-\uaadf": WORD // 4,
}
"""Blocks of scripts without spaces, less their digits, and what a letter of them weighs."""
UNSPACED = "".join(SCRIPTS)
HANGUL = "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff"
MARKS = "".join(
    chr(code)
    for first, end in ((0x590, 0x1AB0), (0x1B00, 0x1D00), (0xA800, 0xAC00))
    for code in range(first, end)
    if unicodedata.category(chr(code)).startswith("M")
)
"""Marks on letters of scripts that write vowels so; `\\w` does not hold them. Accents are none."""
TAILS = "\u0e33\u0eb3\uff9e\uff9f"
"""Letters that are part of the one before: Thai and Lao am, marks of half-width kana."""
ENDS = (
    "。！？\ufe12\ufe15\ufe16\ufe56\ufe57\uff61"
    "\u0589\u061d-\u061f\u06d4\u0700-\u0702\u07f9\u0837\u0839\u083d\u083e\u0964\u0965\u0f0d\u0f0e"
    "\u104b\u1362\u1367\u1368\u166e\u1735\u1736\u17d4\u17d5\u1803\u1809\u1944\u1945\u1aa8-\u1aab"
    "\u1b4e\u1b4f\u1b5a\u1b5b\u1b5e\u1b5f\u1b7d-\u1b7f\u1c3b\u1c3c\u1c7e\u1c7f\u2cf9-\u2cfb\ua4ff"
    "\ua60e\ua60f\ua6f3\ua6f7\ua876\ua877\ua8ce\ua8cf\ua92f\ua9c8\ua9c9\uaa5d-\uaa5f\uaaf0\uaaf1"
    "\uabeb"
)
"""Marks that end a sentence without a space: Sentence_Terminal of Unicode's PropList.txt up to
U+FFFF, less those of Latin text and the Burmese comma, with Tibetan's shad. Thai has none."""
FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""Two of them are a flag."""
LINKERS = "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d\u1039\u17d2\u1a60\u1b44\u1bab\ua9c0\uaaf6"
"""Signs that stack the next letter of Indian scripts and their relatives under the one before."""

_LETTER = rf"[{UNSPACED}](?<=\w)"
_SPACED = rf"[^\W{UNSPACED}]+(?:[{MARKS}]+[^\W{UNSPACED}]*)*"
LETTER = re.compile(_LETTER)
BETWEEN_SPACES = re.compile(
    rf"[^\w\s]*{_LETTER}(?:[{TAILS}]|[^\w\s])*|(?:[^\s{UNSPACED}]+|(?!{_LETTER})[{UNSPACED}])+"
)
PLAIN = re.compile(rf"{_LETTER}[{TAILS}{MARKS}]*|{_SPACED}")
JOINED = re.compile(rf"(?:[{UNSPACED}{HANGUL}](?<=\w)[{TAILS}{MARKS}]*)+")
"""Letters in a row that are searched two by two; Korean too, whose particles stand at the word."""
TERM = rf"(?<![\w{MARKS}])\w[\w{MARKS}]+"
"""What is searched between spaces: words of two letters or more."""
FUNCTION_WORDS = frozenset(
    "的了是在有和与與及或而且但也就不没沒无無非之于於以为為这這那此其他她它们們个個"
    "上下中里裡内內到向从從对對把被将將会會要若如则則着著吗嗎呢吧么麼什"
)
"""Han characters that are not searched alone, for what English stop words (a, in, it, of) are."""
LATIN = re.compile(r"\w+")
OTHER = re.compile(f"[{UNSPACED}{MARKS}]")
PAIRED = re.compile(rf"\w[{TAILS}{MARKS}]*")
HAN_LETTER = re.compile(f"[{HAN}]")
FORMED = re.compile(f"[{UNSPACED}{HANGUL}]")
WIDE = re.compile("[\u2e80-\u2fdf\uff01-\uffee]+")
"""Forms of letters by their width, and radicals that stand for ideographs."""
_WEIGHTS = [(re.compile(f"[{blocks}]"), weight) for blocks, weight in SCRIPTS.items()]


def is_unspaced(text: str) -> bool:
    """Tell whether a text has a letter of a script without spaces."""
    return not text.isascii() and LETTER.search(text) is not None


def one_form(text: str) -> str:
    """Return a text of scripts that have wide and decomposed letters in one form of each.

    >>> one_form("ﾊﾟﾝ ＧＰＴ"), one_form("cafe\u0301") == "cafe\u0301"
    ('パン GPT', True)
    """
    if text.isascii() or not FORMED.search(text):
        return text
    narrow = WIDE.sub(lambda wide: unicodedata.normalize("NFKC", wide[0]), text)
    return unicodedata.normalize("NFC", narrow)


def split_words(text: str) -> list[str]:
    """Return a text's words with the punctuation at them.

    >>> split_words("Tea, please! 我用GPT-4写信。")
    ['Tea,', 'please!', '我', '用', 'GPT-4', '写', '信。']
    """
    return BETWEEN_SPACES.findall(text) if is_unspaced(text) else text.split()


def count_words(text: str) -> int:
    """Return the number of words.

    >>> count_words("two words"), count_words("绿茶"), count_words("น้ำชา")
    (2, 2, 3)
    """
    return len(split_words(text))


def cut_words(text: str, n: int) -> str:
    """Return a text's first n words, as they stand in it.

    >>> cut_words("three  four five", 2), cut_words("「茶」，很好。", 2)
    ('three  four', '「茶」，很')
    """
    ends = [match.end() for match in BETWEEN_SPACES.finditer(text)]
    return text if len(ends) <= n else text[: ends[n - 1]]


def plain_words(text: str) -> list[str]:
    """Return a text's words in lower case, without punctuation; wide letters as narrow ones.

    >>> plain_words("It's TEA, no? 是的，ＧＰＴ。")
    ['it', 's', 'tea', 'no', '是', '的', 'gpt']
    """
    pattern = LATIN if text.isascii() or not OTHER.search(text) else PLAIN
    return pattern.findall(one_form(text).lower())


def search_terms(text: str) -> tuple[str, list[str]]:
    """Return what of a text is searched by words, and the terms of letters without spaces.

    Those are two letters in a row, a letter that stands alone, and each Han character, which is a
    morpheme, but those of `FUNCTION_WORDS`.

    >>> search_terms("GPT喝绿茶"), search_terms("나의 the")
    (('GPT ', ['喝绿', '绿茶', '喝', '绿', '茶']), ('  the', ['나의']))
    """
    terms: list[str] = []
    if text.isascii() or not FORMED.search(text):
        return text, terms
    text = one_form(text)
    for joined in JOINED.findall(text.lower()):
        letters = PAIRED.findall(joined)
        terms += ["".join(pair) for pair in zip(letters, letters[1:], strict=False)] or letters
        if len(letters) > 1:
            terms += [c for c in letters if HAN_LETTER.match(c) and c not in FUNCTION_WORDS]
    return JOINED.sub(" ", text), terms


def weight(words: Sequence[str]) -> float:
    """Return how many English words say as much.

    >>> weight(["hot", "tea"]), weight(list("热茶是好茶"))
    (2, 3.0)
    """
    if not is_unspaced(" ".join(words)):
        return len(words)
    return sum(map(_weight, words)) / WORD


def runs(words: Sequence[str], n: int) -> list[str]:
    """Return the shortest run from each word on that weighs n words; without scripts, n-grams.

    >>> runs(["hot", "black", "tea"], 2), runs(list("热的红茶好"), 2)
    (['hot black', 'black tea'], ['热 的 红 茶', '的 红 茶 好'])
    """
    return [" ".join(words[start:end]) for start, end in enumerate(_ends(words, n))]


def pieces(words: Sequence[str], n: int) -> Iterator[str]:
    """Yield the runs of `runs` that follow one another without a word in common.

    A run that weighs 2n + 2 holds one, wherever it begins: a piece, and the rest of the
    piece that the run begins in, weigh less than n + 1.
    """
    ends, start = _ends(words, n), 0
    while start < len(ends):
        yield " ".join(words[start : ends[start]])
        start = ends[start]


def opening(text: str, characters: int) -> str:
    """Return a text's beginning: so many characters, or as much text of scripts without spaces.

    >>> opening("hot black tea", 9), opening("热的红茶好", 9)
    ('hot black', '热的')
    """
    if not is_unspaced(text[:characters]):
        return text[:characters]
    sizes = (_weight(c) * CHARACTERS if LETTER.match(c) else WORD for c in text)
    return text[: sum(size <= characters * WORD for size in accumulate(sizes))]


def shortened(text: str, longest: int) -> str:
    """Return a text of at most so many characters and a sign of the cut, at the end of a word.

    A word that is longer is cut between two of its letters, with the marks on them.

    >>> shortened("one two three", 9), shortened("热的红茶，很好", 4), shortened("cafe\u0301", 4)
    ('one two …', '热的红 …', 'caf …')
    """
    if len(text) <= longest:
        return text
    within = takewhile(lambda word: word.end() <= longest, BETWEEN_SPACES.finditer(text))
    ends = [word.end() for word in within][::-1] or range(longest, 0, -1)
    end = next((k for k in ends if not _is_joined(text, k)), longest)
    return f"{text[:end].rstrip()} …"


def _is_joined(text: str, k: int) -> bool:
    # Marks, vowels and finals of Hangul, joined or coloured emoji, and flags stay in one piece.
    before, after = text[k - 1], text[k]
    if after in FLAG_LETTERS and before in FLAG_LETTERS:
        return (k - len(text[:k].rstrip(FLAG_LETTERS))) % 2 == 1
    return (
        unicodedata.category(after).startswith("M")
        or after in TAILS
        or "\u200d" in (before, after)
        or (before in LINKERS and after.isalpha())
        or "\u1160" <= after <= "\u11ff"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    )


def _ends(words: Sequence[str], n: int) -> Sequence[int]:
    if not is_unspaced(" ".join(words)):
        return range(n, len(words) + 1)
    sums = [0, *accumulate(map(_weight, words))]
    ends, end = [], 0
    for before in sums:
        while end < len(sums) and sums[end] < before + n * WORD:
            end += 1
        if end == len(sums):
            break
        ends.append(end)
    return ends


def _weight(word: str) -> int:
    if word.isascii():
        return WORD
    letter = LETTER.search(word)
    if letter is None:
        return WORD
    return next(weight for letters, weight in _WEIGHTS if letters.match(letter[0]))
