"""The JSON of requests and answers, as the OpenAPI document shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag, model_validator

from nershift.server import limits

_MOST_FIELDS = 20  # of an object
VERSION = r"^v[1-9][0-9]{0,5}$"
JOB = r"^j[0-9a-f]{8}$"
VersionName = Annotated[str, StringConstraints(pattern=VERSION)]
# A bound on the length also makes sure that a string is Unicode text, without half a surrogate pair.
Text = Annotated[str, StringConstraints(max_length=limits.MOST_CHARACTERS)]
Token = Annotated[str, StringConstraints(min_length=1, max_length=limits.MOST_LETTERS)]
Tokens = Annotated[list[Token], Field(max_length=limits.MOST_TOKENS, fail_fast=True)]
# No white space, and not the tag for "no entity"; the rest of a type's name is up to people.
Label = Annotated[str, StringConstraints(pattern=r"^([^\sO]|\S{2,})$", max_length=60)]
FileForm = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,20}$")]
Confidence = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class _Request(BaseModel):
    """What a request may hold, and nothing else. Lists stop at their first error: telling 100,000 takes a second."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > _MOST_FIELDS:
            raise ValueError(f"has {len(value)} fields, of which at most {len(cls.model_fields)} have a meaning")
        return value


class Texts(_Request):
    """Running text; the server finds sentences and tokens."""

    texts: list[Text] = Field(max_length=limits.MOST_TEXTS, fail_fast=True)


class TokenLists(_Request):
    """Sentences that are tokens already."""

    tokens: list[Tokens] = Field(max_length=limits.MOST_TEXTS, fail_fast=True)


class TagTexts(Texts):
    model: VersionName | None = None
    min_confidence: Confidence = 0.0


class TagTokens(TokenLists):
    model: VersionName | None = None
    min_confidence: Confidence = 0.0


def _which(value: Any) -> str:
    """A request is read as what it says it is, so that its errors are told in those terms.

    What it is stands in brackets: it is no field, and is left out of the place of an error.
    """
    return "(tokens)" if isinstance(value, TokenLists) or (isinstance(value, dict) and "tokens" in value) else "(texts)"


TagRequest = Annotated[
    Annotated[TagTexts, Tag("(texts)")] | Annotated[TagTokens, Tag("(tokens)")], Discriminator(_which)
]
SuggestRequest = Annotated[
    Annotated[Texts, Tag("(texts)")] | Annotated[TokenLists, Tag("(tokens)")], Discriminator(_which)
]


_LONGEST = limits.MOST_TOKENS * (limits.MOST_LETTERS + 1)  # text of tokens, in characters
_First = Annotated[int, Field(ge=0, le=_LONGEST)]
_End = Annotated[int, Field(ge=1, le=_LONGEST)]


class _Answered(_Request):
    """An entity as /tag answers it may be sent back; these of its fields are not read."""

    label: Label
    score: Confidence | None = None
    char_start: _First | None = Field(default=None, deprecated=True)
    char_end: _End | None = Field(default=None, deprecated=True)
    confidence: Confidence | None = Field(default=None, deprecated=True)


class TokenEntity(_Answered):
    """Tokens ``token_start`` up to, not including, ``token_end``. Where these are absent, ``start`` and ``end`` are
    read as tokens, until 0.3."""

    token_start: _First | None = None
    token_end: _End | None = None
    start: _First | None = None
    end: _End | None = None
    text: Text | None = None

    @model_validator(mode="after")
    def _has_tokens(self) -> TokenEntity:
        if None in self.tokens():
            raise ValueError("needs token_start and token_end")
        return self

    def tokens(self) -> tuple[int, int, str]:
        if self.token_start is None and self.token_end is None:
            return self.start, self.end, self.label  # type: ignore[return-value]  # checked when it was made
        return self.token_start, self.token_end, self.label  # type: ignore[return-value]


class TextEntity(_Answered):
    """Characters ``start`` up to, not including, ``end``; ``text``, where given, has to be what stands there."""

    start: _First
    end: _End
    text: Text | None = None
    token_start: _First | None = None
    token_end: _End | None = None


class LabelledTokens(_Request):
    """All entities of the sentence: a token in none of them is learned as part of none."""

    tokens: Annotated[list[Token], Field(min_length=1, max_length=limits.MOST_TOKENS, fail_fast=True)]
    entities: list[TokenEntity] = Field(default=[], max_length=limits.MOST_SPANS, fail_fast=True)


class LabelledText(_Request):
    """All entities of the text, by characters; the server finds sentences and tokens."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=limits.MOST_CHARACTERS)]
    entities: list[TextEntity] = Field(default=[], max_length=limits.MOST_SPANS, fail_fast=True)


def _labelled(value: Any) -> str:
    return "(text)" if isinstance(value, LabelledText) or (isinstance(value, dict) and "text" in value) else "(tokens)"


LabelledSentence = Annotated[
    Annotated[LabelledTokens, Tag("(tokens)")] | Annotated[LabelledText, Tag("(text)")], Discriminator(_labelled)
]


class AdaptRequest(_Request):
    sentences: list[LabelledSentence] = Field(min_length=1, max_length=limits.MOST_LABELLED, fail_fast=True)
    note: str = Field(default="", max_length=500)
    cross_validate: bool = True


class ExportRequest(_Request):
    sentences: list[LabelledSentence] = Field(min_length=1, max_length=limits.MOST_LABELLED, fail_fast=True)
    format: FileForm


class ChooseRequest(_Request):
    name: VersionName


class TokenAnswer(BaseModel):
    """Characters ``start`` up to, not including, ``end``; tokens of a request are joined by single spaces."""

    text: str
    start: int
    end: int


class EntityAnswer(BaseModel):
    """Characters ``start`` up to, not including, ``end``, and tokens of this result alike."""

    start: int
    end: int
    label: str
    text: str
    score: float
    token_start: int
    token_end: int
    char_start: int = Field(deprecated=True)
    char_end: int = Field(deprecated=True)
    confidence: float = Field(deprecated=True)


class TagResult(BaseModel):
    tokens: list[TokenAnswer]
    sentences: list[tuple[int, int]]
    entities: list[EntityAnswer]
    uncertainty: list[float]


class TagAnswer(BaseModel):
    model: str
    results: list[TagResult]


class SuggestAnswer(BaseModel):
    """Sentences of all texts are numbered through; ``order`` names the least certain first."""

    order: list[int]
    scores: list[float]


class F1(BaseModel):
    """Micro F1 of entities, mean and standard deviation over the folds of a cross-validation.

    All folds together have no deviation.
    """

    mean: float
    sd: float | None
    folds: int


class VersionAnswer(BaseModel):
    name: str
    labels: list[str]
    method: str
    created: str
    parent: str | None
    note: str
    sentences: int
    f1: F1 | None


class ModelsAnswer(BaseModel):
    current: str
    versions: list[VersionAnswer]


class JobStarted(BaseModel):
    job: str


JobState = Literal["waiting", "training", "validating", "done", "failed", "cancelled"]


class JobAnswer(BaseModel):
    job: str
    state: JobState
    progress: float
    message: str
    version: str | None
    f1: F1 | None
    seconds: float


class Health(BaseModel):
    status: str
    version: str
    queue: int


class FormatsAnswer(BaseModel):
    formats: list[str]


class ErrorBody(BaseModel):
    code: str
    message: str
    fix: str
    field: str | None = None  # of the body, where one does not fit


class ErrorAnswer(BaseModel):
    error: ErrorBody
