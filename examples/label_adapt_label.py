"""What the page does, by HTTP: tag, send corrected sentences, and tag again with the tagger that learned from them.

    python examples/label_adapt_label.py

A server of the demo's tagger is started for it. The built-in clinic notes play the annotator: their labels are known.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Any

import nershift

NOTES = nershift.builtin_corpus("clinic").splits["test"]
TO_LABEL, TO_TEST = NOTES[:24], NOTES[24:200]


def ask(address: str, body: Any = None, method: str | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def f1(server: str) -> float:
    """F1 in percent on notes that are never sent as labels."""
    found = ask(f"{server}tag", {"tokens": [list(note.tokens) for note in TO_TEST]})["results"]
    right = gold = predicted = 0
    for note, result in zip(TO_TEST, found, strict=True):
        entities = {(e["token_start"], e["token_end"], e["label"]) for e in result["entities"]}
        spans = {(span.start, span.end, span.label) for span in note.spans}
        right, gold, predicted = right + len(spans & entities), gold + len(spans), predicted + len(entities)
    return 200 * right / (gold + predicted)


def adapt(server: str, notes: tuple[nershift.Sentence, ...]) -> float:
    """Send labelled notes; the seconds until the new version serves. Its cross-validation is not waited for."""
    rows = [
        {
            "tokens": list(note.tokens),
            "entities": [{"token_start": s.start, "token_end": s.end, "label": s.label} for s in note.spans],
        }
        for note in notes
    ]
    began = time.monotonic()
    job = f"{server}jobs/{ask(f'{server}adapt', {'sentences': rows})['job']}"
    while not ask(job)["version"]:
        time.sleep(0.1)
    seconds = time.monotonic() - began
    ask(job, method="DELETE")
    return seconds


def main() -> None:
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "nershift", "serve", "--demo", "--port", "0", "--quiet", "--store", store]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            server = next(line.strip() for line in process.stderr if line.startswith("http"))
            try:
                print(f"before: F1 {f1(server):.1f} on {len(TO_TEST)} notes")
                for count in (12, 24):
                    seconds = adapt(server, TO_LABEL[count - 12 : count])
                    print(f"after {count} labelled notes ({seconds:.0f} s): F1 {f1(server):.1f}")
                types = ask(f"{server}models")["versions"][-1]["labels"]
                print(f"types: {', '.join(types)}")
            finally:
                process.terminate()


if __name__ == "__main__":
    main()
