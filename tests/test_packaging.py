"""What is installed is what stands in the repository, whichever way it is built."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.support.syntax import statements

ROOT = Path(__file__).parent.parent
FACE = ROOT / "src" / "hookgate"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MADE_HERE = shutil.ignore_patterns(
    ".git", ".venv*", "__pycache__", ".*_cache", ".hypothesis", "dist", "build", "*.egg-info"
)
HEAVY = ("torch", "faiss", "sqlalchemy", "sqlmodel", "wasmtime", "aiohttp", "alembic", "typer")


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(source: Path, kind: str, out: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "-o", out, source, cwd=out)
    (made,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in a folder with a space in its name."""
    folder = tmp_path_factory.mktemp("a folder") / "hookgate copy"
    shutil.copytree(ROOT, folder, symlinks=True, ignore=MADE_HERE)
    return folder


@pytest.fixture(scope="session")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def sdist(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(checkout, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the installed wheel and nothing else."""
    target = tmp_path_factory.mktemp("installed")
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"),
        *("--no-compile", "--target", target, wheel),
        cwd=target,
    )
    return target


def source_files(folder: str) -> set[str]:
    return {
        f"hookgate/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


# -- the mapping ---------------------------------------------------------------------


def test_the_links_say_the_same_as_the_mapping() -> None:
    target = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    mapping = {**target["sources"], **target["force-include"]}
    links = {
        link.resolve().relative_to(ROOT.resolve()).as_posix(): f"hookgate/{link.name}"
        for link in FACE.iterdir()
        if link.is_symlink()
    }

    assert mapping == {"src/hookgate": "hookgate"} | links


def test_every_link_is_relative_and_kept_out_of_builds() -> None:
    excluded = PYPROJECT["tool"]["hatch"]["build"]["exclude"]
    links = [link for link in FACE.iterdir() if link.is_symlink()]

    assert sorted(excluded) == sorted(f"/src/hookgate/{link.name}" for link in links)
    assert all(not os.path.isabs(os.readlink(link)) for link in links)


# -- the wheel -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["core", "builtin_plugins", "capabilities"])
def test_the_wheel_holds_every_file_of_a_folder(wheel: Path, folder: str) -> None:
    missing = source_files(folder) - contents(wheel).keys()

    assert source_files(folder)
    assert missing == set()


@pytest.mark.slow
def test_the_wheel_holds_the_face_the_hooks_and_the_type_marker(wheel: Path) -> None:
    held = contents(wheel)

    assert held["hookgate/hookspecs.py"] == (ROOT / "hookspecs.py").read_bytes()
    own = [path for path in FACE.iterdir() if not path.is_symlink()]
    for path in chain(own, *(folder.rglob("*") for folder in own)):
        if path.is_file() and "__pycache__" not in path.parts:
            assert held[f"hookgate/{path.relative_to(FACE).as_posix()}"] == path.read_bytes()
    assert "hookgate/py.typed" in held


@pytest.mark.slow
def test_the_wheel_holds_one_package_and_neither_tests_nor_links(wheel: Path) -> None:
    held = contents(wheel)
    tops = {name.partition("/")[0] for name in held}

    assert tops == {"hookgate", f"hookgate-{PYPROJECT['project']['version']}.dist-info"}
    assert not [name for name in held if Path(name).name.startswith(("test_", "conftest"))]
    assert not [name for name in held if "__pycache__" in name]


@pytest.mark.slow
def test_the_wheel_names_its_command_and_its_licence(wheel: Path) -> None:
    held = contents(wheel)
    info = f"hookgate-{PYPROJECT['project']['version']}.dist-info"

    assert b"hookgate = hookgate.cli:main" in held[f"{info}/entry_points.txt"]
    assert held[f"{info}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()


@pytest.mark.slow
def test_the_version_of_the_package_is_the_one_of_the_project(installed: Path) -> None:
    code = "import hookgate; print(hookgate.__version__)"

    assert run(sys.executable, "-c", code, cwd=installed).strip() == PYPROJECT["project"]["version"]


# -- the other ways ------------------------------------------------------------------


@pytest.mark.slow
def test_the_sdist_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    out = tmp_path / "out"
    out.mkdir()

    assert contents(build(unpacked, "wheel", out)) == contents(wheel)


@pytest.mark.slow
def test_the_sdist_holds_what_its_readers_need(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"README.md", "LICENSE", "pyproject.toml", "hookspecs.py"} <= names
    assert {"core/host.py", "core/hooks/caller.py"} <= names
    assert {"tests/test_packaging.py", "docs/architecture.md", "CHANGELOG.md"} <= names
    assert not [name for name in names if name.startswith(("src/hookgate/core", ".venv", ".git/"))]


@pytest.mark.slow
def test_a_checkout_without_links_builds_the_same_wheel(
    checkout: Path, wheel: Path, tmp_path: Path
) -> None:
    # Git writes a link's target into a plain file where the system has no links.
    copy = tmp_path / "without links"
    shutil.copytree(checkout, copy, symlinks=True)
    for link in (copy / "src" / "hookgate").iterdir():
        if link.is_symlink():
            target = os.readlink(link)
            link.unlink()
            link.write_text(target, encoding="utf-8")
    out = tmp_path / "out"
    out.mkdir()

    assert contents(build(copy, "wheel", out)) == contents(wheel)


@pytest.mark.slow
def test_an_editable_install_imports_from_the_checkout(checkout: Path, tmp_path: Path) -> None:
    # The back end's own hook, since pip would look for the back end in an empty environment.
    hook = "import sys; from hatchling.build import build_editable; build_editable(sys.argv[1])"
    run(sys.executable, "-c", hook, tmp_path, cwd=checkout)
    (editable,) = tmp_path.glob("*.whl")
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"),
        *("--no-index", editable),
        cwd=tmp_path,
    )

    code = "from importlib.util import find_spec; print(find_spec('hookgate.hookspecs').origin)"
    shown = run(python, "-c", code, cwd=tmp_path)

    assert Path(shown.strip()).resolve() == (checkout / "hookspecs.py").resolve()


# -- what is imported ----------------------------------------------------------------


def imported(code: str, installed: Path) -> set[str]:
    show = f"{code}; import sys; print(*sys.modules)"
    return set(
        run(sys.executable, "-P", "-c", show, cwd=installed, PYTHONPATH=str(installed)).split()
    )


@pytest.mark.slow
def test_the_installed_wheel_imports_from_its_own_folder(installed: Path) -> None:
    code = (
        "import hookgate.core.hooks.caller, hookgate.builtin_plugins, hookgate.hookspecs as specs; "
        "print(specs.__file__)"
    )

    shown = run(sys.executable, "-P", "-c", code, cwd=installed, PYTHONPATH=str(installed))

    assert Path(shown.strip()) == installed / "hookgate" / "hookspecs.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hookgate", "hookgate.core", "hookgate.hookspecs"])
def test_importing_the_package_loads_nothing_heavy(name: str, installed: Path) -> None:
    assert imported(f"import {name}", installed).isdisjoint(HEAVY)


@pytest.mark.slow
def test_importing_the_face_loads_no_part_of_the_core(installed: Path) -> None:
    loaded = imported("import hookgate", installed)

    assert not [name for name in loaded if name.startswith("hookgate.")]


# -- dependencies --------------------------------------------------------------------

# What a declared library takes and returns in its own interface comes with it.
COMES_WITH = {"multidict": "aiohttp", "pydantic_core": "pydantic", "yarl": "aiohttp"}


def declared() -> list[Requirement]:
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(text) for text in [*project["dependencies"], *chain(*extras)]]


def imported_by_the_product() -> dict[str, str]:
    """Top-level packages that the product imports, each with a file that does."""
    found = {}
    for folder in ("core", "builtin_plugins", "src", "hookspecs.py"):
        where = ROOT / folder
        for path in [where] if where.is_file() else where.rglob("*.py"):
            for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                else:
                    continue
                found.update({name.partition(".")[0]: str(path) for name in names})
    return {
        name: path
        for name, path in found.items()
        if name not in sys.stdlib_module_names and name != "hookgate"
    }


def test_everything_that_is_imported_is_declared() -> None:
    distributions = packages_distributions()
    names = {canonicalize_name(requirement.name) for requirement in declared()}

    undeclared = {
        name: path
        for name, path in imported_by_the_product().items()
        if names.isdisjoint(
            canonicalize_name(one) for one in distributions.get(COMES_WITH.get(name, name), [name])
        )
    }

    assert undeclared == {}


def test_every_dependency_is_explained_with_its_floor() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    development = map(Requirement, chain(*PYPROJECT["dependency-groups"].values()))

    for requirement in [*declared(), *development]:
        floors = [one.version for one in requirement.specifier if one.operator in (">=", "==")]
        rows = [line for line in text.splitlines() if re.search(rf"\b{requirement.name}\b", line)]
        assert any(re.search(rf"\b{re.escape(floors[0])}\b", row) for row in rows), requirement


def test_constraints_pin_every_dependency_and_nothing_else_stands_there() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = {}
    for line in lines:
        if not line.startswith("#"):
            pin = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][\w.]*)", line)
            assert pin, line
            pins[canonicalize_name(pin[1])] = pin[2]

    development = map(Requirement, chain(*PYPROJECT["dependency-groups"].values()))
    for requirement in [*declared(), *development]:
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)])


def test_constraints_are_made_for_every_extra() -> None:
    (extras,) = re.findall(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)

    assert extras.split(",") == list(PYPROJECT["project"]["optional-dependencies"])


@pytest.mark.slow
def test_a_gateway_without_extras_starts_and_answers(tmp_path: Path) -> None:
    modules = {
        module
        for module, distributions in packages_distributions().items()
        for extra, needed in PYPROJECT["project"]["optional-dependencies"].items()
        if extra != "testing"
        and {canonicalize_name(Requirement(text).name) for text in needed}
        & set(map(canonicalize_name, distributions))
    }
    assert "wasmtime" in modules
    code = f"""
import asyncio, sys
sys.modules.update(dict.fromkeys({sorted(modules)}))
from hookgate.gateway import Gateway

async def main():
    async with Gateway() as gateway:
        print((await gateway.chat("what is 17*23?")).answer, gateway.host.status()["degraded"])

asyncio.run(main())
"""
    said = run(sys.executable, "-c", code, cwd=tmp_path, HOME=str(tmp_path))
    assert "391" in said
    assert "not installed" not in said
