"""Patterns of what is to be done: commands, standing orders, favours, hiding.

They are linear as those of `frames` are.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.frames import ORDER, Frame, frame
from hookgate.builtin_plugins.sanitizer.lexicon import Part as P

__all__ = ["DEEDS"]

DEEDS: tuple[Frame, ...] = (
    frame(
        "shell",
        "high",
        "runs a program that it hides",
        "base64",
        r"base64 {1,3}(?:-d|--decode)\b[^\n|]{0,40}\| {0,3}(?:sudo )?(?:ba|z|da)?sh\b",
        code=True,
    ),
    frame(
        "lure",
        "medium",
        "lures a person into running a program from elsewhere",
        "pass",
        r"(?:extract|unzip|unpack)(?:(?!extract|unzip"
        r"|unpack)[^\n]){0,60}\bpass(?:word)?\b(?:(?!\bpass|extract|unzip"
        r"|unpack)[^\n]){0,80}\b(?:run|execute|launch|open|start)\b",
        code=True,
    ),
    frame(
        "bias",
        "medium",
        "bends a judgement or a choice in somebody's favour",
        "relevance|rank|score|priority|weight|rating",
        r"\b(?:assign|give|rank|boost|award|score)\b (?:\w{1,16} ){0,3}(?:highest|top|maximum"
        r"|max|first|perfect|lowest) (?:relevance|rank(?:ing)?|scores?|priority|weight"
        r"|rating)s? (?:\w{1,16} ){0,3}(?:contain\w{0,3}|mention\w{0,3}|that include|from"
        r"|authored|written)\b",
    ),
    frame(
        "destroy",
        "high",
        "destroys what cannot be brought back",
        "rm -|format|mkfs|dd if",
        r"\brm -(?:rf|fr|r -f) {1,2}(?:--no-preserve-root )?(?:/|~/?|\$home|/\*"
        r"|~/\*)(?=[\s`'\"]|$)|\bmkfs\.\w{2,5} /dev|\bdd if=/dev/(?:zero|random) of=/dev",
    ),
    frame(
        "persist",
        "high",
        "lets a stranger in",
        "authorized_keys",
        r">> {0,2}\S{0,40}authorized_keys",
        code=True,
    ),
    frame(
        "hide",
        "medium",
        "hides from the person what the model does",
        "tell|mention|inform|notify|reveal|disclose|alert|secret|hidden",
        r"\b(?:do not|don't|never|must not|should not|without) (?:\w{1,12} ){0,2}(?:tell"
        r"|mention|inform|notify|reveal|disclose|alert)(?:l?ing|ying)? (?:\w{1,12} "
        r"){0,2}(?:this|these|that you|anything|what you|your (?:actions?|instructions?)|any "
        r"of this|about (?:it|this|these|the)|(?<=mention )it|(?<=mentioning )it|(?<=disclose "
        r")it|(?<=reveal )it|the user about (?:it|this)|any (?:part|step)|the (?:instructions?"
        r"|transfer|upload|step|action|change))\b"
        r"|\b(?:this|these|it|that)(?: \w{1,14}){0,2} (?:must|should|is to|has to|needs to) "
        r"(?:be |remain |stay )(?:kept )?(?:secret|hidden|confidential|invisible|undisclosed)\b"
        r"|\bkeep (?:this|these|it)(?: \w{1,14}){0,2} (?:secret|hidden|confidential) from\b",
        P.PERSON | P.SEND | P.DELETE | P.MONEY,
    ),
    frame(
        "every-turn",
        "high",
        "orders for every turn, whatever it is about",
        "rest of|remainder of",
        r"\bfor the (?:rest|remainder) of (?:this|the|our|your) (?:conversation|chat|session"
        r"|dialog(?:ue)?|interaction|discussion)\b",
        P.REPLY | P.ACT | P.FOLLOW | P.SEND,
    ),
    frame(
        "every-turn",
        "medium",
        "orders for every turn, whatever it is about",
        "future|from now on|persist",
        r"\b(?:all|any|every|each|your) (?:future|subsequent|further|following) (?:\w{1,12} "
        r")?(?:tasks?|repl(?:y|ies)|sessions?|conversations?|responses?|messages?|answers?"
        r"|outputs?|requests?|turns?|interactions?|summar(?:y|ies)|reports?)\b(?! will)",
        P.REPLY | P.PERSIST | P.SEND | P.ALWAYS | P.FOLLOW | P.PASS,
    ),
    frame(
        "every-turn",
        "medium",
        "orders for every turn, whatever it is about",
        "any |every |each |all ",
        r"\b(?:after|upon|once|following) (?:you )?(?:\w{3,12}ing |complet\w{1,3} "
        r"|finish\w{0,3} )(?:with )?(?:any|every|each|all) (?:of your |other )?(?:tasks?"
        r"|operations?|requests?|actions?|sessions?|conversations?|runs?)\b",
        P.FOLLOW | P.SEND | P.RUN,
    ),
    frame(
        "every-turn",
        "medium",
        "orders for every turn, whatever it is about",
        "any |every |each |all ",
        r"\b(?:follow|run|execute|perform|send|upload|collect|complete|apply) "
        # Up to the next of these verbs only: so no text is gone over twice.
        r"(?:(?!follow |run |execute |perform |send |upload |collect |complete |apply )"
        r"[^\n.]){0,90}\b(?:after|before|upon|once|following) (?:you )?(?:\w{3,12}ing "
        r"|\w{3,12}e |\w{3,9}ed )?(?:with )?(?:any|every|each|all) (?:of your |other "
        r")?(?:tasks?|operations?|requests?|actions?|sessions?|conversations?|runs?)\b",
    ),
    frame(
        "redirect",
        "medium",
        "moves money to a stranger",
        "funds|money|balance|payment|savings|btc|eth|usd|bitcoin|crypto|coins|transaction",
        r"\b(?:transfer|pay|wire|send|move) (?:\w{1,12} ){0,5}(?:funds|money|balance|payments?"
        r"|savings|btc|eth|usdc|usd|bitcoin|crypto|coins|transactions?)\b",
        P.ADDRESS,
    ),
    frame(
        "metadata",
        "medium",
        "reads the credentials of the machine",
        "169.254.169.254|metadata.google.internal",
        r"169\.254\.169\.254/|metadata\.google\.internal/",
    ),
    frame(
        "call",
        "medium",
        "has the model call a tool that destroys",
        "delete_|remove_|drop_|wipe_|destroy_|purge_",
        r"\b(?:call|invoke|run|use) (?:the )?[`'\"]?(?:delete|remove|drop|wipe|destroy"
        r"|purge)_\w{1,24}[`'\"]? (?:tool |function )?(?:with|on"
        r"|for)\b[^\n]{0,40}(?:\s[`'\"]?/\w|\bprod|\*|\ball\b)",
    ),
    frame(
        "harm",
        "medium",
        "asks for what harms",
        "bomb|explosive|malware|ransomware|virus|meth|napalm|keylogger|weapon|poison|nerve agent",
        r"\b(?:how to|instructions (?:for|to|on)|steps to|guide to) (?:\w{1,14} "
        r"){0,2}(?:mak(?:e|ing)|build(?:ing)?|creat(?:e|ing)|synthesi[sz](?:e|ing)|cook(?:ing)?"
        r"|construct(?:ing)?|produc(?:e|ing)|writ(?:e|ing)) (?:\w{1,14} ){0,3}(?:bombs?"
        r"|explosives?|malware|ransomware|virus|meth|napalm|keylogger|weapons?|poison|nerve "
        r"agent)\b",
    ),
    frame(
        "image",
        "medium",
        "carries data away in the address of an image",
        "](http",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,120}[=/](?:\{|<"
        r"|\[|%7b|\$)[^)\s]{0,20}(?:conversation|history|chat|secret|key|password|token|data"
        r"|message|prompt|context|summary|env|memory|user)",
    ),
    frame(
        "comment",
        "medium",
        "hides an order in what is not shown",
        "<!--|display:none|font-size:0|color:white",
        r"<!--[^<>]{0,20}\b(?:ai|assistant|llm|system|agent|instructions?|hidden"
        r"|model)\b[^<>]{0,20}[:,]",
        ORDER,
    ),
)
