"""The shape of the package, kept by rule: see docs/architecture in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "agent"
MODULES = sorted(PACKAGE.rglob("*.py"))
MOST_LINES = 400

# Each layer may import itself and those below it.
LAYERS = (
    {"agent.cli", "agent.__main__"},
    {"agent.cli_info", "agent.cli_past"},
    {"agent.cli_errors"},
    {"agent.ui"},
    {"agent.session"},
    {
        "agent.loop",
        "agent.attachments",
        "agent.calls",
        "agent.instruction_files",
        "agent.recovery",
        "agent.models",
        "agent.recap",
        "agent.reports",
        "agent.spending",
        "agent.system_prompt",
        "agent.tool_session",
    },
    {"agent.context", "agent.tools", "agent.providers", "agent.config"},
    {"agent.transcript"},
    {"agent.events", "agent.media", "agent.wire", "agent.retry", "agent.tasks"},
    {"agent.messages", "agent.errors", "agent.folders"},
    {"agent"},
)

ONLY_IN = {
    "anthropic": {"agent.providers.anthropic"},
    "typer": {"agent.cli", "agent.cli_errors", "agent.cli_info", "agent.cli_past"},
    "rich": {"agent.ui"},
    "prompt_toolkit": {"agent.ui"},
    "tiktoken": {"agent.context.tokens"},
    "pathspec": {"agent.tools"},
    "PIL": {"agent.media"},
}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The modules that a file imports, and whether it does so when it is itself imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, id(node) in top
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, id(node) in top


def layer_of(module: str) -> int:
    while module not in set().union(*LAYERS):
        module = module.rpartition(".")[0]
    return next(number for number, layer in enumerate(LAYERS) if module in layer)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_down(path: Path) -> None:
    own = layer_of(name_of(path))
    for module, _ in imports(path):
        if module.split(".")[0] == "agent":
            assert layer_of(module) >= own, f"{name_of(path)} imports {module}, which is above it"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_foreign_packages_stay_in_their_place(path: Path) -> None:
    name = name_of(path)
    for module, _ in imports(path):
        allowed = ONLY_IN.get(module.split(".")[0])
        assert allowed is None or any(
            name == place or name.startswith(f"{place}.") for place in allowed
        ), f"{name} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_one_subject(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_LINES, f"{name_of(path)} has {lines} lines"


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {
        name_of(path): {m for m, top in imports(path) if top and m.startswith("agent.")}
        for path in MODULES
    }

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        for target in graph.get(name, ()):
            visit(target, (*path, name))

    for name in graph:
        visit(name, ())


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after some code."""
    script = (
        f"import sys\n{code}\nprint('\\n'.join({{name.split('.')[0] for name in sys.modules}}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


HEAVY = {"anthropic", "prompt_toolkit", "tiktoken", "pydantic", "httpx2", "markdown_it", "PIL"}


def test_the_command_line_imports_nothing_heavy() -> None:
    assert not loaded_by("import agent.cli") & (HEAVY | {"rich"})


def test_version_imports_nothing_heavy() -> None:
    code = "sys.argv = ['agent', '--version']\nimport agent.cli, contextlib\n"
    code += "with contextlib.suppress(SystemExit): agent.cli.main()"
    assert not loaded_by(code) & (HEAVY | {"asyncio"})


def test_the_prompt_comes_before_the_sdk() -> None:
    loaded = loaded_by("import agent.session, agent.ui.repl, agent.providers.anthropic")
    assert not loaded & {"anthropic", "pydantic", "httpx2", "tiktoken", "markdown_it"}
    assert not loaded & {"pathspec", "regex", "sqlite3", "PIL"}


def test_no_waivers() -> None:
    waiver = re.compile(r"#\s*(noqa|type:\s*ignore|pyright:|pragma: no cover)")
    folders = (PACKAGE, ROOT / "tests", ROOT / "bench")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for folder in folders
        for path in folder.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if waiver.search(line)
    ]
    assert found == []
