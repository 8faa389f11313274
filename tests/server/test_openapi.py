"""Requests made up from the OpenAPI document: whatever is sent, the answer is one that is documented."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

schemathesis = pytest.importorskip("schemathesis")
pytest.importorskip("fastapi")

EXAMPLES = 12


@pytest.fixture(scope="module")
def api(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The schema of a server whose adaptations end at once: their process is tested elsewhere."""
    from nershift.server.app import make_app
    from nershift.server.jobs import Jobs
    from nershift.server.security import Guard
    from nershift.server.service import Service

    service = Service(small_model, tmp_path_factory.mktemp("openapi"))
    nothing = (sys.executable, "-S", "-c", "raise SystemExit(1)")
    service.jobs = Jobs(service.store, service.limits, command=nothing)
    app = make_app(service, Guard(hosts=frozenset({"localhost", "testserver"})))
    yield schemathesis.openapi.from_asgi("/openapi.json", app)
    service.close()


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_no_request_breaks_the_server(api: Any, mode: str) -> None:
    """Good requests and bad ones: no 500, and nothing that the document does not announce."""
    settings = hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    # What no schema can say may be wrong with good data too: spans that overlap, no entity at all.
    from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

    seen: list[str] = []
    for found in api.get_all_operations():
        operation = found.ok()
        strategy = operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode])

        @settings
        @hypothesis.given(case=strategy)
        def check(case: Any) -> None:
            answer = case.call()
            refused = [negative_data_rejection] if answer.status_code == 413 else []  # it knows no 413
            case.validate_response(answer, excluded_checks=[positive_data_acceptance, *refused])

        try:
            check()
        except hypothesis.errors.Unsatisfiable:
            continue  # nothing about this route can be wrong
        seen.append(operation.label)
    assert "POST /tag" in seen
    assert "POST /adapt" in seen
