"""The generated corpus: fixed for good, clean across splits, its names new, shared and ambiguous."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nershift.data.builtin import BUILTIN_DOMAINS, NOISE, SIZES, Noise, _sentence, _spoil, builtin_corpus
from nershift.data.builtin_names import FORMS, MAKERS, PARTS, Names, well_known
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import SetupError

SHARED = {"person", "place"}
PRIVATE = {
    "clinic": {"drug", "dose", "condition"},
    "court": {"statute", "case"},
    "kitchen": {"dish", "ingredient"},
    "sports": {"team"},
    "travel": {"facility", "transport"},
    "market": {"money"},
}
# Sentences and spans must not change with machine, Python version or run.
DIGESTS = {
    "news": "9846c9a31aa87536ed36c6014c6b4c201a3cba1a1916c73e7bf505b1ed20d507",
    "clinic": "b2908b30837ee2ff711096effb24355d0a65cb8d2d47203aa748f01bed259d5e",
    "chat": "da4bfd7d06a629d649d7567a2f8e4bbcdae96f17aa1f3716086db37c3025ca88",
}


@pytest.fixture(scope="module")
def corpora() -> dict[str, Corpus]:
    return {domain: builtin_corpus(domain) for domain in BUILTIN_DOMAINS}


def mentions(sentences: tuple[Sentence, ...]) -> list[tuple[str, str]]:
    return [(s.mention(span), span.label) for s in sentences for span in s.spans]


@pytest.mark.parametrize("domain", DIGESTS)
def test_fixed_for_good(domain: str) -> None:
    assert builtin_corpus(domain).digest() == DIGESTS[domain]


def test_seeds_and_domains_differ(corpora: dict[str, Corpus]) -> None:
    assert builtin_corpus("news", seed=1).digest() != corpora["news"].digest()
    assert len({c.digest() for c in corpora.values()}) == len(BUILTIN_DOMAINS) >= 6


@pytest.mark.parametrize("domain", BUILTIN_DOMAINS)
def test_shape_of_a_domain(corpora: dict[str, Corpus], domain: str) -> None:
    corpus = corpora[domain]
    assert (corpus.name, corpus.domain, corpus.language) == (f"builtin-{domain}", domain, "en")
    assert {name: len(split) for name, split in corpus.splits.items()} == SIZES
    assert SHARED | PRIVATE.get(domain, set()) <= set(corpus.types)
    sentences = [s.tokens for split in corpus.splits.values() for s in split]
    assert len(set(sentences)) == len(sentences)
    assert not any(re.search(r"[{}|]|<[a-z]", token) for tokens in sentences for token in tokens)
    for split in SIZES:  # every type can be learned and measured
        assert min(corpus.counts(split)[t] for t in corpus.types) >= 5


@pytest.mark.parametrize("domain", BUILTIN_DOMAINS)
def test_most_test_names_are_new(corpora: dict[str, Corpus], domain: str) -> None:
    seen = {name for name, _ in mentions(corpora[domain].train)}
    test = [name for name, _ in mentions(corpora[domain].test)]
    assert sum(name not in seen for name in test) > 0.55 * len(test)
    few = {name for name, _ in mentions(corpora[domain].train[:40])}
    assert sum(name not in few for name in test) > 0.8 * len(test)


def test_private_types_are_private(corpora: dict[str, Corpus]) -> None:
    for domain, types in PRIVATE.items():
        for other in corpora:
            assert other == domain or not types & set(corpora[other].types)


def test_names_are_ambiguous(corpora: dict[str, Corpus]) -> None:
    labels = defaultdict(set)
    for corpus in corpora.values():
        for name, label in mentions(corpus.train):
            labels[name].add(label)
    for pair in (
        {"person", "place"},
        {"place", "team"},
        {"organisation", "drug"},
        {"organisation", "product"},
    ):
        assert sum(pair <= found for found in labels.values()) >= 5, pair
    # and within one domain only the words around a name can tell
    sports = defaultdict(set)
    for name, label in mentions(corpora["sports"].train):
        sports[name].add(label)
    assert sum({"place", "team"} <= found for found in sports.values()) >= 10


def test_well_known_names_recur_across_domains(corpora: dict[str, Corpus]) -> None:
    known = {d: {n for n, _ in mentions(c.train)} for d, c in corpora.items()}
    for domain in corpora:
        others = set().union(*(known[d] for d in corpora if d != domain))
        assert len(known[domain] & others) >= 40


def test_writers_of_domains_differ(corpora: dict[str, Corpus]) -> None:
    def share(domain: str, test: object) -> float:
        return sum(map(test, corpora[domain].train)) / len(corpora[domain].train)  # type: ignore[call-overload]

    def lower(s: Sentence) -> bool:
        return " ".join(s.tokens).islower()

    assert share("chat", lower) > 0.45
    assert share("court", lower) == 0
    assert 0.02 < share("news", lambda s: " ".join(s.tokens).isupper()) < 0.12
    assert share("chat", lambda s: any(t.startswith("#") and len(t) > 1 for t in s.tokens)) > 0.1
    assert share("clinic", lambda s: s.tokens[-1] == ".") < 0.8 < share("court", lambda s: s.tokens[-1] == ".")


def test_every_slot_has_a_maker() -> None:
    used = {kind for forms in FORMS.values() for form in forms for kind in re.findall(r"<([a-z]\w*)", form)}
    assert used <= set(MAKERS) | set(PARTS)
    assert set(NOISE) == set(FORMS)


@pytest.mark.parametrize("domain", BUILTIN_DOMAINS)
def test_forms_are_well_formed(domain: str) -> None:
    for form in FORMS[domain]:
        assert form.count("{") == form.count("}")
        assert not re.search(r"[^ {|}]<[a-z]|>[^ }|]", form)  # a slot is a token of its own


def test_forms_are_filled_and_marked() -> None:
    names = Names(random.Random(0))
    sentence = _sentence("{By|By} <surname=person> of <place=> { x {|}|x } <number=>", names)
    assert sentence.tokens[0] == "By"
    assert [(s.start, s.end, s.label) for s in sentence.spans] == [(1, 2, "person")]
    assert sentence.tokens[-2] == "x"
    assert sentence.tokens[-1].isdigit()


def test_noise_keeps_spans_on_their_words() -> None:
    plain = Sentence.of(["Ask", "Ada", "Lovelace", "in", "Rome", "."], [(1, 3, "person"), (4, 5, "place")])
    tagged = _spoil(plain, Noise(tag=1, typo=0, no_end=1, lower=1), random.Random(0))
    assert tagged.tokens == ("ask", "#adalovelace", "in", "#rome")
    assert [(tagged.mention(s), s.label) for s in tagged.spans] == [
        ("#adalovelace", "person"),
        ("#rome", "place"),
    ]
    same = _spoil(plain, Noise(typo=0), random.Random(0))
    assert same == plain
    for seed in range(50):
        typos = _spoil(plain, Noise(typo=1), random.Random(seed))
        assert [s.label for s in typos.spans] == ["person", "place"]
        assert abs(len(typos.tokens[2]) - len("Lovelace")) <= 1
        assert typos.tokens[0] == "Ask"  # too short to be spoilt


def test_world_is_ambiguous() -> None:
    world = well_known(0)
    assert set(world["surname"]) & set(world["place"])
    assert set(world["drug"]) & set(world["brand"])
    assert well_known(0) == world != well_known(1)


def test_unknown_domain() -> None:
    with pytest.raises(SetupError, match="did you mean 'clinic'"):
        builtin_corpus("clinik")


def test_command_writes_what_the_function_gives(tmp_path: Path) -> None:
    from nershift.cli.builtin import register
    from nershift.data.formats import conll
    from nershift.data.problems import Problems

    app = typer.Typer()
    register(app)
    done = CliRunner().invoke(app, [str(tmp_path), "--domain", "chat", "--domain", "court", "--seed", "3"])
    assert done.exit_code == 0, done.output
    assert "train 1000, dev 200, test 400" in done.output
    for domain in ("chat", "court"):
        made = builtin_corpus(domain, seed=3)
        read = {split: conll.read(tmp_path / domain / f"{split}.conll", Problems()) for split in SIZES}
        assert Corpus("", {k: tuple(v) for k, v in read.items()}).digest() == made.digest()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["chat", "court"]


def test_command_refuses_a_misspelt_domain_before_writing(tmp_path: Path) -> None:
    from nershift.cli.builtin import register

    app = typer.Typer()
    register(app)
    result = CliRunner().invoke(app, [str(tmp_path / "out"), "--domain", "chat", "--domain", "sport"])
    assert isinstance(result.exception, SetupError)
    assert not (tmp_path / "out").exists()
