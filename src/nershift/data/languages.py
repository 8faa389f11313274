"""Languages, which corpora name by words (`Spanish`) or by codes (`es`, `spa`)."""

from __future__ import annotations

_CODES = {
    "ar": "arabic", "ara": "arabic", "cs": "czech", "ces": "czech", "da": "danish", "dan": "danish", "de": "german",
    "deu": "german", "el": "greek", "ell": "greek", "en": "english", "eng": "english", "es": "spanish",
    "fa": "persian", "fas": "persian", "fi": "finnish", "fin": "finnish", "fr": "french", "fra": "french",
    "he": "hebrew", "heb": "hebrew", "hi": "hindi", "hin": "hindi", "hu": "hungarian", "hun": "hungarian",
    "it": "italian", "ita": "italian", "ja": "japanese", "jpn": "japanese", "ko": "korean", "kor": "korean",
    "nl": "dutch", "nld": "dutch", "no": "norwegian", "nor": "norwegian", "pl": "polish", "pol": "polish",
    "pt": "portuguese", "por": "portuguese", "ro": "romanian", "ron": "romanian", "ru": "russian", "rus": "russian",
    "spa": "spanish", "sv": "swedish", "swe": "swedish", "tr": "turkish", "tur": "turkish", "uk": "ukrainian",
    "ukr": "ukrainian", "vi": "vietnamese", "vie": "vietnamese", "zh": "chinese", "zho": "chinese",
}  # fmt: skip


def plain_language(name: str) -> str:
    """One name for a language, however it is written; empty stays empty.

    Example:
        >>> plain_language("es"), plain_language("Spanish"), plain_language("pt-BR"), plain_language("Quechua")
        ('spanish', 'spanish', 'portuguese', 'quechua')
    """
    low = name.strip().lower()
    return _CODES.get(low, _CODES.get(low.replace("_", "-").partition("-")[0], low))
