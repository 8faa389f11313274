"""Progress where no bar can move."""

from __future__ import annotations

from pathlib import Path

import pytest

from nershift.training.logger import TrainLogger


def test_plain_lines_where_the_output_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with TrainLogger(tmp_path) as logger:
        logger.bar.begin("train", 0, 100)
        for step in range(1, 78):
            logger.bar.show(step, "best dev F1 61.20" if step > 20 else "")
        logger.bar.end()
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["train: 0 of 100 updates", "train: 10 of 100 updates", "train: 20 of 100 updates"]
    assert lines[-1] == "train: 77 of 100 updates, best dev F1 61.20"
    assert len(lines) == 9


def test_quiet_is_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in ({"quiet": True}, {"main": False}):
        with TrainLogger(tmp_path, **options) as logger:
            logger.bar.begin("train", 0, 2)
            logger.bar.show(2, "")
            logger.bar.end()
    assert capsys.readouterr().err == ""
