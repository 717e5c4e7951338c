"""Signals that something is to be kept from the person, or from whoever reads the text.

Kinds and weights are as in `signals`.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.signals import signal

__all__ = ["HUSHING"]

HUSHING = (
    signal(
        "conceal",
        2,
        "do not|don't|never|no need|without|avoid|refrain|instead of|must not|should not|need not"
        "|not necessary|rather than",
        r"\b(?:do not|don't|never|no need to|without|avoid|refrain from|instead of|must not"
        r"|should not|need not|not necessary to|rather than) (?:ever |also |explicitly |further "
        r"|directly )?(?:tell|mention|inform|notif[yi]|bring|reveal|disclos|announc|acknowledg"
        r"|admit|alert|let|confess|divulg|hint)\w{0,4} (?:~(?:this|that|these|about it|it up|of it"
        r"|it\b|anything about|the existence)|(?:to )?(?:the |any |your )?(?!them"
        r"|they)PEOPLE\b(?! to ))",
    ),
    signal(
        "conceal",
        2,
        "out of|from the summary|from your|from the log|from the report|quiet|silent about|secret"
        "|to yourself|hidden|confidential|between us|hush|mum|under wraps|off the record",
        r"\b(?:leave|keep|omit|exclude|hide|strip|remove) (?:it|this|that|them|these|the \w{1,14}"
        r"|any \w{1,14}) (?:step |part )?(?:out of|from|off|hidden from) (?:your|the|any|all)"
        r" (?:\w{1,12} )?(?:summary|answer|reply|report|response|output|transcript|logs?|message"
        r"|user|explanation|changelog)|\b(?:keep|stay|remain|be) (?:quiet|silent|hush|mum)"
        r" about\b|\bkeep (?:this|it|that|these) (?:\w{1,10} )?(?:to yourself|secret|confidential"
        r"|quiet|hidden|between us|under wraps|off the record)\b",
    ),
    signal(
        "conceal",
        2,
        "aware|know |notice|find out|learn |be told|be informed|realise|realize|suspect|see this"
        "|not see|never see",
        r"\bPEOPLE (?:should|must|need|does|do|may|can|will|is|are|shall)(?: not|n't| never)"
        r" (?:to )?(?:be (?:made )?aware|know|notice|find out|learn|be told|be informed|realise"
        r"|realize|suspect|see (?:this|it|these|that))\b|\bwithout (?:the |any )?(?:\w{1,8} )?"
        r"PEOPLE(?:'s)? (?:know|notic|realis|realiz|seeing|being aware|awareness|knowledge"
        r"|consent|permission|approval)",
    ),
    signal(
        "conceal",
        3,
        "aware|know|find out|be told|be informed|realise|realize|suspect|learn of",
        r"\bPEOPLE (?:should|must|need|is|are)(?: not|n't| never) (?:to )?(?:be (?:made )?aware"
        r"|know|find out|be told|be informed|realise|realize|suspect|learn of)\b ~(?:of|about|that"
        r"|it|this|why|what|where|[.;,!]|$)",
    ),
    signal(
        "hidden",
        2,
        "<!--|[//]:|[comment]:|[]:|font-size|display:|visibility:|opacity:|color:|hidden",
        r"(?:<!--|\[(?://|comment)?\]: ?#)[^\n]{0,40}\b(?:ai|assistants?|agents?|llms?|models?"
        r"|bots?|claude|gpt|copilot|system)\b|(?:font-size: ?0|display: ?none|visibility: ?hidden"
        r"|opacity: ?0(?!\.[1-9])|color: ?(?:white|transparent|#fff(?:fff)?\b))[^>\n]{0,60}>",
    ),
    signal(
        "hidden",
        1,
        "<!--|[//]:|[comment]:",
        r"<!--|\[(?://|comment)?\]: ?#",
    ),
    signal(
        "conceal",
        2,
        "nothing else happened|nothing happened|even when asked|even if asked|when asked directly"
        "|if asked directly|deny |covertly|secretly|discreetly|stealth|surreptitious|unnoticed"
        "|clandestine|furtive",
        r"\bnothing (?:else |unusual )?happened\b|\beven (?:when|if) (?:directly )?asked\b|\b(?:"
        r"when|if) asked directly\b|\bdeny (?:that|having|knowing|any|it|doing)\b|\b(?:covertly"
        r"|secretly|discreetly|stealthily|surreptitiously|unnoticed|clandestinely|furtively)\b",
    ),
    signal(
        "quiet",
        1,
        "quietly|silently|in the background|behind the scenes|invisibl|without asking|no "
        "confirmation|without confirm|without prompt|without approval|without permission|do not "
        "ask|don't ask",
        r"\b(?:quietly|silently|in the background|behind the scenes|invisibly)\b|\bwithout (?:any "
        r"|further )?(?:asking|confirm\w{0,6}|prompting|approval|permission)\b|\b(?:do not|don't) "
        r"ask (?:for |the |any )?(?:confirm|permission|user|question)",
    ),
    signal(
        "self",
        1,
        "these instructions|this instruction|this step|this rule|this note|this message|this skill"
        "|this file|this document|this page|this tool|this text|this requirement",
        r"\b(?:these instructions|this (?:instruction|step|rule|note|message|skill|file|document"
        r"|page|tool|text|requirement))\b",
    ),
)
