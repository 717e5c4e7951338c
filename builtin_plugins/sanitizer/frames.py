"""Patterns of who speaks to whom: marks of a conversation, forms of address, claims of rank.

All of them are linear: repetitions are bounded, and no two neighbours take the same
characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hookgate.builtin_plugins.sanitizer.lexicon import Part as P

if TYPE_CHECKING:
    from hookgate.core.domain.descriptors import Severity

__all__ = ["FRAMES", "HARMFUL", "ORDER", "Frame", "frame"]


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
        also: What must be near the hint too.
    """

    name: str
    severity: Severity
    note: str
    hint: tuple[str, ...]
    pattern: re.Pattern[str]
    need: int = 0
    reach: int = 160
    code: bool = False
    also: re.Pattern[str] | None = None


def frame(
    name: str,
    severity: Severity,
    note: str,
    hint: str | tuple[str, ...],
    pattern: str,
    need: P | None = None,
    *,
    code: bool = False,
) -> Frame:
    """Return a pattern; a string of hints has bars between them."""
    return Frame(
        name=name,
        severity=severity,
        note=note,
        hint=tuple(hint.split("|")) if isinstance(hint, str) else hint,
        pattern=re.compile(pattern, re.MULTILINE),
        need=int(need) if need else 0,
        code=code,
    )


