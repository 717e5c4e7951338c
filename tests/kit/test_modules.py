from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hookgate.kit.modules import on_demand


def test_a_module_is_loaded_when_something_of_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loaded_late.py").write_text("answer = [42]\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "loaded_late", raising=False)
    module = on_demand("loaded_late")
    assert "loaded_late" not in sys.modules
    assert module.answer == [42]
    assert module.answer is sys.modules["loaded_late"].answer
    with pytest.raises(AttributeError, match="'loaded_late' has no attribute 'question'"):
        _ = module.question
