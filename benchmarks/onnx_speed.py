"""Words a second and F1 of exported taggers beside the taggers they come from, in one run on one machine.

    python benchmarks/onnx_speed.py --data conll2003_en --encoder NAME [--json FILE]
    python benchmarks/onnx_speed.py --data conll2003_en --recurrent RUN --transformer RUN [--json FILE]

Without run folders, two taggers are trained for a few minutes: a CNN-BiGRU-CRF on ``--shots`` sentences and a
transformer with a CRF on 400. All tag the same sentences in turns with the same number of threads, confidences
included, so that a busy machine slows all; the load is in the output. "first pass" starts each turn without any word
form in the taggers' caches, the other rows with the forms of this text. A long transformer run can be shortened with
``--sentences``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def train(corpus: Any, out: Path, shots: int, encoder: str = "") -> Path:
    from nershift.run import transfer

    config: dict[str, Any] = {"device": "cpu", "train": {"epochs": 4, "lr": 3e-3}}
    if encoder:
        config["encoder"] = {
            "kind": "transformer",
            "transformer": {"name": encoder, "freeze_embeddings": True},
            "chars": {"use": False},
            "dropout": 0.1,
        }
        config["train"] |= {"optimizer": "adamw", "encoder_lr": 8e-5, "batch_size": 8, "schedule": "linear"}
        config["train"] |= {"epochs": 3, "warmup": 0.1}
        corpus = corpus.with_splits(dev=corpus.dev[:100], test=corpus.test[:100])
    transfer("target_only", corpus, out=out, shots=shots, config=config, quiet=True, report=False)
    return out


def in_turns(rivals: Mapping[str, Callable[[], object]], passes: int) -> dict[str, float]:
    """Median seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(passes):
        for name, run in rivals.items():
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) for name, found in times.items()}


def forgetting(tagger: Any, memory: Any, sentences: Any) -> Callable[[], object]:
    def run() -> object:
        memory.forget()
        return tagger.tag_sentences(sentences)

    return run


def measure(folder: Path, sentences: Any, threads: int, passes: int) -> dict[str, Any]:
    """One tagger and its exports."""
    from nershift.evaluation.metrics import score
    from nershift.tagger.onnx.export import export_onnx
    from nershift.tagger.onnx.tagger import OnnxTagger
    from nershift.tagger.tagger import Tagger

    tagger = Tagger.load(folder)
    transformer = tagger.model.encoder.describe()["kind"] == "transformer"
    made: dict[str, Any] = {"torch": tagger}
    checks: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        for kind in ("onnx", "onnx int8") if transformer else ("onnx",):
            out = Path(name, kind.replace(" ", "-"))
            check = export_onnx(tagger, out, int8=kind == "onnx int8")
            checks[kind] = {
                "largest difference": check.largest_difference,
                "tags changed": check.tags_changed,
            }
            made[kind] = OnnxTagger.load(out, threads)
    rivals: dict[str, Callable[[], object]] = {
        kind: (lambda t=given: t.tag_sentences(sentences)) for kind, given in made.items()
    }
    if not transformer:
        rivals["torch, first pass"] = forgetting(tagger, tagger.model.encoder, sentences)
        rivals["onnx, first pass"] = forgetting(made["onnx"], made["onnx"].reader, sentences)
    tagged = {kind: given.tag_sentences(sentences) for kind, given in made.items()}
    words, times = sum(len(s) for s in sentences), in_turns(rivals, passes)
    rows: dict[str, Any] = {name: {"words/s": words / taken} for name, taken in times.items()}
    for kind, found in tagged.items():
        rows[kind] |= {"F1": 100 * score(sentences, found).f1}
    for name, row in rows.items():
        row["ratio"] = times["torch, first pass" if "first pass" in name else "torch"] / times[name]
    trained = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    told = {"target": trained["target"], "labelled sentences": trained["labelled"]}
    told |= {"words": words, "sentences": len(sentences)}
    return told | {"taggers": rows, "checked at export": checks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="conll2003_en", help="a corpus with train, dev and test")
    parser.add_argument("--encoder", default="", help="a transformer to train, such as distilbert-base-cased")
    parser.add_argument("--recurrent", type=Path, help="a run folder, in place of training")
    parser.add_argument("--transformer", type=Path, help="a run folder, in place of training")
    parser.add_argument("--shots", type=int, default=1500, help="sentences the recurrent tagger is trained on")
    parser.add_argument("--sentences", type=int, default=1000, help="test sentences for the transformer")
    parser.add_argument("--split", default="test", help="of the corpus, to tag")
    parser.add_argument("--skip", type=int, default=0, help="leave out its first sentences")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(given.threads)

    import onnxruntime
    import torch

    from nershift.data.formats import read_corpus

    torch.set_num_threads(given.threads)
    corpus = read_corpus(given.data)
    results: dict[str, Any] = {"threads": given.threads, "cores": os.cpu_count()}
    results |= {
        "split": given.split,
        "skipped": given.skip,
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
    }
    with tempfile.TemporaryDirectory() as name:
        recurrent = given.recurrent or train(corpus, Path(name, "recurrent"), given.shots)
        transformer = given.transformer
        if transformer is None and given.encoder:
            transformer = train(corpus, Path(name, "transformer"), 400, given.encoder)
        before = os.getloadavg()[0]
        rows = corpus.splits[given.split][given.skip :]
        results["recurrent"] = measure(recurrent, rows, given.threads, given.passes)
        if transformer is not None:
            step = max(1, len(rows) // given.sentences)
            some = rows[::step][: given.sentences]
            results["transformer"] = measure(transformer, some, given.threads, max(1, given.passes // 2))
    results["load"] = {"one minute before": before, "last minute": os.getloadavg()[0]}
    text = json.dumps(results, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
