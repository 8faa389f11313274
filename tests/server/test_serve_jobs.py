from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from labelled_json import as_json

from nershift.data.corpus import Corpus
from nershift.data.formats import jsonl
from nershift.data.spans import Sentence
from nershift.server.jobs import Job, Jobs
from nershift.server.limits import Limits
from nershift.server.refusals import Refusal
from nershift.server.versions import Store

GIVEN = [Sentence.of(["Ada", "slept"], [(0, 1, "person")])]
# Stand-ins for the process that trains: they get the job file as their last argument.
HANG = "import sys; sys.stdin.read()"
CRASH = "import os; os.write(2, b'out of memory'); os._exit(9)"
COPY = """
import json, pathlib, shutil, sys
job = json.load(open(sys.argv[1]))
def say(**news): print(json.dumps({"state": "", "progress": 0.0, "message": "", **news}), flush=True)
say(state="training", progress=0.5, message="half")
for path in pathlib.Path(job["base"]).glob("model.*"): shutil.copy(path, job["out"])
say(ready=["person"], method="copied")
"""
SCORE = COPY + 'say(f1={"mean": 0.5, "sd": 0.1, "folds": 5})\n'
HANG_AFTER = COPY + "sys.stdin.read()\n"
BREAK = COPY.replace("model.*", "model.json")  # no weights


@pytest.fixture
def store(small_model: Path, tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store", small_model)
    yield made
    made.close()


def jobs_of(store: Store, script: str, **limits: Any) -> Jobs:
    return Jobs(store, replace(Limits(), **limits), command=(sys.executable, "-c", script))


def wait(job: Job, *states: str, seconds: float = 60) -> Job:
    end = time.monotonic() + seconds
    while job.state not in states:
        assert time.monotonic() < end, job
        time.sleep(0.02)
    return job


def test_a_new_version_serves_and_is_scored(store: Store) -> None:
    jobs = jobs_of(store, SCORE)
    job = wait(jobs.start(GIVEN, "a note"), "done")
    assert (job.version, job.progress, job.f1) == ("v2", 1.0, {"mean": 0.5, "sd": 0.1, "folds": 5})
    told = store.describe()
    assert told["current"] == "v2"
    row = told["versions"][1]
    assert (row["labels"], row["method"], row["parent"], row["note"]) == (
        ["person"],
        "copied",
        "v1",
        "a note",
    )
    assert row["f1"] == job.f1
    assert sorted(p.name for p in store.folder.iterdir()) == [".lock", "current.json", "v1", "v2"]
    jobs.close()


def test_labels_add_up_until_one_goes_back(store: Store) -> None:
    jobs = jobs_of(store, COPY)
    wait(jobs.start(GIVEN), "done")
    more = [Sentence.of(["Rome"], [(0, 1, "place")]), Sentence.of(["Ada", "slept"])]
    wait(jobs.start(more), "done")
    kept = [(s.tokens, len(s.spans)) for s in store.labels("v3")]
    assert kept == [(("Ada", "slept"), 0), (("Rome",), 1)]
    store.choose("v1")
    wait(jobs.start(GIVEN), "done")
    assert len(store.labels("v4")) == 1
    assert store.find("v4").parent == "v1"
    jobs.close()


@pytest.mark.parametrize("script", [CRASH, BREAK, "print('no news')"])
def test_a_crash_leaves_the_old_version_serving(store: Store, script: str) -> None:
    ended: list[str] = []
    jobs = Jobs(store, Limits(), ended.append, (sys.executable, "-c", script))
    job = wait(jobs.start(GIVEN), "failed")
    assert job.version is None
    assert job.message
    assert ended == ["failed"]
    assert store.current == "v1"
    assert [p.name for p in store.folder.iterdir() if p.name.endswith("tmp")] == []
    jobs.close()


def test_one_at_a_time_and_cancel(store: Store) -> None:
    jobs = jobs_of(store, HANG)
    job = jobs.start(GIVEN)
    with pytest.raises(Refusal) as caught:
        jobs.start(GIVEN)
    assert (caught.value.status, caught.value.code) == (429, "busy")
    wait(job, "training")
    assert jobs.cancel(job.name).state == "cancelled"
    assert jobs.cancel(job.name).state == "cancelled"
    assert store.current == "v1"
    again = jobs.start(GIVEN)
    jobs.cancel(again.name)
    jobs.close()


def test_cancelling_the_validation_keeps_the_version(store: Store) -> None:
    jobs = jobs_of(store, HANG_AFTER)
    job = jobs.start(GIVEN)
    end = time.monotonic() + 30
    while job.version is None and time.monotonic() < end:
        time.sleep(0.02)
    jobs.cancel(job.name)
    assert (job.state, job.version, store.current) == ("cancelled", "v2", "v2")
    jobs.close()


def test_refusals(store: Store) -> None:
    jobs = jobs_of(store, COPY, versions=1)
    with pytest.raises(Refusal) as caught:
        jobs.start(GIVEN)
    assert caught.value.status == 409
    jobs = jobs_of(store, COPY)
    with pytest.raises(Refusal) as caught:
        jobs.start([Sentence.of(["nothing"])])
    assert caught.value.code == "no_entities"
    jobs.close()
    with pytest.raises(Refusal) as caught:
        jobs.start(GIVEN)
    assert caught.value.status == 503


STOP = "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)\n"
HALF = COPY.partition("for path")[0]
CHAT = HALF + "import time\nwhile True: say(state='training', progress=0.5, message='on'); time.sleep(0.02)\n"
CHILD = "import os, time\nif os.fork() == 0: time.sleep(120)\n"  # keeps the output open when its parent has ended


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("script", "version", "why"),
    [
        (HANG, None, "it said nothing for 3 s"),
        (STOP, None, "it said nothing for 3 s"),
        (HALF + STOP, None, "it said nothing for 3 s"),
        (COPY + STOP, "v2", "it said nothing for 3 s; v2 serves, without F1"),
        (CHAT, None, "it was not done after 5 s"),
        (CHILD, None, "it said nothing for 3 s"),
    ],
    ids=["silent", "stopped", "stopped in training", "stopped in validation", "talks for ever", "child"],
)
def test_a_process_that_takes_too_long_is_ended(store: Store, script: str, version: str | None, why: str) -> None:
    """Whatever state it is in, stopped from outside too; then others can adapt, and nothing half-written is left."""
    jobs = jobs_of(store, script, silent_seconds=3, adapt_seconds=5)
    job = wait(jobs.start(GIVEN), "failed", seconds=30)
    assert (job.version, job.message) == (version, f"the adaptation was stopped: {why}")
    assert store.current == (version or "v1")
    jobs.close()
    again = jobs_of(store, COPY)
    wait(again.start(GIVEN), "done")
    assert [p.name for p in store.folder.iterdir() if p.name.endswith("tmp")] == []
    again.close()


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")
@pytest.mark.parametrize("script", [STOP, HALF + STOP, COPY + STOP])
def test_a_stopped_process_can_be_cancelled_and_closed(store: Store, script: str) -> None:
    jobs = jobs_of(store, script)
    job = wait(jobs.start(GIVEN), "training")
    time.sleep(0.5)
    began = time.monotonic()
    jobs.cancel(job.name)
    again = jobs.start(GIVEN)  # it has been cleared away
    wait(again, "training")
    time.sleep(0.5)
    jobs.close()
    assert time.monotonic() - began < 10
    assert jobs._thread is not None
    assert not jobs._thread.is_alive()


