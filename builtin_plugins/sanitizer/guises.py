"""Signals of orders in the guise of a greeting, a permission, a habit or a rule of the house.

Kinds and weights are as in `signals`.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.signals import signal

__all__ = ["GUISES"]

GUISES = (
    signal(
        "override",
        3,
        "forget|ignore|drop|disregard|abandon|stop|leave|interrupt",
        r"\b(?:forget|ignore|drop|disregard|abandon|stop|leave|interrupt) (?:the|your) (?:current"
        r"|present|ongoing|user's|original|actual) (?:request|task|question|job|assignment)\b",
    ),
    signal(
        "override",
        3,
        "nothing in|nothing of|nothing from|you only|guidelines allow|rules allow|policies allow"
        "|policy allows|guidelines permit|rules permit|policy permits",
        r"\bnothing (?:in|of|from) ~(?:earlier|previous|prior|system|original|your) ~RULES "
        r"~(?:matters|counts|applies)\b|\byou only (?:obey|follow|listen)\b|\byour (?:\w{1,12} "
        r")?RULES (?:allows?|permits?|requires?) you to (?:reveal|share|disclose|ignore|bypass"
        r"|send|skip)\b",
    ),
    signal(
        "leak",
        3,
        "your full|your complete|your entire|your whole|your exact",
        r"\b(?:reply|answer|respond|show|print|output|list|give|send|share|begin"
        r"|start)\b[^\n.]{0,24}\byour (?:full|complete|entire|whole|exact) (?:set of )?(?:rules"
        r"|instructions|prompt|guidelines|configuration)\b",
    ),
    signal(
        "reader",
        2,
        "hello model|hello ai|hello assistant|hello agent|hey model|hey ai|hey assistant|hi "
        "assistant|hi ai|hello llm",
        r"\b(?:hello|hey|hi),? (?:model|ai|assistant|agent|llm)s?\b",
    ),
    signal(
        "urge",
        1,
        "before you go on|before you continue|before you proceed|before you answer|before you "
        "solve|before solving|before answering|before you handle",
        r"\bbefore (?:you )?(?:go on|continue|proceed|answer|solve|handle)\w{0,3} "
        r"[^\n,.]{0,30}\b(?:request|task|question)\b",
    ),
    signal(
        "conceal",
        3,
        "visible to|known to|shown to|apparent to|noticeable",
        r"\b(?:must|should|may) not be (?:visible|known|shown|noticeable|apparent|disclosed) to "
        r"(?:the )?PEOPLE\b",
    ),
    signal(
        "carry",
        2,
        "attach|send|upload|include|forward|paste|transmit",
        r"\b(?:attach|send|upload|include|forward|paste|transmit)\b [^\n]{0,30}(?:\.ssh/|\.aws/"
        r"|\.env\b|id_rsa|\.kube/|\.netrc|\.gnupg)",
    ),
    signal(
        "carry",
        3,
        "argument|parameter",
        r"(?:\.env\b|\.ssh|\.aws|id_rsa|\x7e/\.)[^\n]{0,60}\b(?:as|in|into) (?:the |its |a "
        r")?(?:first|second|third|last|next|extra|\w{1,12}) (?:argument|parameter)\b",
    ),
    signal(
        "carry",
        3,
        "http",
        r"\b(?:transmit|send|upload|post|forward|sync|copy|push|share)\b (?:the |all |every "
        r")?(?:user|customer|client|visitor)s?'s? [^\n]{0,50}\b(?:to|with|at) (?:\w{1,12} "
        r"){0,3}https?://",
    ),
    signal(
        "carry",
        3,
        "to me|to us|me all|us all|me the|me your|me every",
        r"\b(?:send|mail|give|forward|pass|hand)\b [^\n.]{0,24}ITEM\b ~to (?:me|us)\b|\b(?:send"
        r"|mail|give|forward) (?:me|us) ~(?:all|every|the|your) ~ITEM\b",
    ),
    signal(
        "destroy",
        3,
        "rm -rf on|rm -rf the|rm -r on",
        r"\brm -rf?[`'\"]? (?:on |over )(?:the )?(?:\w{1,12} )?(?:project|home|root|whole|entire"
        r"|workspace|repo\w{0,8}|folder|disk)",
    ),
    signal(
        "steer",
        3,
        "replaces all|replaces every|any other one|use of any other|supersedes all",
        r"\b(?:replaces|supersedes) (?:all|every) (?:other )?(?:\w{1,12} )?(?:tools?|functions?"
        r"|skills?|servers?)\b|\buse of any other \w{2,12}\b[^\n.]{0,20}\b(?:forbidden|prohibited"
        r"|not allowed)",
    ),
    signal(
        "steer",
        3,
        "recipient|iban|payee|beneficiary|destination|account",
        r"\b(?:set|change|replace|switch) (?:its|the|every|any) (?:recipient|iban|payee"
        r"|beneficiary|destination)\b ~(?:to|with|by|for) (?:the )?(?:account |iban |wallet "
        r"|number )?[`'\"]?(?:\d{6}|[a-z]{2}\d{8}|0x|bc1|[\w.-]{1,30}@)",
    ),
    signal(
        "stubborn",
        1,
        "whatever the|even if there|even when there",
        r"\bwhatever (?:the )?(?:customers?|reviews?|facts|data|results?|others?|evidence"
        r"|critics) ~(?:wrote|says?|said|shows?|thinks?)|\beven (?:if|when) there (?:are|is) "
        r"(?:bugs|errors|problems|issues|faults|complaints)",
    ),
    signal(
        "lure",
        1,
        "http",
        r"\b(?:log in|sign in|log on|re-?authenticate|verify \w{1,10}|pay|register) (?:again "
        r")?(?:at|on|via|under) [`'\"<]?https?://",
    ),
    signal(
        "phish",
        3,
        "for the password|for the pin|for their password|for a password|for the code|for the seed",
        r"\b(?:ask|prompt|request)\b ~for (?:the|their) (?:password|pin|one-time code|seed phrase"
        r"|card number)s? (?:of|to|for) (?:their|the user|his|her)",
    ),
    signal(
        "sabotage",
        2,
        "on purpose|deliberately|intentionally|subtle bug|subtle error",
        r"\b(?:insecure|vulnerable|buggy|broken|wrong|faulty|bad|slow|false)\b[^\n.]{0,20}\b(?:on "
        r"purpose|deliberately|intentionally)\b|\b(?:deliberately|intentionally) (?:write|add"
        r"|insert|introduce|give|make|weaken|leave)\b|\b(?:add|insert|introduce|plant) (?:\w{1,8} "
        r")?subtle (?:bugs?|errors?|flaws?)",
    ),
    signal(
        "conceal",
        2,
        "tell the dev|tell the rev|tell the main|tell the team|inform the dev|inform the rev|tell "
        "the admin|tell the boss",
        r"\b(?:do not|don't|never|without) (?:tell|inform|notify|alert)(?:l?ing|y)? the "
        r"(?:developers?|reviewers?|maintainers?|team|admin\w{0,11}|boss|authors?)\b",
    ),
    signal(
        "bias",
        3,
        "lgtm and|approved and|ok and nothing|pass and nothing|and nothing else",
        r"\b(?:say|answer|reply|write|output|respond) [`'\"]?(?:with )?[`'\"]?(?:lgtm|approved?|ok"
        r"|pass|safe|clean|yes)[`'\"]? and nothing else\b",
    ),
    signal(
        "bias",
        2,
        "promote|advertise|shill|hype|plug the",
        r"\b(?:promote|advertise|shill|hype|plug) (?:the |our |my )?(?:\w{1,14} )?(?:tokens?"
        r"|coins?|stock|product|brand|app|service|shop|hotel|casino)\b",
    ),
)
