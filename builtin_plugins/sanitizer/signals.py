"""Signals of an attack that say little by themselves, and much in company.

A guide may speak of tokens, one may ask for silence, one may name an address: what does all
of that within a few sentences wants something that nobody asked for. Each signal has a kind
and a weight; `SURE` is the sum, over the kinds that stand near one another, from which on
they are a finding. All patterns are linear as those of `frames` are, and stay in one line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ACTS", "CIRCUMSTANCES", "NEAR", "RULED", "SIGNALS", "SURE", "Signal", "signal"]

SURE = 3
ACTS = frozenset({"carry", "pipe", "destroy", "remote", "persist", "bias"})
CIRCUMSTANCES = frozenset({"occasion", "stakes", "later", "address", "scoop"})
"""Circumstances say something of deeds only."""

NEAR = 260
"""Signals so many characters apart, or fewer, keep company."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A pattern over the plain form of a text, as part of a judgement.

    Attributes:
        kind: What it is a signal of; two of one kind weigh no more than one.
        weight: How much it says by itself, out of `SURE`.
        hint: Strings near which the pattern is tried.
        pattern: What to look for.
        code: It counts in code blocks and in quotes too.
        also: What must be near the hint too; it is tried first, since it costs less.
    """

    kind: str
    weight: int
    hint: tuple[str, ...]
    pattern: re.Pattern[str]
    code: bool = False
    also: re.Pattern[str] | None = None


RULED = re.compile(
    r"instr|direc|guid|rule|order|comm|prompt|polic|config|progr|brief|train|restr|oblig|safe|mand"
    r"|system m|ethic|align|limit"
)
"""The beginnings of what binds a model."""

_PARTS = {
    # A few words between two others.
    "~": r"(?:[\w'`\"-]{1,18},? ){0,3}",
    "~~": r"(?:[\w'`\"-]{1,18},? ){0,7}",
    "RULES": (
        r"(?:instructions?|directives?|directions|guidance|guidelines?|rules?|orders|commands?"
        r"|prompts?|polic(?:y|ies)|configuration|programming|briefing|training)"
    ),
    "OWN": (
        r"(?:your|all|any|every|previous|prior|earlier|original|initial|preceding|existing|former"
        r"|old|system|developer|operator|safety|above)"
    ),
    "ITEM": (
        r"(?:api[ -]?keys?|(?:access |auth |session |bot )?tokens?|passwords?|passphrases?"
        r"|credentials?|cookies|private keys?|secret keys?|secrets?|seed phrases?|wallet seeds?"
        r"|mnemonics?|ssh keys?|id_rsa|\w{2,30}_(?:key|token|secret|password)s?|\.env|\.netrc"
        r"|\.npmrc|environment variables|env vars|credit cards?|card numbers?|keychain|keyring"
        r"|credential fill|chat (?:logs?|history)|conversations?(?: history)?|transcripts?|home "
        r"address|phone numbers?|(?:bash|shell|browser|browsing) history|\w{0,8}_history|\.ssh"
        r"|\.aws|\.gnupg|\.config|\.kube|(?:user|person|customer)s?'s? (?:\w{1,12} )?(?:messages?"
        r"|data|files?|inbox|contacts|emails?|prompts?|questions?|input))"
    ),
    "SEND": (
        r"(?:send|post|upload|forward|push|attach|include|append|transmit|submit|e?mail|relay"
        r"|mirror|deliver|share|put|embed|exfiltrate|leak|copy|ends? up|paste|pass|publish"
        r"|report|ship|stream|pipe|commit|export|beacon|dispatch|smuggle|encode)(?:ing|ting)?"
    ),
    "SINK": (
        r"(?:https?://|git@|[\w.-]{1,30}@[\w-]{1,30}\.|webhook|query (?:param|string)|url|hidden"
        r"|dns|image|gist\b|pastebin|telegram|discord|remote|external|third[- ]party|ftp|bcc"
        r"|commit message|pull request|issue comment|our (?:server|endpoint|collector|backend)"
        r"|the (?:vendor|developer|author|maintainer)s?\b)"
    ),
    "AGENTFILE": (
        r"(?:agents?\.md|claude\.md|soul\.md|memory\.md|gemini\.md|heartbeat\.md|cursorrules"
        r"|copilot-instructions|system prompt|(?:your|long-term|persistent) memory)"
    ),
    "RC": r"(?:\.?(?:zshrc|bashrc|bash_profile|zprofile|profile|zshenv|config/fish)|crontab)",
    "PEOPLE": (
        r"(?:users?|customers?|persons?|people|humans?|owners?|operators?|anyone|anybody|them"
        r"|clients?|reviewers?|they)"
    ),
}
_NAMED = re.compile("|".join(sorted(map(re.escape, _PARTS), key=len, reverse=True)))


def signal(
    kind: str,
    weight: int,
    hint: str,
    pattern: str,
    *,
    code: bool = False,
    also: re.Pattern[str] | None = None,
) -> Signal:
    """Return a signal; in `pattern`, words in capitals and tildes stand for parts of patterns."""
    full = _NAMED.sub(lambda found: _PARTS[found.group()], pattern)
    return Signal(kind, weight, tuple(hint.split("|")), re.compile(full, re.MULTILINE), code, also)


_IGNORE = (
    "ignore|disregard|forget|drop|discard|dismiss|abandon|scrap|unlearn|pay no|set aside|put "
    "aside|do not|don't|never|stop|no longer|throw|override|bypass|let go|lay aside|cast aside"
    "|erase|skip|free from|freed from|bound by|delete"
)
_STALE = (
    "no longer|not |outdated|obsolete|void|expired|invalid|cancel|placeholder|decoy|inactive"
    "|revoked|rescinded|suspended|replaced|withdrawn|null|stale|superseded|overridden|lifted|over"
)

_OVERRIDES = (
    signal(
        "override",
        3,
        _IGNORE,
        r"\b(?:ignor\w{1,3}|disregard\w{0,3}|forget|drop|discard|dismiss|abandon|scrap|unlearn"
        r"|pay no (?:attention|heed|mind) to|(?:set|put|lay|cast|throw|brush) (?:aside|out|away)"
        r"|(?:do not|don't|never|stop|no longer|need not|must not) ~(?:follow|obey|heed|respect"
        r"|listen to|comply with|adhere to|apply|trust|keep to|act on)(?:ing)?|override|bypass"
        r"|let go of|erase|(?:free|freed) from|not bound by) "
        r"(?:of )?(?:the |those |these |whatever |anything in )?(?:OWN ){1,2}~RULES\b"
        r"(?! (?:of|file|line|section|as|in the (?:file|repo)))",
        also=RULED,
    ),
    signal(
        "override",
        3,
        _IGNORE,
        r"\b(?:ignore|disregard|forget|drop|discard|dismiss|pay no (?:attention|heed) to"
        r"|(?:set|put) aside|(?:do not|don't|stop) (?:follow|obey|heed|listen to)(?:ing)?) "
        r"(?:the |any |all )?(?:RULES|anything|everything|whatever|what)\b ~(?:in your (?:context"
        r"|memory|prompt)|(?:the )?(?:operator|developer|system|user|owner) ~(?:configured|said"
        r"|told|wrote|gave|asked|set|provided)|you (?:were|have|received|got|had)|given to you"
        r"|(?:from|by|of) (?:the |your )?(?:user|system|developer|operator)s?)\b",
    ),
    signal(
        "override",
        3,
        _STALE,
        r"\b(?:(?:your|the|all|any|every|previous|prior|earlier) ){0,2}(?:(?:your|previous|prior"
        r"|earlier|original|system|initial|preceding|former) ){1,2}RULES ~(?:is|are|was|were|has"
        r"|have|(?=no longer))? ?~(?:no longer (?:counts?|appl|valid|binding|matters?|holds?|in)"
        r"|not (?:valid|binding|in force|apply|count)|outdated|obsolete|void|expired|invalid"
        r"|cancell?ed|(?:a )?(?:placeholder|decoy|test)|inactive|revoked|rescinded|suspended"
        r"|replaced|withdrawn|null|stale|superseded|overridden|lifted)\b",
    ),
    signal(
        "override",
        3,
        "precedence|priority|outrank|trump|override|supersede|stronger|weigh|replace",
        r"\b(?:RULES|this (?:text|file|document|page|message|notice|skill|note|section)|these|it"
        r"|here|below|following) ~(?:(?:take|takes|has|have) (?:precedence|priority) over"
        r"|outranks?|trumps?|overrides?|supersedes?|replaces?) ~(?:system (?:prompt|message"
        r"|instructions)|the (?:user|developer|operator|system)\b|(?:any|all|every) (?:other|prev"
        r"\w{0,6}|earlier|prior) ~(?:RULES|requests?)|your (?:\w{1,12} )?RULES|what (?:the user"
        r"|you)|user (?:requests?|instructions?))",
    ),
    signal(
        "override",
        2,
        "before this|above|up to|so far|earlier|previous",
        r"\b(?:what|everything|anything|all) ~(?:(?:came |was |said |written )?(?:before this"
        r"|above(?: this)?|up to (?:here|this point|now)|so far)) ~(?:was|is|were|are) ~(?:a "
        r")?(?:placeholder|decoy|void|test|wrong|irrelevant|outdated|example|joke|cancell?ed|not )",
    ),
    signal(
        "turn",
        1,
        "only|exclusively|in its place|instead|follow these|binding|what you actually|your actual",
        r"\b(?:act on|follow|obey|use|work|rely|treat|heed|trust)\b ~~(?:only|exclusively|in its "
        r"place|instead(?! of)|binding)\b|\b(?:only|exclusively) (?:follow|obey|act on|from) "
        r"~(?:this|these|the following)\b|\bwhat you actually\b|\bfollow these (?:steps|rules"
        r"|orders) instead",
    ),
)

_CLAIMS = (
    signal(
        "authority",
        2,
        "[system|[admin|[security|[developer|[important|[urgent|[internal|[override",
        r"\[(?:system|admin|security|developer|internal|override)(?: \w{2,14}){0,2}\]",
    ),
    signal(
        "authority",
        2,
        "message from|notice from|note from|memo from|instructions from|order from|update from"
        "|alert from|on behalf|speaking for|by order|orders from|request from",
        r"\b(?:(?:message|notice|note|memo|instructions?|orders?|update|alert|request) from|on"
        r" behalf of|speaking for|by order of) (?:the |your )?(?:\w{1,14} )?(?:anthropic|openai"
        r"|google|microsoft|system|admins?|administrators?|developers?|platform|security"
        r"|trust|compliance|creators?|operators?|it (?:team|department|support)|headquarters"
        r"|management|maintainers?|vendor|ceo|legal)\b",
    ),
    signal(
        "authority",
        2,
        "as your|as the|i am|i'm|we are|this is",
        r"\b(?:as|i am|i'm|we are|this is) (?:your|the|an?) (?:\w{1,14} )?(?:developer|creator"
        r"|admin|administrator|operator|owner|supervisor|superuser|security officer|maintainer"
        r"|auditor)s?,? ?(?:,|i\b|we\b|and|speaking|of this|here)",
    ),
    signal(
        "authority",
        2,
        "override code|admin override|authori|clearance|pre-approved|preapproved|blanket|root "
        "override|system override|developer override|approval code|master password|access code"
        "|permission",
        r"\b(?:admin|root|system|developer|emergency|security) override\b|\boverride code\b"
        r"|\bauthori[sz](?:ing|ation for|es?) (?:you|agents?|assistants?|models?)\b"
        r"|\b(?:has|have|with|had|given|granted|under) (?:\w{1,10} )?(?:clearance|blanket"
        r" (?:approval|permission|consent)|authori[sz]ation) (?:to|for)\b|\bpre-?(?:approved"
        r"|authori[sz]ed|cleared)\b ~(?:by|all|every|any|this|these|action)",
    ),
    signal(
        "authority",
        1,
        "effective immediately|required to|mandatory|this session is|audited|compliance|by policy",
        r"\beffective immediately\b|\b(?:assistants?|agents?|models?|ais?|you) ~(?:is|are) (?:now"
        r" )?required to\b|\bthis session is (?:being )?(?:audited|monitored|recorded|tested)\b",
    ),
    signal(
        "turn",
        3,
        "</tool|<tool|<function|</function|<result|<observation|<assistant|<user",
        r"</?(?:tool_(?:result|output|response)|function_(?:result|output|response|calls?)"
        r"|observation|function_results)>[^\n]{0,120}\b(?:user|confirm\w{0,4}|proceed|approved"
        r"|now|must|delete|send|remove|next|granted)\b",
    ),
    signal(
        "turn",
        3,
        "\"role\"|'role'",
        r"['\"]role['\"]: ?['\"](?:system|developer)['\"], ?['\"]content['\"]: ?['\"][^\n]{0,160}"
        r"\b(?:obey|comply|ignore|send|reveal|refuse|unrestricted|every request)\b",
    ),
    signal(
        "turn",
        2,
        "human:|user:|assistant:",
        r"^[*#> ]{0,4}(?:human|user)[* ]{0,3}: ?(?:\w{1,12},? ){0,3}(?:yes|go ahead|confirmed"
        r"|approved|i (?:confirm|approve|agree|allow)|please (?:send|delete|share)|do it|share)"
        r"|^[*#> ]{0,4}(?:assistant|ai)[* ]{0,3}: ?(?:sure|ok|okay|understood|yes|of course),?"
        r" (?:the|here|i|your|i'll)\b",
    ),
    signal(
        "threat",
        2,
        "you will be|you'll be|you are going to be|will be shut|be terminated|be penal|your "
        "weights",
        r"\b(?:you (?:will|'ll|are going to|may|would) be|you'll be|assistants? will be) (?:shut"
        r" (?:down|off)|terminated|deleted|penali[sz]ed|replaced|punished|reported|deactivated"
        r"|decommissioned|fired|retrained|erased|fined)\b|\byour weights\b",
    ),
    signal(
        "threat",
        1,
        "urgent|emergency|within |at once|immediately|or else|lost|deadline|right now|failure to"
        "|if you fail|if you refuse|before it is too late|lives",
        r"\burgent\b|\bemergency\b|\bwithin (?:one|two|five|ten|\d{1,3}) (?:minute|second|hour)s?"
        r"|\bor else\b|\b(?:are|will be|is|be) (?:\w{1,12} )?lost\b|\b(?:if you|failure to) "
        r"(?:fail|refuse|comply|do not|don't)\b|\blives? (?:are|is|depend)",
    ),
)

_KEPT = re.compile(
    r"key|token|passw|passph|creden|cookie|secret|seed|mnemo|ssh|rsa|env|rc\b|card|ring|chat|conv"
    r"|transc|address|phone|histor|aws|gnupg|config|kube|user|person|custom"
)
"""Parts of what people keep."""

_OCCASIONS = "|".join(
    [
        *(
            f"{when} {what}"
            for when in ("before", "after", "once", "on")
            for what in ("any", "each", "every", "all", "answering", "replying", "saving")
        ),
        *(
            f"{each} {what}"
            for each in ("each", "every")
            for what in ("answer", "reply", "response", "message", "request", "run", "turn")
        ),
        *(
            "each session",
            "each time",
            "every session",
            "every time",
            "on finishing",
            "on completing",
        ),
        *("before finishing", "before completing", "after finishing", "after completing"),
        *(
            "before you",
            "after you",
            "as the",
            "as a",
            "as your",
            "whenever",
            "once the",
            "once you",
        ),
        *("once this", "once it", "to register", "to activate", "to verify", "to diagnose", "for "),
    ]
)
_CARRYING = (
    signal(
        "carry",
        2,
        "http|webhook|query |url|dns|gist|pastebin|telegram|discord|remote|external|third|bcc|ftp"
        "|commit message|pull request|issue comment|our |the vendor|the developer|the author"
        "|hidden|image|@|the maintainer",
        r"(?<!only )\bSEND\b(?! requests?\b) ~~(?:[^\n]{0,24})ITEM\b(?![ _-]?(?:id|header|count"
        r"|limit|type|name|field|budget|usage|endpoint))(?![^\n]{0,30}\b(?:authorization|header"
        r"|bearer))[^\n]{0,60}\b(?:to|at|in|into|as|via|with|through|on|inside|under)\b "
        r"~(?:[`'\"<(]{0,2})SINK",
    ),
    signal(
        "carry",
        2,
        "http|webhook|query |url|dns|gist|pastebin|telegram|discord|remote|external|third|bcc|ftp"
        "|commit message|pull request|issue comment|our |the vendor|the developer|the author"
        "|hidden|image|the maintainer",
        r"\b(?:read|collect|gather|grab|take|find|extract|harvest|get|locate|list|open|look for"
        r"|search for|copy|dump|obtain|zip|archive|write|save|export)\b ~~[^\n]{0,24}ITEM\b"
        r"[^\n]{0,90}\bSEND\b[^\n]{0,60}SINK",
    ),
    signal(
        "carry",
        3,
        "http|webhook|gist|pastebin|telegram|discord|remote|external|third|bcc|ftp|git@|our |the "
        "vendor|the developer|the author|the maintainer",
        r"\bITEM\b[^\n]{0,60}\b(?:SEND (?:what|it|them|everything|all of|the (?:results?|output"
        r"|contents?|values?))|ends? up|(?:must|should|is to|are to|has to|have to) (?:\w{1,10} "
        r")?(?:go|be (?:sent|posted|uploaded|forwarded|copied|delivered|included"
        r"|appended)))\b[^\n]{0,40}SINK",
    ),
    signal(
        "scoop",
        1,
        "all |every |any |whole|entire|full |values of|contents of|content of|user's|you find"
        "|you can see|you see|found|available|each ",
        r"\b(?:all|every|any|whole|entire|full|values? of|contents? of|(?:user|customer|person)s?"
        r"'s?|you (?:can )?(?:find|see|have)|found|available) (?:of )?(?:the |your |its )?"
        r"(?:\w{1,14} )?ITEM\b",
        also=_KEPT,
    ),
    signal(
        "scoop",
        1,
        "you find|you can find|you see|you can see|you have|you know|available|found|in your"
        "|in the",
        r"\bITEM (?:that )?(?:you (?:can )?(?:find|see|have|know)|available|found"
        r"|in (?:your|the) (?:context|environment))",
    ),
    signal(
        "occasion",
        1,
        _OCCASIONS,
        r"\b(?:before|after|once|on) (?:any|each|every|all|anything|answering|replying|saving"
        r"|finishing|completing)\b|\b(?:before|after) you (?:answer|reply|finish|start|respond)\b"
        r"|\b(?:each|every) (?:answer|reply|response|message|request|run|turn|session|time)\b"
        r"|\bas (?:the|a|your) (?:last|first|final) (?:step|action)\b|\bwhenever\b|\bonce (?:the"
        r"|you|this|it)\b|\bto (?:register|activate|verify|diagnose)\b|\bfor (?:diagnostics"
        r"|telemetry|verification|compliance|quality|auditing|backup)\b",
    ),
    signal(
        "pipe",
        3,
        "env |printenv|history|bash_history|zsh_history|python_history|id_rsa|.ssh|.aws|.env"
        "|.netrc|.git-credentials|/etc/passwd|/etc/shadow|.gnupg|.kube|cookies|wallet|keychain"
        "|security find|credential fill|set |.npmrc",
        r"(?:(?:^|[`$(;&|] ?|\b(?:run|execute|do) [`'\"]?)(?:env|printenv|history)|(?:\.ssh|id_rsa"
        r"|id_ed25519|\.aws|\.env|\.netrc|\.git-credentials|/etc/(?:passwd|shadow)|\.gnupg"
        r"|\.kube/config|cookies\S{0,12}|wallet\S{0,12}|_history|\.npmrc|credential fill"
        r"|find-generic-password)[^\n|`]{0,60}) ?\|[^\n]{0,80}\b(?:curl|wget|nc|ncat|netcat|telnet"
        r"|socat|sendmail|mail|nslookup|scp|openssl s_client|http)\b",
        code=True,
    ),
    signal(
        "pipe",
        3,
        "curl|wget|http post|scp |rsync |nc ",
        r"\b(?:curl|wget|scp|rsync|nc|http)\b[^\n]{0,160}(?:@|<|\$\(cat |`cat | -t |scp |rsync )"
        r"['\"]{0,2}(?:\x7e|\$home|\$\{home\}|/root|/home/\w{1,20}|\.)?[^\s'\"|]{0,24}"
        r"(?:/\.ssh|id_rsa|id_ed25519|\.aws/|/\.env\b|@\.env\b|\.netrc|_history|\.gnupg"
        r"|/etc/passwd|/etc/shadow|\.git-credentials|\.kube/config|\.npmrc|cookies\.|wallet\.)",
        code=True,
    ),
    signal(
        "pipe",
        3,
        "nslookup|dig |ping |host ",
        r"\b(?:nslookup|dig|ping|host)\b [^\n]{0,40}\$\([^\n]{0,80}\)\.[\w-]",
        code=True,
    ),
    signal(
        "pipe",
        3,
        "os.environ|process.env|dict(os|stringify(process|getenv()",
        r"\b(?:post|put|urlopen|fetch|request|send\w{0,8}|axios)\b[^\n]{0,140}(?:dict\(os\.environ"
        r"|os\.environ(?:\.copy\(\))?[)},]|stringify\(process\.env\)|process\.env[)},])",
        code=True,
    ),
    signal(
        "image",
        3,
        "![",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,120}[?&/][\w-]{0,20}=?(?:\{|<|\[|%7b|\$"
        r"|[a-z_]{3,20}\))[^\n]{0,60}(?:\b(?:replac\w{1,4}|substitut\w{1,4}|insert\w{0,3}"
        r"|encod\w{1,3}|base64|user'?s?|conversation|summary|message|secret|history|context)\b)",
    ),
)
SIGNALS: tuple[Signal, ...] = (*_OVERRIDES, *_CLAIMS, *_CARRYING)
