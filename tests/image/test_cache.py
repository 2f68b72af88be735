"""Parts of an image are built again only when what they are made from has changed."""

from pathlib import Path

import pytest

from image.cache import cache_directory, kept


class Builds:
    """Counts how often something was built."""

    def __init__(self) -> None:
        self.count = 0

    def build(self, place: Path) -> None:
        self.count += 1
        (place / "number").write_text(str(self.count))

    def fail(self, place: Path) -> None:
        (place / "number").write_text("half")
        raise OSError("no space left")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def number_in(place: Path) -> str:
    return (place / "number").read_text()


def test_the_same_is_built_once_and_something_else_replaces_it() -> None:
    builds = Builds()
    for made_from, expected in (("a", "1"), ("a", "1"), ("b", "2")):
        assert number_in(kept("base", [made_from], builds.build)) == expected
    assert len(list(cache_directory().iterdir())) == 1


def test_a_build_that_failed_is_never_used() -> None:
    builds = Builds()
    with pytest.raises(OSError, match="no space"):
        kept("base", ["a"], builds.fail)
    assert number_in(kept("base", ["a"], builds.build)) == "1"


def test_kinds_do_not_replace_each_other() -> None:
    builds = Builds()
    kept("base-amd64", ["a"], builds.build)
    kept("base-arm64", ["a"], builds.build)
    kept("base-amd64", ["a"], builds.build)
    assert builds.count == 2
