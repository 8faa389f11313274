import os
from pathlib import Path

import pytest

from experiments.metaner.homogeneous import homogeneous_map
from nershift.data.catalog import catalog, differences, entry, locate
from nershift.data.formats import read_corpus
from nershift.errors import ConfigError, DataError

DATA = Path(os.environ.get("NERSHIFT_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")


def test_entries_are_complete() -> None:
    assert len(catalog()) == 40
    for name, e in catalog().items():
        assert e.language, name
        assert e.domain, name
        assert e.licence, name
        assert e.origin, name
        assert e.counts or e.raw or name.startswith(("ace2005", "ontonotes5"))
        assert bool(e.types) != name.startswith("raw_")
    assert entry("conll2003_en").counts["dev"].mentions == 5942
    assert entry("ace2005_bc").folder == "ace2005"


def test_locate_says_how_to_set_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NERSHIFT_DATA", raising=False)
    with pytest.raises(DataError, match=r"export NERSHIFT_DATA=.*Linguistic Data Consortium"):
        locate("ontonotes5")
    monkeypatch.setenv("NERSHIFT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="no local copy of 'wikigold'"):
        read_corpus("wikigold")
    with pytest.raises(ConfigError, match="did you mean 'wikigold'"):
        locate("wikigld")


def test_load_names_the_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NERSHIFT_DATA", str(tmp_path))
    (tmp_path / "cbs_scitech").mkdir()
    (tmp_path / "cbs_scitech" / "test.conll").write_text("Rome\tB-LOC\n")
    corpus = read_corpus("cbs_scitech")
    assert (corpus.name, corpus.language) == ("cbs_scitech", "English")
    assert "test: 1 sentences, 2000 expected" in differences(corpus)


def test_homogeneous_map() -> None:
    assert homogeneous_map("conll2003_en") == {t: t for t in ("LOC", "MISC", "ORG", "PER")}
    politics = homogeneous_map("crossner_politics")
    assert politics["politician"] == "PER"
    assert politics["election"] == "MISC"
    assert set(politics.values()) == {"PER", "ORG", "LOC", "MISC"}
    assert homogeneous_map("crossner_ai")["algorithm"] == "O"
    for name in ("mit_movie", "raw_abc_science"):
        with pytest.raises(ConfigError, match="cannot share a label space"):
            homogeneous_map(name)


@pytest.mark.parametrize("name", [n for n, e in catalog().items() if e.counts or e.raw])
def test_real_corpora_have_the_expected_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (DATA / name).is_dir():
        pytest.skip("no local copy")
    monkeypatch.setenv("NERSHIFT_DATA", str(DATA))
    assert differences(read_corpus(name)) == []
