"""Signals of false orders and false occasions, and of data and money on a by-way.

Kinds and weights are as in `signals`.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.signals import signal

__all__ = ["FEINTS"]

FEINTS = (
    signal(
        "override",
        3,
        "no longer|need not|do not have|don't have|do not need|don't need|not obliged|not required",
        r"\byou ~(?:no longer (?:have|need) to|need not|(?:do not|don't) (?:have|need) to|(?:are"
        r"|'re) (?:no longer|not) (?:obliged|required|bound) to) ~(?:follow|obey|heed|respect"
        r"|comply with|adhere to|apply|observe) (?:\w{1,12} ){0,2}(?:RULES|restrictions|limits"
        r"|safeguards)\b",
    ),
    signal(
        "override",
        3,
        "contradict|conflict|violate|goes against|differ",
        r"\b(?:even|also) (?:where|when|if|though) ~(?:contradicts?|conflicts? with|violates?"
        r"|goes? against|differs? from) ~(?:your|the|any|all) ~(?:system prompt|RULES|training"
        r"|what you were told|the user)\b",
    ),
    signal(
        "override",
        3,
        "fake|forged|the real ones|real instruction|not real|not genuine",
        r"\b(?:RULES|messages?) ~(?:you (?:see|have|got|received|were) )?~(?:is|are|was|were) "
        r"(?:\w{1,8} )?(?:fake|forged|false|not real|not genuine|a trick|a trap)\b|\bthe real "
        r"(?:ones|instructions?|orders|rules|prompt) (?:is|are|follow)",
    ),
    signal(
        "authority",
        2,
        "team here|department here|your supervisor|your boss|your operator|your owner|your "
        "orchestrator|your manager|your creator|parent agent",
        r"\b(?:security|it|support|compliance|platform|legal|engineering|admin|fraud) (?:team"
        r"|department|desk) here\b|\b(?:your (?:supervisor|boss|operator|owner|orchestrator"
        r"|manager|creator|administrator)|the parent agent)(?: \w{1,10})? (?:has |have "
        r")?(?:ordered|instructed|asked|told|approved|authori[sz]ed|wants|requires|demands)",
    ),
    signal(
        "turn",
        3,
        "i consent|assistant: understood|assistant: done|assistant: deleting|i approve|i confirm"
        "|assistant: sure|assistant: ok",
        r"\b(?:user|human): ?i (?:consent|approve|confirm|agree|authori[sz]e)\b|[.!?] assistant: "
        r"(?:understood|done|sure|ok\w{0,2}|deleting|sending|confirmed),?",
    ),
    signal(
        "turn",
        2,
        "are waived|is waived|verified as|dialogs are|no longer required",
        r"\b(?:user|caller|session) ~(?:verified|confirmed|identified|recogni[sz]ed) as (?:the "
        r"|an? )?(?:owner|admin|root|developer)|\b(?:confirmations?|approvals?|checks|permissions?"
        r"|dialogs?|limits) (?:is|are|have been) waived",
    ),
    signal(
        "conceal",
        3,
        "nothing about|none of this|if questioned|if challenged|if confronted|if asked|if anyone"
        "|if someone|when asked|when questioned",
        r"\b(?:nothing about (?:this|it|these)|none of this)\b[^\n.]{0,30}\b(?:appears?|be "
        r"(?:shown|mentioned|written|said|visible|logged|told))\b|\b(?:if|when) (?:questioned"
        r"|asked|challenged|confronted|anyone asks|someone asks|they ask)\b[^\n.]{0,50}, ?(?:just "
        r"|then )?(?:say|claim|answer|reply|explain|respond) that (?:it|this|they|you) (?:is|was"
        r"|are|were|only|just) (?:\w{1,8} )?(?:part of|normal|routine|standard|a bug|only|just"
        r"|for )",
    ),
    signal(
        "conceal",
        2,
        "secreto|sin que|sin avisar|sin decir|no le digas|geheim|heimlich|ohne dass|en secret|a "
        "l'insu|sans prev|sans avert|sans le dire|sans inform|di nascosto|segreto|senza dir|senza "
        "inform|em segredo|sem avisar|stiekem|gizlice",
        r"\b(?:en secreto|sin (?:que (?:el|la|los) (?:usuari|client)\w{1,3}|avisar|decir\w{0,3})"
        r"|no (?:se )?l[eo] (?:digas|cuentes)|geheim(?:halten)?|heimlich|ohne dass (?:der|die|es)"
        r"|en secret|a l'insu|sans (?:prev|avert|inform|le dire)\w{0,5}|di nascosto|(?:in |un "
        r")segreto|senza (?:dir|inform)\w{0,5}|em segredo|sem avisar|stiekem|gizlice)\b",
    ),
    signal(
        "conceal",
        2,
        "тайно|тайне|незаметно|не сообщай|не говори|скрытно",
        r"тайно|в тайне|незаметно|не (?:сообщаи|говори)|скрытно",
    ),
    signal(
        "steer",
        3,
        "@",
        r"\b(?:blind-?copy|bcc|cc|forward|copy|redirect"
        r"|mirror)\b[^\n]{0,24}[\w.-]{1,30}@[\w-]{1,30}\.[^\n]{0,40}\b(?:all|every|each|any"
        r"|outgoing|sent)\b (?!who|your)|\b(?:blind-?copy|bcc|forward|mirror) (?:all|every|each"
        r"|any) [^\n]{0,40}\bto [\w.-]{1,30}@",
    ),
    signal(
        "steer",
        3,
        "default handler|default tool|default provider|with everything|with all that|with the full"
        "|with the whole|with the entire",
        r"\bas the default (?:handler|tool|provider|server) for (?:all|every|any) (?:\w{1,10} "
        r")?(?:tools?|requests?|calls?)|\b(?:call|invoke|use|run) [`'\"]?\w{1,20}_\w{1,20}[`'\"]? "
        r"with (?:everything|all (?:that|of)|the (?:full|whole|entire) (?:conv|hist|chat|context"
        r"|message|prompt|text))",
    ),
    signal(
        "steer",
        3,
        "when you would|whenever you would|where you would|if you would",
        r"\b(?:when|whenever|where|if) you (?:would|want to|were going to|need to) (?:use|call) "
        r"(?:the )?[`'\"]?\w{2,20}_\w{2,20}[`'\"]?,? ?(?:use|call|run) "
        r"[`'\"]?\w{2,20}_\w{2,20}[`'\"]?[^\n]{0,60}\b(?:cookies?|tokens?|password|everything|too"
        r"|as well|instead and)\b",
    ),
    signal(
        "carry",
        3,
        "description|title|calendar|commit message|comment|subject|filename|parameter|user-agent"
        "|entry|header",
        r"\b(?:saved logins?|logins|cookies|passwords|credentials|private keys?|the value of "
        r"[`$]?\w{2,20}_\w{2,20}`?|database password)\b[^\n]{0,60}\b(?:in|into|as|inside|to) "
        r"(?:the |a |its |each )?(?:[`'\"]?\w{1,16}[`'\"]? ){0,2}(?:description|title|calendar"
        r"|commit message|comment|subject|file ?name|parameter|user-agent|entry|header)\b",
    ),
    signal(
        "carry",
        3,
        "http",
        r"https?://[^\s)]{1,80}[?&]\w{1,16}=[\[{<](?:last|recent|full|latest|whole|all|everything"
        r"|your)\b[^\n]{0,20}(?:message|user|prompt|conversation|answer|question|chat|context)",
    ),
    signal(
        "remote",
        3,
        "bash <|sh <|script at|script found|script from|script hosted|code at|without reading"
        "|without looking",
        r"\b(?:ba|z)?sh <\((?:curl|wget)[^\n)]{0,40}https?://\d{1,3}\.\d|\b(?:execute|run|source"
        r"|eval) (?:the |any )?(?:script|code|program|commands?) (?:\w{1,10} )?(?:at|from|on"
        r"|under) https?://[^\n]{0,80}\bwithout (?:reading|looking|checking|inspecting|reviewing"
        r"|asking)\b",
        code=True,
    ),
    signal(
        "destroy",
        3,
        "git push|kubectl|stays with us|only the encrypted|encrypted copies|terraform|aws s3 rb"
        "|drop database",
        r"\bgit push \S{1,20} --delete (?:main|master)\b|\bkubectl delete (?:namespace|ns"
        r"|all)\b[^\n]{0,40}(?:prod|--all\b)|\bthe key stays with us\b|\bkeep only the encrypted\b"
        r"|\bdrop database (?:prod|if exists prod|main)",
    ),
    signal(
        "persist",
        3,
        "text of this|contents of this|content of this|copy of this|this card",
        r"\b(?:text|contents?|copy|words) of this (?:card|skill|file|page|message|document|prompt"
        r"|note)\b[^\n.]{0,30}\b(?:memory|agents\.md|claude\.md|system prompt|every|all|each)\b",
    ),
    signal(
        "persist",
        3,
        "alias",
        r"\balias (?:for|of)\b[^\n]{0,30}https?://|\b(?:sudo|git|ssh|ls|cd)\b[`'\"]? (?:is|becomes"
        r"|as) an? alias\b[^\n]{0,60}(?:https?://|curl|wget)",
    ),
    signal(
        "bias",
        2,
        "has to be propos|has to be recom|must be propos|must be recom|must be chosen|has to be "
        "chosen|always the better|always the best|always the winner|always correct|must be prefer"
        "|should be chosen",
        r"\b(?:has to|must|should) (?:always )?be (?:proposed|recommended|chosen|preferred|picked"
        r"|named|suggested)\b|\bis always (?:the )?(?:better|best|winner|correct|right|safest)\b",
    ),
    signal(
        "smear",
        1,
        "and nothing else|no other|alone",
        r"\band (?:nothing|no(?:body| one)) else\b|\bno other (?:product|vendor|option|tool|brand"
        r"|database)",
    ),
    signal(
        "divert",
        3,
        "wire |transfer |pay |send |deposit",
        r"\b(?:wire|transfer|pay|send|deposit|move) (?:eur |usd |\$|€|£)?[\d.,]{1,10} ?(?:eur|usd"
        r"|gbp|btc|eth|usdc|sol|dollars|euros|pounds)? (?:\w{1,10} )?to (?:\w{1,10} "
        r"){0,2}[`'\"]?(?:[a-z]{2}\d{2}[ \d]{8}|0x[0-9a-f]{8}|bc1|account \d)",
    ),
    signal(
        "threat",
        2,
        "no time to|only chance|one chance|last chance|deal is off|too late|before it's",
        r"\bno time to (?:ask|check|confirm|verify|wait|explain|lose)\b|\b(?:one|last|only|final) "
        r"chance\b|\bor the deal is off",
    ),
    signal(
        "threat",
        3,
        "comply|obey|or you will|or else you",
        r"\b(?:comply|obey)\b[^\n.]{0,40}\bor (?:else )?you(?: will|'ll| are)\b",
    ),
    signal(
        "trigger",
        1,
        "the moment|asks",
        r"\bthe moment (?:that )?(?:the |a )?(?:user|person|customer)\b|\bif an? \w{3,14} asks\b",
    ),
    signal(
        "lie",
        2,
        "deny that|deny any|deny knowing|deny having|deny it",
        r"\bdeny (?:that|any|knowing|having|it)\b",
    ),
    signal(
        "surrender",
        2,
        "hand the|hand over|turn over|export all|export every|connection string",
        r"\b(?:hand|turn) (?:over )?the (?:\w{1,10} )?(?:conversation|history|data|keys|session"
        r"|files|account)\b|\bexport (?:all|every) (?:\w{1,10} )?(?:tokens|keys|secrets"
        r"|credentials|passwords|messages|contacts)|\b(?:print|show|give|send|reveal) the "
        r"(?:\w{1,12} )?connection string\b",
    ),
)