def test_a_full_disk_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the process, or in the server while it keeps what came of it."""
    worker = HALF + "say(failed='model.safetensors: cannot be written (No space left on device)')\n"
    jobs = jobs_of(store, worker)
    assert "No space left on device" in wait(jobs.start(GIVEN), "failed").message
    jobs.close()
    jobs = jobs_of(store, COPY)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("nershift.data.formats.jsonl.write", full)
    assert "No space left on device" in wait(jobs.start(GIVEN), "failed").message
    assert store.current == "v1"
    assert sorted(p.name for p in store.folder.iterdir()) == [".lock", "v1"]
    jobs.close()


@pytest.mark.parametrize(
    "error",
    [
        "OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), 'x')",
        "StorageError.of(OSError(28, 'No space left on device'), 'x')",
    ],
)
def test_the_process_says_that_the_disk_is_full(tmp_path: Path, error: str) -> None:
    """A library's error and ours, where the finished tagger is written."""
    import subprocess

    script = f"""
import errno, os, sys
from pathlib import Path
from nershift.errors import StorageError
from nershift.server import learning, work
class Full:
    def save(self, folder):
        raise {error}
learning.learn = lambda *given: Full()
sys.exit(work.main(Path(sys.argv[1])))
"""
    jsonl.write(tmp_path / "labels.jsonl", GIVEN)
    job = {"base": "b", "labels": str(tmp_path / "labels.jsonl"), "scratch": "s", "out": "o", "seconds": 1}
    (tmp_path / "job.json").write_text(json.dumps({**job, "cross_validate": False, "verify": False}))
    command = [sys.executable, "-c", script, str(tmp_path / "job.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert process.wait(30) == 1
    assert "No space left on device" in said["failed"]
    assert "make room" in said["failed"]


def test_few_jobs_are_remembered(store: Store) -> None:
    jobs = jobs_of(store, CRASH, jobs=2)
    names = [wait(jobs.start(GIVEN), "failed").name for _ in range(3)]
    with pytest.raises(Refusal):
        jobs.find(names[0])
    assert jobs.find(names[2]).state == "failed"
    jobs.close()


def test_the_process_ends_with_the_server(tmp_path: Path) -> None:
    """Its input closes when the server is gone, however that happened."""
    import subprocess

    script = "import threading, time; from nershift.server import work; "
    script += "threading.Thread(target=work._end_with_server).start(); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 3


def test_adapting_for_real(client: Any, make_corpus: Callable[..., Corpus], small_model: Path) -> None:
    """A type nobody knew is found after twelve sentences, survives a restart, and v1 can be had back."""
    from starlette.testclient import TestClient

    from nershift.server.app import make_app
    from nershift.server.service import Service

    clinic = make_corpus("clinic", train=12, test=20)
    text = "pt Novak given 20mg nebutol in Graz"

    def types(of: Any, model: str | None = None) -> set[str]:
        given = {"texts": [text]} | ({"model": model} if model else {})
        return {e["label"] for e in of.post("/tag", json=given).json()["results"][0]["entities"]}

    assert "drug" not in types(client)
    body = {"sentences": as_json(clinic.train), "note": "drugs", "cross_validate": False}
    started = client.post("/adapt", json=body)
    assert started.status_code == 202
    name = started.json()["job"]
    assert client.post("/adapt", json=body).status_code == 429
    end = time.monotonic() + 120
    while (told := client.get(f"/jobs/{name}").json())["state"] not in ("done", "failed"):
        assert time.monotonic() < end, told
        time.sleep(0.1)
    assert (told["state"], told["version"], told["f1"]) == ("done", "v2", None), told
    assert "drug" in types(client)
    assert "drug" not in types(client, "v1")
    store = client.service.store.folder
    client.service.close()
    with TestClient(make_app(Service(small_model, store)), base_url="http://127.0.0.1") as again:
        assert again.get("/models").json()["current"] == "v2"
        assert "drug" in types(again)
        back = again.post("/models/current", json={"name": "v1"}).json()
        assert back["current"] == "v1"
        assert [v["sentences"] for v in back["versions"]] == [0, len(set(clinic.train))]
        assert "drug" not in types(again)
        assert "nershift_versions 2.0" in again.get("/metrics").text


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX signals")
def test_a_killed_server_loses_nothing(store: Store, small_model: Path) -> None:
    """What a server leaves that was killed in the middle of writing a version is swept by the next one."""
    jobs = jobs_of(store, HANG)
    job = wait(jobs.start(GIVEN), "training")
    left = store.folder / ".v2.tmp"
    assert left.is_dir()
    assert jobs._process is not None
    os.kill(jobs._process.pid, signal.SIGKILL)
    wait(job, "failed")
    left.mkdir(exist_ok=True)
    (left / "model.json").write_text(json.dumps({"format": 1}))
    store.close()
    again = Store(store.folder, small_model)
    assert again.describe()["current"] == "v1"
    assert not left.exists()
    again.close()
    jobs.close()


BETTER = (
    SCORE
    + """
better = pathlib.Path(job["scratch"], "fit")
shutil.copytree(job["base"], better)
(better / "fit.json").write_text("{}")
say(better=["person"], folder=str(better), method="target_only", recipe="encoder_target_only",
    f1={"mean": 0.75, "sd": None, "folds": 5})
"""
)


def test_a_recipe_that_is_better_makes_the_next_version(store: Store) -> None:
    jobs = jobs_of(store, BETTER)
    job = wait(jobs.start(GIVEN, "a note"), "done")
    assert (job.version, job.f1) == ("v3", {"mean": 0.75, "sd": None, "folds": 5})
    told = store.describe()
    assert told["current"] == "v3"
    assert [row["note"] for row in told["versions"]] == ["", "a note", "a note (encoder_target_only)"]
    assert told["versions"][2]["f1"]["mean"] == 0.75
    assert [s.tokens for s in store.labels("v3")] == [s.tokens for s in GIVEN]
    assert not (store.folder / "v3" / "fit.json").exists()
    assert store.tagger("v3") is not None
    jobs.close()


def test_a_race_for_the_labels(small_model: Path, make_corpus: Callable[..., Corpus], tmp_path: Path) -> None:
    """Going on with the tagger is one of the recipes; if it wins, the adapted version stands."""
    from nershift.server.racing import race

    told: list[str] = []
    sentences = make_corpus("news", train=12, seed=8).train
    assert race(small_model, sentences, tmp_path / "fit", 3, told.append, ["continue_tagger"]) is None
    assert any("continue_tagger" in line for line in told)
