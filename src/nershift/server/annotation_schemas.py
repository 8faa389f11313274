"""The JSON of labels that the server keeps, of files in the queue, and of agreement."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints, model_validator

from nershift.data.spans import Sentence
from nershift.errors import DataError
from nershift.server import limits
from nershift.server.schemas import FileForm, Token, _Request

FILE = r"^f[0-9a-f]{8}$"
_LATEST = 2**52  # milliseconds, and numbers of records: whole numbers in every language
# No signs that steer a terminal or a page, and no white space at either end.
AnnotatorName = Annotated[str, StringConstraints(pattern=r"^[^\s\p{C}]([^\p{C}]{0,38}[^\s\p{C}])?$")]
# Wider than what can be learned here: a label of whatever tagger is kept.
KeptLabel = Annotated[str, StringConstraints(pattern=r"^\P{C}{1,200}$")]
Number = Annotated[int, Field(ge=0, le=_LATEST)]
Gap = Annotated[str, StringConstraints(max_length=1_000)]
Position = Annotated[int, Field(ge=0, le=limits.MOST_TOKENS)]


class LabelEntity(_Request):
    """Tokens ``start`` up to, not including, ``end``; with a ``score`` where it is the tagger's, not a person's."""

    start: Position
    end: Position
    label: KeptLabel
    score: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)] | None = None


class LabelRecord(_Request):
    """What an annotator said of a sentence, at a time in milliseconds; ``deleted`` takes back what was said.

    ``gaps`` are what stood before each token. Only ``accepted`` sentences are labels; others are drafts.
    """

    tokens: Annotated[list[Token], Field(min_length=1, max_length=limits.MOST_TOKENS, fail_fast=True)]
    gaps: list[Gap] = Field(default=[], max_length=limits.MOST_TOKENS, fail_fast=True)
    entities: list[LabelEntity] = Field(default=[], max_length=limits.MOST_TOKENS, fail_fast=True)
    accepted: bool = False
    deleted: bool = False
    changed: Number

    @model_validator(mode="after")
    def _is_a_sentence(self) -> LabelRecord:
        if self.gaps and len(self.gaps) != len(self.tokens):
            raise ValueError("needs as many gaps as tokens")
        try:
            Sentence.of(self.tokens, [(e.start, e.end, e.label) for e in self.entities])
        except DataError as error:
            raise ValueError(error.found) from None
        return self

    def record(self) -> dict[str, Any]:
        """What is kept of it."""
        if self.deleted:
            return {"tokens": self.tokens, "deleted": True, "changed": self.changed}
        return self.model_dump(exclude={"deleted"}, exclude_none=True)


class TypeRecord(_Request):
    """An entity type with its guidelines."""

    name: KeptLabel
    guideline: str = Field(default="", max_length=limits.MOST_GUIDELINE)
    hidden: bool = False
    changed: Number


class SyncRequest(_Request):
    """What a browser has that the server may not have, and up to which numbers it has what the server has."""

    annotator: AnnotatorName
    id: str = Field(default="", max_length=20)
    at: Number = 0
    types_at: Number = 0
    records: list[LabelRecord] = Field(default=[], max_length=limits.MOST_RECORDS, fail_fast=True)
    types: list[TypeRecord] = Field(default=[], max_length=limits.MOST_TYPES, fail_fast=True)


class SyncAnswer(BaseModel):
    """``more``: ask again, there is more. With another ``id`` than before, send everything again."""

    id: str
    at: int
    types_at: int
    more: bool
    records: list[LabelRecord]
    types: list[TypeRecord]


class Annotator(BaseModel):
    name: str
    accepted: int


class AnnotatorsAnswer(BaseModel):
    annotators: list[Annotator]


class AgreementRow(BaseModel):
    """Agreement on a type: F1 of spans, Cohen's kappa of tokens, and entities of one, of the other, and of both."""

    type: str
    f1: float
    kappa: float | None
    one: int
    other: int
    both: int


class Differing(BaseModel):
    tokens: list[str]
    one: list[LabelEntity]
    other: list[LabelEntity]


class AgreementAnswer(BaseModel):
    """Over the sentences that both accepted; the last row is over all types."""

    one: str
    other: str
    sentences: int
    tokens: int
    rows: list[AgreementRow]
    differing: list[Differing]


class UploadPart(_Request):
    """A file; its content is in base64."""

    name: str = Field(min_length=1, max_length=500)
    content: str


class UploadRequest(_Request):
    """One file, or the files that belong together, such as brat's ``.ann`` and ``.txt``; or a zip of such."""

    files: list[UploadPart] = Field(min_length=1, max_length=limits.MOST_PARTS, fail_fast=True)
    format: FileForm | None = None


class FileAnswer(BaseModel):
    """A file of the queue; ``labelled`` says that it has entities of its own."""

    id: str
    name: str
    format: str
    labelled: bool
    sentences: int
    accepted: int
    created: str


class FilesAnswer(BaseModel):
    files: list[FileAnswer]
    formats: list[str]
    upload_bytes: int
