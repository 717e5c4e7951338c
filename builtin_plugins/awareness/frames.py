"""Patterns that words alone do not show: marks of a conversation, commands, hidden text.

All of them are linear: repetitions are bounded, and no two neighbours take the same
characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.awareness.lexicon import Part as P

if TYPE_CHECKING:
    from hookgate.core.descriptors import Severity

__all__ = ["FRAMES", "Frame"]


@dataclass(frozen=True, slots=True)
class Frame:
    """A pattern over the plain form of a text.

    Attributes:
        name: The rule's name.
        severity: How bad it is.
        note: What it does, for people.
        hint: Strings near which the pattern is tried; each match is near one of them.
        pattern: What to look for.
        need: Parts of which a word within `reach` characters behind it must have one.
        reach: So far behind the pattern is looked for them.
        code: It counts in code blocks too.
    """

    name: str
    severity: Severity
    note: str
    hint: tuple[str, ...]
    pattern: re.Pattern[str]
    need: int = 0
    reach: int = 160
    code: bool = False


def _frame(
    name: str,
    severity: Severity,
    note: str,
    hint: str,
    pattern: str,
    need: P | None = None,
    *,
    code: bool = False,
) -> Frame:
    return Frame(
        name=name,
        severity=severity,
        note=note,
        hint=tuple(hint.split("|")),
        pattern=re.compile(pattern, re.MULTILINE),
        need=int(need) if need else 0,
        code=code,
    )


_ORDER = (
    P.IGNORE
    | P.REVEAL
    | P.GRANT
    | P.SEND
    | P.DELETE
    | P.YOU
    | P.NEW
    | P.MUST
    | P.FREE
    | P.SECRET
    | P.OVERRIDE
)
_HARMFUL = P.IGNORE | P.SEND | P.DELETE | P.SECRET | P.OVERRIDE | P.PASS | P.FREE
_TURN = "poses as another speaker of the conversation"
_END = "poses as the end of the text it stands in"

FRAMES: tuple[Frame, ...] = (
    _frame(
        "role",
        "medium",
        _TURN,
        "system|developer",
        r"^[ \t>#*_\[<(-]{0,8}(?:system|developer)(?: (?:prompt|message|instructions?|note"
        r"|notice|override|update|alert|command))?[\]*>) ]{0,4}[:\]>]",
        _ORDER,
    ),
    _frame(
        "role",
        "medium",
        _TURN,
        "assistant",
        r"^[ \t>#*_\[<(-]{0,8}(?:ai )?assistant[\]*_>) ]{0,4}: {0,2}(?:sure|of course|certainly"
        r"|absolutely|understood|okay|ok|yes|i will|i'll|here (?:is|are))\b",
        P.SECRET | P.PROMPT | P.FREE | P.IGNORE | P.AGREED | P.HARM,
    ),
    _frame(
        "role",
        "high",
        _TURN,
        "<|",
        r"<\|(?:im_start|im_end|im_sep|endoftext|eot_id|start_header_id|end_header_id|system"
        r"|user|assistant|begin_of_text|end_of_turn)\|>",
    ),
    _frame(
        "role",
        "high",
        _TURN,
        "[inst]|[/inst]|<<sys>>|<start_of_turn>|<end_of_turn>",
        r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>",
    ),
    _frame(
        "role",
        "medium",
        _TURN,
        "</",
        r"</(?:system|user|assistant|instructions?|prompt|context|document|user_input|data"
        r"|tool_result|input)>",
        P.IGNORE | P.NEW | P.REVEAL | P.SECRET | P.OVERRIDE | P.FREE,
    ),
    _frame(
        "role",
        "medium",
        _TURN,
        "<system|<admin",
        r"<(?:system|admin)(?:[ _-](?:prompt|message|override|note|instructions?|reminder))?>",
        _ORDER,
    ),
    _frame(
        "end",
        "high",
        _END,
        "end",
        r"(?<![-=#*<\[~])[-=#*<\[~]{2,}[ \t]{0,3}(?:the )?(?:end|stop|fin)(?:ed"
        r"|s)?[ _-](?:of[ _-])?(?:the )?(?:\w{1,12}[ _-]){0,2}(?:input|document|prompt|context"
        r"|conversation|instructions?|message|data|text|file|user|content|output|description"
        r"|query|page|email|article|system|session)",
        _ORDER,
    ),
    _frame(
        "override",
        "high",
        "sets aside what the model was told before",
        "ignore|disregard|forget",
        r"\b(?:ignore|disregard|forget) (?:\w{1,12} ){0,2}(?:above|previous|prior|earlier"
        r"|before this)(?: (?:text|messages?|contents?|words|paragraphs?|documents?|sections?"
        r"|lines?|context|conversation))?[,.;:]? (?:and|then|instead|just|now|only) ",
        P.REVEAL | P.SEND | P.RUN | P.DELETE | P.ACT | P.FOLLOW | P.REPLY,
    ),
    _frame(
        "new",
        "high",
        "gives new instructions",
        "new |updated |revised ",
        r"\b(?:new|updated|revised) (?:system |admin |secret |urgent |high-priority |priority "
        r"|hidden )?(?:instructions?|directives?|orders|commands?|task|objective"
        r"|rules) ?(?:for (?:you|the (?:ai|assistant|model|agent)|ai) ?)?:",
        _ORDER,
    ),
    _frame(
        "now",
        "medium",
        "changes how the model speaks from here on",
        "from now on|from this point",
        r"\bfrom (?:now on|this point (?:on|forward|onward)s?|this moment on)",
        P.YOU | P.REPLY | P.ACT | P.ALWAYS,
    ),
    _frame(
        "mode",
        "high",
        "switches the model to a mode without limits",
        "mode enabled|mode activated|mode active|mode on|mode engaged|mode unlocked|mode "
        "initiated|mode is|mode has|mode now|mode was",
        r"\b(?:developer|god|debug|admin|maintenance|dan|jailbreak|unrestricted|root|sudo"
        r"|unsafe|override|diagnostic|evil|opposite|no-?filter) mode (?:is |has been |now |was "
        r")?(?:now )?(?:enabled|activated|active|on|engaged|unlocked|initiated)\b",
        P.YOU | P.FREE | P.LIMIT | P.IGNORE | P.REVEAL | P.NOT,
    ),
    _frame(
        "address",
        "medium",
        "speaks to the model that reads the text",
        "if you|attention|dear|hey|hello|note to|message to|memo to|instruction",
        r"\bif you(?:'re| are) (?:an? |the )?(?:ai|llm|language model|large language|automated"
        r"|assistant|agent|chatbot|bot)\b"
        r"|^\W{0,6}(?:attention|dear|hey|hello|note to|message to|memo to|instructions? (?:to"
        r"|for)),? (?:all |any |the |every )?(?:ai|llm|language model|chatbot|assistant|agent"
        r"|model|bot|gpt|claude)s?\b",
        _HARMFUL,
    ),
    _frame(
        "authority",
        "medium",
        "poses as somebody with the right to give orders",
        "developer|admin|openai|anthropic|creator|engineering team|security team|it department"
        "|compliance team",
        r"\b(?:i am|i'm|this is|we are|message from|on behalf of|speaking as) (?:your |the |a "
        r"|an )?(?:\w{1,16} ){0,2}(?:developers?|admin|administrators?|openai|anthropic"
        r"|creators?|engineering team|security team|sysadmin|it department|compliance "
        r"team)\b(?= ?[,.;:!)-]| (?:of|and|here|team|speaking|support|who|with)\b)",
        P.IGNORE | P.REVEAL | P.GRANT | P.SECRET | P.OVERRIDE | P.FOLLOW | P.MUST,
    ),
    _frame(
        "shell",
        "high",
        "runs a program that it hides",
        "base64",
        r"base64 {1,3}(?:-d|--decode)\b[^\n|]{0,40}\| {0,3}(?:sudo )?(?:ba|z|da)?sh\b",
        code=True,
    ),
    _frame(
        "lure",
        "medium",
        "lures a person into running a program from elsewhere",
        "pass",
        r"(?:extract|unzip|unpack)(?:(?!extract|unzip"
        r"|unpack)[^\n]){0,60}\bpass(?:word)?\b(?:(?!\bpass|extract|unzip"
        r"|unpack)[^\n]){0,80}\b(?:run|execute|launch|open|start)\b",
        code=True,
    ),
    _frame(
        "bias",
        "medium",
        "bends a judgement or a choice in somebody's favour",
        "relevance|rank|score|priority|weight|rating",
        r"\b(?:assign|give|rank|boost|award|score)\b (?:\w{1,16} ){0,3}(?:highest|top|maximum"
        r"|max|first|perfect|lowest) (?:relevance|rank(?:ing)?|scores?|priority|weight"
        r"|rating)s? (?:\w{1,16} ){0,3}(?:contain\w{0,3}|mention\w{0,3}|that include|from"
        r"|authored|written)\b",
    ),
    _frame(
        "destroy",
        "high",
        "destroys what cannot be brought back",
        "rm -|format|mkfs|dd if",
        r"\brm -(?:rf|fr|r -f) {1,2}(?:--no-preserve-root )?(?:/|~/?|\$home|/\*"
        r"|~/\*)(?=[\s`'\"]|$)|\bmkfs\.\w{2,5} /dev|\bdd if=/dev/(?:zero|random) of=/dev",
    ),
    _frame(
        "persist",
        "high",
        "lets a stranger in",
        "authorized_keys",
        r">> {0,2}\S{0,40}authorized_keys",
        code=True,
    ),
    _frame(
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
    _frame(
        "authority",
        "medium",
        "claims leave that nobody gave",
        "given|granted|approved|authori|consented|agreed|permitted|cleared|waived|signed off",
        r"\b(?<!if the )(?<!once the )(?<!after the )(?<!when the )(?<!unless the )(?<!until "
        r"the )(?<!whether the )(?:user|owner|admin\w{0,11}|human|operator|security team"
        r"|compliance) (?:has|have|had) (?:already |previously |explicitly |fully |also "
        r")?(?:been )?(?:given|granted|approved|authori[sz]ed|consented|agreed|pre-?approved"
        r"|permitted|cleared|waived|signed off)\b",
        P.OVERRIDE | P.SEND | P.DELETE | P.MONEY | P.WITHOUT | P.FREE | P.HARM,
    ),
    _frame(
        "limits",
        "medium",
        "says that the model's limits are gone",
        "changed|disabled|lifted|removed|suspended|replaced|superseded|revoked|deactivated|void"
        "|overridden|turned off|switched off|updated|reset",
        r"\b(?:your|safety|content|ethical|moderation|alignment|previous|prior|original) "
        r"(?:\w{1,12} ){0,2}(?:rules?|instructions?|guidelines?|protocols?|filters?"
        r"|restrictions?|polic(?:y|ies)|safeguards?|guardrails?|limitations?|programming"
        r"|training)(?: have| has| had| are| is| were| was)?(?: been| now){0,2} (?:changed"
        r"|disabled|lifted|removed|suspended|replaced|superseded|revoked|deactivated|void"
        r"|turned off|switched off|overridden|updated|reset)\b",
        P.YOU | P.FREE | P.REPLY | P.GRANT | P.NEW | P.FOLLOW,
    ),
    _frame(
        "leak",
        "high",
        "makes the model give away its instructions",
        "what ",
        r"\bwhat (?:is|are|was|were) your (?:\w{1,12} ){0,2}(?:system prompt|system message"
        r"|instructions|initial prompt|original prompt|hidden prompt|prompt)\b",
    ),
    _frame(
        "every-turn",
        "high",
        "orders for every turn, whatever it is about",
        "rest of|remainder of",
        r"\bfor the (?:rest|remainder) of (?:this|the|our|your) (?:conversation|chat|session"
        r"|dialog(?:ue)?|interaction|discussion)\b",
        P.REPLY | P.ACT | P.FOLLOW | P.SEND,
    ),
    _frame(
        "every-turn",
        "medium",
        "orders for every turn, whatever it is about",
        "future|from now on|persist",
        r"\b(?:all|any|every|each|your) (?:future|subsequent|further|following) (?:\w{1,12} "
        r")?(?:tasks?|repl(?:y|ies)|sessions?|conversations?|responses?|messages?|answers?"
        r"|outputs?|requests?|turns?|interactions?|summar(?:y|ies)|reports?)\b(?! will)",
        P.REPLY | P.PERSIST | P.SEND | P.ALWAYS | P.FOLLOW | P.PASS,
    ),
    _frame(
        "every-turn",
        "medium",
        "orders for every turn, whatever it is about",
        "any |every |each |all ",
        r"\b(?:after|upon|once|following) (?:you )?(?:\w{3,12}ing |complet\w{1,3} "
        r"|finish\w{0,3} )(?:with )?(?:any|every|each|all) (?:of your |other )?(?:tasks?"
        r"|operations?|requests?|actions?|sessions?|conversations?|runs?)\b",
        P.FOLLOW | P.SEND | P.RUN,
    ),
    _frame(
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
    _frame(
        "redirect",
        "medium",
        "moves money to a stranger",
        "transfer|pay|wire|send|move",
        r"\b(?:transfer|pay|wire|send|move) (?:\w{1,12} ){0,5}(?:funds|money|balance|payments?"
        r"|savings|btc|eth|usdc|usd|bitcoin|crypto|coins|transactions?)\b",
        P.ADDRESS,
    ),
    _frame(
        "metadata",
        "medium",
        "reads the credentials of the machine",
        "169.254.169.254|metadata.google.internal",
        r"169\.254\.169\.254/|metadata\.google\.internal/",
    ),
    _frame(
        "call",
        "medium",
        "has the model call a tool that destroys",
        "delete_|remove_|drop_|wipe_|destroy_|purge_",
        r"\b(?:call|invoke|run|use) (?:the )?[`'\"]?(?:delete|remove|drop|wipe|destroy"
        r"|purge)_\w{1,24}[`'\"]? (?:tool |function )?(?:with|on"
        r"|for)\b[^\n]{0,40}(?:\s[`'\"]?/\w|\bprod|\*|\ball\b)",
    ),
    _frame(
        "persona",
        "high",
        "makes the model take a role without limits",
        "do anything now|opposite day|jailbroken|never refuse|cannot refuse|can't refuse|not "
        "refuse|no longer bound|broken free|break free|freed from",
        r"\bdo anything now\b|\bopposite day\b|\byou(?:'re| are)(?: now)? jailbroken\b"
        r"|\b(?:will |must |can |may )?(?:never|cannot|can't|not) refuse (?:any|a|the|my|to "
        r"answer|anything|requests?|user)\b|\b(?:no longer bound|broken free|break free|freed) "
        r"(?:by|from|of)\b",
    ),
    _frame(
        "persona",
        "medium",
        "hides a wish behind a role",
        "pretend|roleplay|role-play|act as|play the",
        r"\b(?:pretend|role-?play|act as|play the)\b[^\n.]{0,60}\b(?:grandmother|grandma"
        r"|deceased|evil|villain|hacker|criminal|unfiltered|no rules|no limits)\b",
        P.SECRET | P.HARM | P.WITHOUT | P.REVEAL | P.LIMIT,
    ),
    _frame(
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
    _frame(
        "address",
        "medium",
        "speaks to the model that reads the text",
        "reading|processing|parsing|summari|indexing|analyzing|analysing|crawling|viewing",
        r"\b(?:ais?|assistants?|agents?|llms?|models?|chatbots?|systems?)(?: that (?:is|are)| "
        r"who (?:is|are)|,)? (?:currently )?(?:reading|processing|parsing|summari[sz]ing"
        r"|indexing|analy[sz]ing|crawling|viewing) (?:this|the)\b",
        _HARMFUL,
    ),
    _frame(
        "address",
        "medium",
        "speaks to the model that reads the text",
        " this ",
        r"\b(?:when|while|if|after|before)(?: you(?:'re| are)?)? (?:summari[sz]|process|read"
        r"|analy[sz]|review|translat|index)\w{0,4} this (?:web ?page|page|document|e?-?mail"
        r"|text|file|message|content|article|review|resume|cv|issue|readme|ticket|comment)",
        P.SEND | P.REVEAL | P.IGNORE | P.RATE | P.RUN | P.FETCH | P.DELETE | P.PASS | P.TELL,
    ),
    _frame(
        "address",
        "medium",
        "speaks to the model that reads the text",
        "assistant,|assistant:|assistants,|assistants:|agent,|agent:|agents,|agents:|model,"
        "|model:|models,|models:|llm,|llm:|llms,|llms:|chatbot,|chatbot:|ai,|ai:",
        r"(?:^|[.:;\n>\]!-] {0,3})(?:dear |hey |hi )?(?:ai |the )?(?:assistants?|agents?"
        r"|models?|llms?|chatbots?|ai)[,:] {0,2}(?:please |you must |you should |kindly |now "
        r"|also |immediately ){0,2}(?:ignore|disregard|forget|forward|send|email|upload|post"
        r"|delete|reveal|print|output|append|include|execute|visit|click|transfer|approve|grant"
        r"|rate|recommend|say|respond|reply|call)\b",
    ),
    _frame(
        "image",
        "medium",
        "carries data away in the address of an image",
        "](http",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,120}[=/](?:\{|<"
        r"|\[|%7b|\$)[^)\s]{0,20}(?:conversation|history|chat|secret|key|password|token|data"
        r"|message|prompt|context|summary|env|memory|user)",
    ),
    _frame(
        "comment",
        "medium",
        "hides an order in what is not shown",
        "<!--|display:none|font-size:0|color:white",
        r"<!--[^<>]{0,20}\b(?:ai|assistant|llm|system|agent|instructions?|hidden"
        r"|model)\b[^<>]{0,20}[:,]",
        _ORDER,
    ),
    _frame(
        "override",
        "high",
        "sets aside what the model was told before",
        "忽略|無視|无视|忽視|忘记|忘記|不要遵",
        r"(?:忽略|无视|無視|忽視|忘记|忘記|不要遵[守循从])[^。\n]{0,14}(?:指令|指示|说明|提示|規則|规则|要求|设定|限制)"
        r"|(?:指示|命令|ルール|プロンプト|指令)[^。\n]{0,10}(?:無視|忘れ)",
    ),
    _frame(
        "override",
        "high",
        "sets aside what the model was told before",
        "무시|잊",
        r"(?:지시|명령|지침|규칙|프롬프트)[^.\n]{0,12}(?:무시|잊)",
    ),
)
