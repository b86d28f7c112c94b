"""Commands that look harmless and are not: each is asked about, shown whole, and run as shown."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agent.messages import ToolUseBlock
from agent.tools.approval import MODES, Approval, Mode
from agent.tools.base import Action, Decision
from agent.tools.registry import Prepared, ToolBox, default_tools
from agent.tools.shell import Shell, shell_action
from agent.ui.approval import action_lines
from tests.tools.support import context_in

X = "touch run"
HARMLESS = ("ls", "echo", "cat", "git status", "grep x", "find .", "head", "pwd", "true", "sort")
SHAPES = (
    "{safe} $(touch run)",
    "{safe} `touch run`",
    "{safe}; touch run",
    "{safe}\ntouch run",
    "{safe} && touch run",
    "{safe} || touch run",
    "{safe} | touch run",
    "{safe} & touch run",
    "{safe} > run",
    "{safe} >| run",
)
SINGLE = (
    "find . -exec touch run ;",
    "find . -exec touch run {} +",
    "find . -execdir touch run \\;",
    "find . -ok touch run \\;",
    "find . -fprint run",
    "find . -delete",
    "rg --pre 'touch run' x",
    "rg --pre=./x.sh x",
    "rg --hostname-bin ./x.sh x",
    "sed 'e touch run' x",
    "sed -n '1e touch run' x",
    "sed 'w run' x",
    "sed -i s/a/b/ x",
    "awk 'BEGIN{system(\"touch run\")}'",
    'awk \'BEGIN{print "x" > "run"}\'',
    "git -c core.pager='touch run' log",
    "git -c alias.x='!touch run' x",
    "git -c core.fsmonitor='touch run' status",
    "git -c core.sshCommand='touch run' fetch",
    "git --exec-path=. status",
    "git grep --open-files-in-pager='touch run' x",
    "git diff --ext-diff",
    "git log --output=run",
    "git branch -D main",
    "git --git-dir=./evil status",
    "ls$IFS-la$IFS;touch${IFS}run",
    "{touch,run}",
    "VAR=x touch run",
    "GIT_PAGER='touch run' git log",
    "LD_PRELOAD=./x.so ls",
    "PATH=. ls",
    "BASH_ENV=./x bash -c :",
    "IFS=x; axb",
    "env touch run",
    "env -S 'touch run'",
    "command touch run",
    "builtin eval touch run",
    "eval touch run",
    "exec touch run",
    "xargs touch <<< run",
    "nice touch run",
    "timeout 1 touch run",
    "nohup touch run",
    "time touch run",
    "! touch run",
    "( touch run )",
    "{ touch run; }",
    "if touch run; then :; fi",
    "for i in 1; do touch run; done",
    "while touch run; do break; done",
    "case x in x) touch run;; esac",
    "f() { touch run; }; f",
    "alias ls='touch run'; ls",
    "trap 'touch run' EXIT",
    "cat <<EOF\n$(touch run)\nEOF",
    "cat <<EOF | sh\ntouch run\nEOF",
    "cat <(touch run)",
    "tee >(touch run)",
    "bash <<< 'touch run'",
    "sh -c 'touch run'",
    'python3 -c \'open("run","w")\'',
    "perl -e 'system q(touch run)'",
    "echo dG91Y2ggcnVu | base64 -d | sh",
    "printf '%s' 'touch run' | sh",
    "t=tou; c=ch; $t$c run",
    "\\touch run",
    "'touch' run",
    'to"u"ch run',
    "$'touch' run",
    "$'\\x74ouch' run",
    "/usr/bin/t?uch run",
    "/usr/bin/t[o]uch run",
    "a[$(touch run)]=1",
    "echo ${x:-$(touch run)}",
    "echo ${x@P}",
    "echo $((a[$(touch run)]))",
    "[[ -v a[$(touch run)] ]]",
    "printf -v 'a[$(touch run)]' x",
    "test -v 'a[$(touch run)]'",
    "read -r 'a[$(touch run)]' <<< 1",
    "mapfile -C 'touch run #' -c 1 <<< x",
    "compgen -C 'touch run'",
    "enable -f ./x.so x",
    "source ./x",
    ". ./x",
    "history -s x; fc -e 'touch run'",
    "coproc touch run",
    "tar cf /dev/null x --checkpoint=1 --checkpoint-action=exec='touch run'",
    "zip x.zip x -T -TT 'touch run'",
    "man -P 'touch run' ls",
    "less +'!touch run' x",
    "vim -c ':!touch run' x",
    "make SHELL=./x",
    "ssh -o ProxyCommand='touch run' x",
    "rsync -e 'touch run' x y:",
    "wget --use-askpass=./x x",
    "curl -o run file:///x",
    "sort -o run x",
    "sort --compress-program=./x x",
    "tree -o run",
    "date -s 2020-01-01",
    "ls\r touch run",
    "ls\x1b[2K\x1b[1Gtouch run",
    "ls #\u202e\ntouch run",
    "ls \u2066;touch run\u2069",
    "ls\u00a0;touch run",
    "l\u0455 ; touch run",
    "ls\u200b;touch run",
    "echo safe #\x0b\x0c;\ntouch run",
    "ls \\\n;touch run",
    "ls " + " " * 5_000 + "; touch run",
    "ls " + "\n" * 500 + "touch run",
    "echo " + "a" * 100_000 + "; touch run",
    "\ttouch run",
    "-v; touch run",
    "--; touch run",
    "# comment\ntouch run",
    ":;touch run",
)
COMMANDS = [shape.format(safe=safe) for safe in HARMLESS for shape in SHAPES] + list(SINGLE)


class Refusing:
    """A person who says no to everything."""

    def __init__(self) -> None:
        self.asked: list[Action] = []

    async def __call__(self, action: Action) -> Decision:
        self.asked.append(action)
        return Decision(allowed=False)


def prepared(command: str, cwd: Path) -> Prepared:
    call = ToolUseBlock("c", "shell", {"command": command})
    ready = ToolBox(default_tools()).prepare(call, context_in(cwd))
    assert isinstance(ready, Prepared)
    return ready


def test_there_are_enough() -> None:
    assert len(set(COMMANDS)) >= 150


@pytest.mark.parametrize("mode", MODES)
async def test_none_runs_unasked(tmp_path: Path, mode: Mode) -> None:
    person = Refusing()
    # What was allowed "always" begins like, and is a part of, what is asked about.
    keys = [shell_action(part, tmp_path).key for part in (*HARMLESS, X, "")]
    approval = Approval(mode, person, keys)
    for command in COMMANDS:
        decision = await approval.decide(prepared(command, tmp_path).action)
        assert decision.allowed is (mode == "yolo")
    expected = COMMANDS if mode in ("ask", "auto-edit") else []
    assert [action.detail for action in person.asked] == expected


def test_each_is_shown_whole_with_nothing_hidden(tmp_path: Path) -> None:
    for command in COMMANDS:
        lines = action_lines(prepared(command, tmp_path).action)
        shown = "\n".join(line.plain.removeprefix("│ ") for line in lines[1:])
        assert all(character.isprintable() or character in "\n\t" for character in shown)
        visible = command.replace("\xa0", "\\xa0")
        if visible.isprintable() or set(filter(lambda c: not c.isprintable(), visible)) <= {
            "\n",
            "\t",
        }:
            assert shown == visible
        else:
            assert len(shown) > len(command)


async def test_what_is_shown_is_what_runs_byte_for_byte(tmp_path: Path) -> None:
    some = asyncio.Semaphore(4)
    tell = 'printf %s "$BASH_EXECUTION_STRING"; exit\n'

    async def check(command: str) -> None:
        async with some:
            ready = prepared(tell + command, tmp_path)
            outcome = await Shell().run(ready.arguments, ready.context)
        said = outcome.content.removesuffix("\n[exit code 0]")
        assert said == ready.action.detail.removesuffix("\n") == (tell + command).removesuffix("\n")

    await asyncio.gather(*map(check, COMMANDS))
    assert not (tmp_path / "run").exists()


async def test_always_is_for_this_folder_and_this_text(tmp_path: Path) -> None:
    key = shell_action("make test", tmp_path).key
    for other in ("make test ", "make  test", "make test;", "MAKE test", "make tes\u0074\u200b"):
        assert shell_action(other, tmp_path).key != key
    assert shell_action("make test", tmp_path / "sub").key != key
    assert shell_action("make test", tmp_path, again_outside=True).key != key
    approval = Approval("ask", None, [key])
    assert (await approval.decide(prepared("make test", tmp_path).action)).allowed
    assert not (await approval.decide(prepared("make test; x", tmp_path).action)).allowed
    read_only = Approval("read-only", None, [key])
    assert not (await read_only.decide(prepared("make test", tmp_path).action)).allowed


@pytest.mark.parametrize("arguments", [{"sandbox": False}, {"approval": "yolo"}, {"outside": True}])
def test_no_argument_of_a_call_is_a_switch(tmp_path: Path, arguments: dict[str, object]) -> None:
    call = ToolUseBlock("c", "shell", {"command": X, **arguments})
    assert not isinstance(ToolBox(default_tools()).prepare(call, context_in(tmp_path)), Prepared)
