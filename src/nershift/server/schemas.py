"""The JSON of requests and answers, as the OpenAPI document shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

from nershift.server import limits

VERSION = r"^v[1-9][0-9]{0,5}$"
JOB = r"^j[0-9a-f]{8}$"
VersionName = Annotated[str, StringConstraints(pattern=VERSION)]
# A bound on the length also makes sure that a string is Unicode text, without half a surrogate pair.
Text = Annotated[str, StringConstraints(max_length=limits.MOST_CHARACTERS)]
Token = Annotated[str, StringConstraints(min_length=1, max_length=limits.MOST_LETTERS)]
Tokens = Annotated[list[Token], Field(max_length=limits.MOST_TOKENS)]
# No white space, and not the tag for "no entity"; the rest of a type's name is up to people.
Label = Annotated[str, StringConstraints(pattern=r"^([^\sO]|\S{2,})$", max_length=60)]
Confidence = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Texts(_Request):
    """Running text; the server finds sentences and tokens."""

    texts: list[Text] = Field(max_length=limits.MOST_TEXTS)


class TokenLists(_Request):
    """Sentences that are tokens already."""

    tokens: list[Tokens] = Field(max_length=limits.MOST_TEXTS)


class TagTexts(Texts):
    model: VersionName | None = None
    min_confidence: Confidence = 0.0


class TagTokens(TokenLists):
    model: VersionName | None = None
    min_confidence: Confidence = 0.0


def _which(value: Any) -> str:
    """A request is read as what it says it is, so that its errors are told in those terms."""
    return "tokens" if isinstance(value, TokenLists) or (isinstance(value, dict) and "tokens" in value) else "texts"


TagRequest = Annotated[Annotated[TagTexts, Tag("texts")] | Annotated[TagTokens, Tag("tokens")], Discriminator(_which)]
SuggestRequest = Annotated[Annotated[Texts, Tag("texts")] | Annotated[TokenLists, Tag("tokens")], Discriminator(_which)]


class LabelledSpan(_Request):
    start: int = Field(ge=0, le=limits.MOST_TOKENS)
    end: int = Field(ge=1, le=limits.MOST_TOKENS)
    label: Label


class LabelledSentence(_Request):
    """All entities of the sentence: a token in none of them is learned as part of none."""

    tokens: Annotated[list[Token], Field(min_length=1, max_length=limits.MOST_TOKENS)]
    entities: list[LabelledSpan] = Field(default=[], max_length=limits.MOST_SPANS)


class AdaptRequest(_Request):
    sentences: list[LabelledSentence] = Field(min_length=1, max_length=limits.MOST_LABELLED)
    note: str = Field(default="", max_length=500)
    cross_validate: bool = True


class ExportRequest(_Request):
    sentences: list[LabelledSentence] = Field(min_length=1, max_length=limits.MOST_LABELLED)
    format: Annotated[str, StringConstraints(pattern=r"^[a-z0-9]{1,20}$")]


class ChooseRequest(_Request):
    name: VersionName


class TokenAnswer(BaseModel):
    text: str
    start: int | None = None
    end: int | None = None


class EntityAnswer(BaseModel):
    """Tokens ``start`` up to, not including, ``end``; characters too where a text was given."""

    start: int
    end: int
    char_start: int | None = None
    char_end: int | None = None
    text: str
    label: str
    confidence: float


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
    """Micro F1 of entities, mean and standard deviation over the folds of a cross-validation."""

    mean: float
    sd: float
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


class ErrorAnswer(BaseModel):
    error: ErrorBody
