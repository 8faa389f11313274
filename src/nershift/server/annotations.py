"""What annotators say, kept by the server: labels of each, the types and guidelines of all, and their agreement."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

from nershift.data.spans import Sentence
from nershift.errors import StorageError
from nershift.evaluation.agreement import agreement
from nershift.server import limits
from nershift.server.record_log import Record, RecordLog
from nershift.server.refusals import Refusal, cannot_write
from nershift.server.version_folder import read_json
from nershift.storage import clear_leftovers, write_text

_ANSWERED = 1_000_000  # bytes of records in one answer
_TYPES_FILE, _ABOUT_FILE = "types.jsonl", "about.json"


def key_of(tokens: Sequence[str]) -> str:
    """The name under which a sentence's labels are kept: the same words are the same sentence, wherever they stand."""
    return "\x1f".join(tokens)


class Annotations:
    """Names of annotators come from requests; files are named after a hash of them.

    ``id`` names this collection. A browser that knows another one starts from nothing, and sends all that it has.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._changing = folder, threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        clear_leftovers(folder)
        self.id = str(read_json(folder / _ABOUT_FILE).get("id") or "")
        self._types = RecordLog(folder / _TYPES_FILE, {"of": "types"}, lambda record: str(record["name"]))
        self._labels: dict[str, RecordLog] = {}
        self._accepted: dict[str, dict[str, None]] = {}  # keys of sentences by annotator, in order
        for path in sorted(folder.glob("labels-*.jsonl")):
            name = str(RecordLog.about(path).get("annotator"))
            log = self._log(name)
            self._note(name, log, log.records())

    def _log(self, annotator: str) -> RecordLog:
        name = hashlib.sha256(annotator.encode()).hexdigest()[:20]
        path = self._folder / f"labels-{name}.jsonl"
        return RecordLog(path, {"annotator": annotator}, lambda record: key_of(record["tokens"]))

    def sync(
        self, annotator: str, known: str, since: tuple[int, int], records: Sequence[Record], types: Sequence[Record]
    ) -> bytes:
        """Keep what a browser sends, and answer with what it does not have.

        Args:
            known: the ``id`` that the browser knows.
            since: the numbers up to which it has labels and types.

        Raises:
            Refusal: there is no room for it (413, 507).
        """
        with self._changing:
            self._begin()
            log = self._labels.get(annotator) or self._log(annotator)
            self._check_room(annotator, records, types)
            self._types.merge(types)
            log.merge(records)
            if len(log):
                self._note(annotator, log, records)
            labels_since, types_since = since if known == self.id else (0, 0)
            rows, at = log.since(labels_since, _ANSWERED)
            named, types_at = self._types.since(types_since, _ANSWERED)
        head = {"id": self.id, "at": at, "types_at": types_at, "more": at < log.last or types_at < self._types.last}
        lists = b', "records": [%b], "types": [%b]}' % (b", ".join(rows), b", ".join(named))
        return json.dumps(head)[:-1].encode() + lists

    def _begin(self) -> None:
        if not self.id:
            made = uuid4().hex[:12]
            try:
                write_text(self._folder / _ABOUT_FILE, json.dumps({"id": made}))
            except StorageError as error:
                raise cannot_write(error) from None
            self.id = made

    def _check_room(self, annotator: str, records: Sequence[Record], types: Sequence[Record]) -> None:
        if records and annotator not in self._labels and len(self._labels) >= limits.MOST_ANNOTATORS:
            message = f"there are labels of {limits.MOST_ANNOTATORS} annotators already"
            raise Refusal(413, "annotators", message, "choose one of their names")
        if types and len(self._types) + len(types) > limits.MOST_TYPES:
            known = {record["name"] for record in self._types.records()} | {record["name"] for record in types}
            if len(known) > limits.MOST_TYPES:
                message = f"there would be more than {limits.MOST_TYPES} types"
                raise Refusal(413, "types", message, "use the types that there are")
        adding = any(not record.get("deleted") for record in records)
        if adding and sum(log.size for log in self._labels.values()) > limits.MOST_LABEL_BYTES:
            message = f"the labels on this server take more than {limits.MOST_LABEL_BYTES // 1_000_000} MB"
            raise Refusal(413, "labels", message, "export labels, then delete those that are done with")

    def _note(self, annotator: str, log: RecordLog, records: Iterable[Record]) -> None:
        """Remember an annotator, and which of the sentences are accepted now."""
        self._labels[annotator] = log
        accepted = self._accepted.setdefault(annotator, {})
        for key in (key_of(record["tokens"]) for record in records):
            if log.get(key).get("accepted"):
                accepted[key] = None
            else:
                accepted.pop(key, None)

    def annotators(self) -> list[dict[str, Any]]:
        """Who has labelled, and how many sentences they accepted."""
        with self._changing:
            return [{"name": name, "accepted": len(keys)} for name, keys in self._accepted.items()]

    def accepted(self, annotator: str) -> frozenset[str]:
        """Keys of the sentences that an annotator has accepted."""
        with self._changing:
            return frozenset(self._accepted.get(annotator, ()))

    def agreement(self, one: str, other: str) -> dict[str, Any]:
        """How two annotators agree on the sentences that both accepted, and where they do not.

        Raises:
            Refusal: there are no labels of one of them (404).
        """
        with self._changing:
            for name in (one, other):
                if name not in self._labels:
                    raise Refusal(404, "unknown", f"there are no labels of “{name}”", "GET /annotators lists the names")
            keys = [key for key in self._accepted[one] if key in self._accepted[other]]
            ours, theirs = ([self._labels[name].get(key) for key in keys] for name in (one, other))
        found = agreement([_sentence(record) for record in ours], [_sentence(record) for record in theirs])
        differing = [
            {"tokens": ours[i]["tokens"], "one": ours[i]["entities"], "other": theirs[i]["entities"]}
            for i in found.differing
        ]
        return {"one": one, "other": other, **found.to_dict(), "differing": differing}


def _sentence(record: Record) -> Sentence:
    return Sentence.of(record["tokens"], [(e["start"], e["end"], e["label"]) for e in record["entities"]])


def agreement_csv(found: Record) -> str:
    """The table of an agreement for a spreadsheet; values without a meaning are empty."""
    out = io.StringIO()
    table = csv.writer(out)
    counted = (f"entities of {_plain(found['one'])}", f"entities of {_plain(found['other'])}", "the same")
    table.writerow(("type", "span F1", "kappa of tokens", *counted))
    for row in found["rows"]:
        kappa = "" if row["kappa"] is None else f"{row['kappa']:.4f}"
        table.writerow((_plain(row["type"]), f"{row['f1']:.4f}", kappa, row["one"], row["other"], row["both"]))
    return out.getvalue()


def _plain(name: str) -> str:
    """A name that no spreadsheet takes for a formula."""
    return f"'{name}" if name[:1] in "=+-@\t\r" else name
