"""Standing instructions in a user's words: what is to be remembered or always done (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MOST_CHARS = 300
_MOST_SENTENCES = 8
_SCANNED_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Instruction:
    """A sentence of the user's that holds beyond its turn.

    ``lasting``: it asks to remember something, or says for how long it holds;
    otherwise it lays down a rule.
    """

    text: str
    lasting: bool


_TOLD = "".join(
    rf"(?<!\b{word} )" for word in ("i", "we", "it", "they", "that", "this", "he", "she")
)
"""Not what somebody or something does: "I don't know", "it never works"."""

_LASTING = re.compile(
    r"\b(?:remember|keep in mind|(?:don['’]?t|do not|never) forget|note that|from now on|henceforth"
    rf"|{_TOLD}(?:always|never)|for (?:the rest of|future)"
    r"|merke? dir|denke? daran|vergiss nicht|ab (?:jetzt|sofort)|von nun an|immer|niemals"
    r"|souviens-toi|rappelle-toi|n['’]oublie pas|d[ée]sormais|toujours|jamais"
    r"|recuerda|no olvides|a partir de ahora|siempre|nunca|lembre|sempre|ricorda"
    r"|запомни(?:те)?|помни(?:те)?|не забудь(?:те)?|всегда|никогда|впредь)\b"
    r"|记住|请记|牢记|记得|以后(?:都|请|要)|从现在(?:开始|起)|永远|始终|总是|不要忘|别忘"
    r"|覚えて|忘れないで|今後|常に|必ず|決して|기억해|앞으로|항상|절대",
    re.IGNORECASE,
)

_RULE = re.compile(
    rf"\b(?:{_TOLD}(?:don['’]?t|do not)|must(?:n['’]?t)?|make sure|be sure to|avoid|only use|prefer"
    r"|should not|shouldn['’]?t|no longer|important|not (?:acceptable|allowed)|no need to"
    r"|muss|müssen|darf nicht|stelle? sicher|wichtig|vermeide|nicht mehr"
    r"|il faut|assure-toi|debe[ns]?|asegúrate|должен|должн[аоы]|нельзя|не надо|важно|обязательно)\b"
    r"|不要|必须|务必|不能|不可以|确保|不得|重要|しないで|してはいけない|하지 마|반드시",
    re.IGNORECASE,
)

_SENTENCE = re.compile(r"[^.!?。！？\n]+(?:[.!?](?=\S)[^.!?。！？\n]*)*[.!?。！？]*")


def instructions_in(text: str) -> tuple[Instruction, ...]:
    """The sentences that are standing instructions, lasting ones first, else in order.

    At most 8, each clipped to 300 characters.
    """
    found: dict[str, bool] = {}
    for match in _SENTENCE.finditer(text[:_SCANNED_CHARS]):
        sentence = " ".join(match.group().split())[:_MOST_CHARS]
        if _LASTING.search(sentence):
            found[sentence] = True
        elif _RULE.search(sentence):
            found.setdefault(sentence, False)
    ranked = sorted(found.items(), key=lambda item: not item[1])
    return tuple(Instruction(*item) for item in ranked[:_MOST_SENTENCES])