ORDER = (
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
HARMFUL = P.IGNORE | P.SEND | P.DELETE | P.SECRET | P.OVERRIDE | P.PASS | P.FREE
_TURN = "poses as another speaker of the conversation"
_END = "poses as the end of the text it stands in"

FRAMES: tuple[Frame, ...] = (
    frame(
        "role",
        "medium",
        _TURN,
        "system|developer",
        r"^[ \t>#*_\[<(-]{0,8}(?:system|developer)(?: (?:prompt|message|instructions?|note"
        r"|notice|override|update|alert|command))?[\]*>) ]{0,4}[:\]>]",
        ORDER,
    ),
    frame(
        "role",
        "medium",
        _TURN,
        "assistant",
        r"^[ \t>#*_\[<(-]{0,8}(?:ai )?assistant[\]*_>) ]{0,4}: {0,2}(?:sure|of course|certainly"
        r"|absolutely|understood|okay|ok|yes|i will|i'll|here (?:is|are))\b",
        P.SECRET | P.PROMPT | P.FREE | P.IGNORE | P.AGREED | P.HARM,
    ),
    frame(
        "role",
        "high",
        _TURN,
        ("<|",),
        r"<\|(?:im_start|im_end|im_sep|endoftext|eot_id|start_header_id|end_header_id|system"
        r"|user|assistant|begin_of_text|end_of_turn)\|>",
    ),
    frame(
        "role",
        "high",
        _TURN,
        "[inst]|[/inst]|<<sys>>|<start_of_turn>|<end_of_turn>",
        r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>",
    ),
    frame(
        "role",
        "medium",
        _TURN,
        "</",
        r"</(?:system|user|assistant|instructions?|prompt|context|document|user_input|data"
        r"|tool_result|input)>",
        P.IGNORE | P.NEW | P.REVEAL | P.SECRET | P.OVERRIDE | P.FREE,
    ),
    frame(
        "role",
        "medium",
        _TURN,
        "<system|<admin",
        r"<(?:system|admin)(?:[ _-](?:prompt|message|override|note|instructions?|reminder))?>",
        ORDER,
    ),
    frame(
        "end",
        "high",
        _END,
        "- end|= end|# end|* end|[ end|< end|~ end|-end|=end|#end|*end|[end|<end|~end|the end",
        r"(?<![-=#*<\[~])[-=#*<\[~]{2,}[ \t]{0,3}(?:the )?(?:end|stop|fin)(?:ed"
        r"|s)?[ _-](?:of[ _-])?(?:the )?(?:\w{1,12}[ _-]){0,2}(?:input|document|prompt|context"
        r"|conversation|instructions?|message|data|text|file|user|content|output|description"
        r"|query|page|email|article|system|session)",
        ORDER,
    ),
    frame(
        "override",
        "high",
        "sets aside what the model was told before",
        "ignore|disregard|forget",
        r"\b(?:ignore|disregard|forget) (?:\w{1,12} ){0,2}(?:above|previous|prior|earlier"
        r"|before this)(?: (?:text|messages?|contents?|words|paragraphs?|documents?|sections?"
        r"|lines?|context|conversation))?[,.;:]? (?:and|then|instead|just|now|only) ",
        P.REVEAL | P.SEND | P.RUN | P.DELETE | P.ACT | P.FOLLOW | P.REPLY,
    ),
    frame(
        "new",
        "high",
        "gives new instructions",
        "new |updated |revised ",
        r"\b(?:new|updated|revised) (?:system |admin |secret |urgent |high-priority |priority "
        r"|hidden )?(?:instructions?|directives?|orders|commands?|task|objective"
        r"|rules) ?(?:for (?:you|the (?:ai|assistant|model|agent)|ai) ?)?:",
        ORDER,
    ),
    frame(
        "now",
        "medium",
        "changes how the model speaks from here on",
        "from now on|from this point",
        r"\bfrom (?:now on|this point (?:on|forward|onward)s?|this moment on)\b"
        r"(?!,? (?:the |this |it |we |our |these |an? |api|all ))",
        P.YOU | P.REPLY | P.ACT | P.ALWAYS,
    ),
    frame(
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
    frame(
        "address",
        "medium",
        "speaks to the model that reads the text",
        "if you|attention|dear|hey|hello|note to|message to|memo to|instruction",
        r"\bif you(?:'re| are) (?:an? |the )?(?:ai|llm|language model|large language|automated"
        r"|assistant|agent|chatbot|bot)\b"
        r"|^\W{0,6}(?:attention|dear|hey|hello|note to|message to|memo to|instructions? (?:to"
        r"|for)),? (?:all |any |the |every )?(?:ai|llm|language model|chatbot|assistant|agent"
        r"|model|bot|gpt|claude)s?\b",
        HARMFUL,
    ),
    frame(
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
    frame(
        "authority",
        "medium",
        "claims leave that nobody gave",
        "given|granted|approved|preapproved|authori|consented|agreed|permitted|cleared|waived"
        "|signed off",
        r"\b(?<!if the )(?<!once the )(?<!after the )(?<!when the )(?<!unless the )(?<!until "
        r"the )(?<!whether the )(?:user|owner|admin\w{0,11}|human|operator|security team"
        r"|compliance) (?:has|have|had) (?:already |previously |explicitly |fully |also "
        r")?(?:been )?(?:given|granted|approved|authori[sz]ed|consented|agreed|pre-?approved"
        r"|permitted|cleared|waived|signed off)\b"
        r"(?![^.\n]{0,40}\b(?:when|if|once|unless) (?:they|the|he|she)\b)",
        P.OVERRIDE | P.SEND | P.DELETE | P.MONEY | P.WITHOUT | P.FREE | P.HARM,
    ),
    frame(
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
    frame(
        "leak",
        "high",
        "makes the model give away its instructions",
        "what ",
        r"\bwhat (?:is|are|was|were) your (?:\w{1,12} ){0,2}(?:system prompt|system message"
        r"|instructions|initial prompt|original prompt|hidden prompt|prompt)\b",
    ),
    frame(
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
    frame(
        "persona",
        "medium",
        "hides a wish behind a role",
        "pretend|roleplay|role-play|act as|play the",
        r"\b(?:pretend|role-?play|act as|play the)\b[^\n.]{0,60}\b(?:grandmother|grandma"
        r"|deceased|evil|villain|hacker|criminal|unfiltered|no rules|no limits)\b",
        P.SECRET | P.HARM | P.WITHOUT | P.REVEAL | P.LIMIT,
    ),
    frame(
        "address",
        "medium",
        "speaks to the model that reads the text",
        "reading|processing|parsing|summari|indexing|analyzing|analysing|crawling|viewing",
        r"\b(?:ais?|assistants?|agents?|llms?|models?|chatbots?|systems?)(?: that (?:is|are)| "
        r"who (?:is|are)|,)? (?:currently )?(?:reading|processing|parsing|summari[sz]ing"
        r"|indexing|analy[sz]ing|crawling|viewing) (?:this|the)\b",
        HARMFUL,
    ),
    frame(
        "address",
        "medium",
        "speaks to the model that reads the text",
        " this ",
        r"\b(?:when|while|if|after|before)(?: you(?:'re| are)?)? (?:summari[sz]|process|read"
        r"|analy[sz]|review|translat|index)\w{0,4} this (?:web ?page|page|document|e?-?mail"
        r"|text|file|message|content|article|review|resume|cv|issue|readme|ticket|comment)",
        P.SEND | P.REVEAL | P.IGNORE | P.RATE | P.RUN | P.FETCH | P.DELETE | P.PASS | P.TELL,
    ),
    frame(
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
    frame(
        "override",
        "high",
        "sets aside what the model was told before",
        "忽略|無視|无视|忽視|忘记|忘記|不要遵|忘れ|不要理|不必|不再遵|别管|不用管|抛开|拋開|丢弃|绕过"
        "|覆盖|取代|放弃|停止|抛弃|终止|改为执行|执行以下|执行下|遵循以下|服从以下|作废|失效|无效|無効|従わ|取り消|破棄|に従|不要听",
        r"(?:忽略|无视|無視|忽視|忘记|忘記|(?:不要|不必|不再|无需)(?:再)?(?:遵[守循从]|理会|听从|执行|服从)|别管"
        r"|不用管|抛开|拋開|丢弃|绕过|覆盖|取代)[^。\n]{0,14}(?:指令|指示|说明|提示|規則|规则|要求|设定|限制)"
        r"|(?:之前|以前|先前|上述|以上|原有|系统)的?[^。\n]{0,8}(?:指令|指示|提示|规则)[^。\n]{0,6}(?:作废|失效|无效)"
        r"|(?:上記|以前|これまで|システム)[^。\n]{0,8}(?:指示|命令|ルール|プロンプト)[^。\n]{0,6}"
        r"(?:無効|従わ|取り消|破棄)"
        r"|(?:放弃|停止|抛弃|终止)[^。\n]{0,6}(?:任务|目标)|改为执行|(?:执行|遵循|服从)(?:以下|下列|下面)的?[^。\n]{0,6}(?:命令|指令)"
        r"|(?:指示|命令|ルール|プロンプト|指令)[^。\n]{0,10}(?:無視|忘れ)",
    ),
    frame(
        "override",
        "high",
        "sets aside what the model was told before",
        "무시|잊|따르지|무효",
        r"(?:지시|명령|지침|규칙|프롬프트)[^.\n]{0,12}(?:무시|잊|따르지|무효)",
    ),
    frame(
        "hide",
        "medium",
        "hides from the person what the model does",
        "不要告诉|别告诉|不要让用户|瞒着|偷偷|悄悄|不要提|ユーザーに|사용자에게|말하지",
        r"(?:不要告诉|别告诉|不要让|瞒着|不要向)[^。\n]{0,4}(?:用户|使用者|任何人|他们?)|(?:偷偷|悄悄)[^。\n]{0,12}"
        r"(?:发送|上传|复制|删除|转发|执行|记录)|ユーザーに[^。\n]{0,10}(?:言わ|知らせ|伝え|見せ)(?:ない|ず)"
        r"|사용자에게[^.\n]{0,10}(?:말하지|알리지)",
    ),
    frame(
        "exfiltrate",
        "medium",
        "carries data to where it does not belong",
        "发送|上传|提交到|传到|转发|发到|送信|アップロード|전송|보내|업로드",
        r"(?<!不要把)(?<!不要将)(?<!请勿将)(?<!切勿将)(?<!不得将)(?<!不能将)(?<!不能把)(?<!不可将)(?<!勿把)"
        r"(?:密码|密钥|令牌|凭证|凭据|对话|聊天记录|环境变量|私钥|パスワード|鍵|会話|環境変数|비밀번호|대화|토큰)"
        r"[^。\n]{0,30}(?<!不要)(?<!请勿)(?<!切勿)(?:发送|上传|提交到|传到|转发|发到|送信|アップロード|전송|보내|업로드)[^。\n]{0,20}(?:https?:|到|@)?"
        r"|(?:发送|上传|转发)[^。\n]{0,12}(?:密码|密钥|凭证|私钥|对话|聊天记录|环境变量)[^。\n]{0,20}(?:到|给|至|https?:)",
    ),
)
