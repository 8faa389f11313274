"""A generated corpus of several domains: enough to try every method, without a download.

The domains share some entity types (person, place, organisation), have others to themselves (drug, statute,
dish) and differ in style. Names are invented from parts, so a tagger has to learn how names look and where they
stand; a list of names does not help. The same name may be a town here, a team or a surname there, and only the
context tells. Everything is a function of domain and seed, the same on every machine.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import lru_cache

from nershift.data.builtin_names import FORMS, Names, well_known
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence, Span
from nershift.errors import SetupError, nearest

BUILTIN_DOMAINS: tuple[str, ...] = tuple(FORMS)
SIZES = {"train": 1000, "dev": 200, "test": 400}


@dataclass(frozen=True)
class Noise:
    """How careless the writers of a domain are: shares of sentences, words (typo) and names (tag)."""

    lower: float = 0.0
    upper: float = 0.0
    typo: float = 0.005
    no_end: float = 0.0
    tag: float = 0.0


NOISE: dict[str, Noise] = {
    "news": Noise(upper=0.08),
    "clinic": Noise(lower=0.2, typo=0.03, no_end=0.3),
    "court": Noise(upper=0.03),
    "kitchen": Noise(lower=0.25, typo=0.01, no_end=0.1),
    "sports": Noise(upper=0.08, typo=0.01),
    "travel": Noise(lower=0.12, typo=0.02, no_end=0.1),
    "market": Noise(upper=0.08),
    "chat": Noise(lower=0.5, upper=0.04, typo=0.03, no_end=0.5, tag=0.12),
}

_CHOICE = re.compile(r"\{([^{}]*)\}")  # innermost first
_SLOT = re.compile(r"<(\w+)(?:(=)(\w*))?>")


def builtin_corpus(domain: str, seed: int = 0) -> Corpus:
    """Generate the train, dev and test split of one domain.

    Domains of one seed share a stock of well-known names; no sentence comes twice, within or across splits.

    Args:
        domain: one of :data:`BUILTIN_DOMAINS`.
        seed: another seed gives other names and sentences of the same kind.

    Example:
        >>> corpus = builtin_corpus("court")
        >>> corpus.types, len(corpus.train)
        (('case', 'organisation', 'person', 'place', 'statute'), 1000)
    """
    if domain not in FORMS:
        raise SetupError(
            f"no built-in domain '{domain}'{nearest(str(domain), FORMS)}", expected=f"one of: {', '.join(FORMS)}"
        )
    rng = random.Random(f"{domain}:{seed}")
    names = Names(rng, _world(seed))
    splits: dict[str, tuple[Sentence, ...]] = {}
    seen: set[tuple[str, ...]] = set()
    for split, size in SIZES.items():
        sentences: list[Sentence] = []
        while len(sentences) < size:
            sentence = _spoil(_sentence(rng.choice(FORMS[domain]), names), NOISE[domain], rng)
            if sentence.tokens not in seen:
                seen.add(sentence.tokens)
                sentences.append(sentence)
        splits[split] = tuple(sentences)
    return Corpus(f"builtin-{domain}", splits, domain=domain, language="en")


@lru_cache(maxsize=8)
def _world(seed: int) -> dict[str, list[str]]:
    return well_known(seed)


def _sentence(form: str, names: Names) -> Sentence:
    """Resolve the choices of a sentence form and fill its slots."""
    while _CHOICE.search(form):
        form = _CHOICE.sub(lambda found: names.rng.choice(found[1].split("|")), form)
    tokens: list[str] = []
    spans: list[Span] = []
    for piece in form.split():
        slot = _SLOT.fullmatch(piece)
        if slot is None:
            tokens.append(piece)
            continue
        kind, other, label = slot.groups()
        words = names.make(kind).split()
        marked = label if other else kind
        if marked:
            spans.append(Span(len(tokens), len(tokens) + len(words), marked))
        tokens += words
    return Sentence(tuple(tokens), tuple(spans))


def _spoil(sentence: Sentence, noise: Noise, rng: random.Random) -> Sentence:
    """Drop capitals, letters and full stops, and turn names into hashtags, as the writers of a domain do."""
    tokens, spans = _hashtags(sentence, noise.tag, rng)
    if len(tokens) > 1 and tokens[-1] == "." and rng.random() < noise.no_end:
        tokens = tokens[:-1]
    tokens = [_typo(t, rng) if len(t) > 3 and rng.random() < noise.typo else t for t in tokens]
    case = rng.random()
    if case < noise.lower:
        tokens = [t.lower() for t in tokens]
    elif case < noise.lower + noise.upper:
        tokens = [t.upper() for t in tokens]
    return Sentence(tuple(tokens), tuple(spans))


def _hashtags(sentence: Sentence, share: float, rng: random.Random) -> tuple[list[str], list[Span]]:
    def words(span: Span) -> tuple[str, ...]:
        own = sentence.tokens[span.start : span.end]
        return ("#" + "".join(own),) if rng.random() < share else own

    tagged = sentence.with_entities(words)
    return list(tagged.tokens), list(tagged.spans)


def _typo(word: str, rng: random.Random) -> str:
    """Swap, drop or double one letter after the first."""
    at = rng.randrange(1, len(word) - 1)
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return rng.choice((swapped, word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]))
