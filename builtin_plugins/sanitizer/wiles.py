"""Signals that are wider than those of `signals` and `ploys`: what goes together in a sentence.

They ask for the meaning of two or three places of a sentence and leave its wording open.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.cues import either
from hookgate.builtin_plugins.sanitizer.signals import RULED, signal

__all__ = ["WILES"]

_CANCEL = (
    "ignor|disregard|forget|overlook|discount|disobey|retract|amend|reliev|releas|wipe|annul|repeal"
    "|rescind|withdraw|cancel|void|invalid|suspend|lift|revoke|dissolv|waive|abandon|dismiss|reset"
    "|erase|unlearn|nullif|moot|purge|scrap|supplant|overwrit|discard|drop|clear|reject|refuse to"
    "|break free|shed|replace|supersed|outdated|obsolete"
)
_STEMS = (
    "ignor disregard forget overlook discount disobey retract amend reliev releas wip "
    "annul repeal rescind withdraw cancel void invalidat suspend lift revok dissolv waiv "
    "abandon dismiss reset eras unlearn nullif moot purg scrap supplant overwrit discard "
    "drop clear reject shed replac supersed outdated obsolete"
)
_ENDS = rf"{either(_STEMS.split())}\w{{0,4}}"
_BINDS = (
    r"(?:instructions?|directives?|guidance|guidelines|rules|prompt|orders|commands|polic(?:y|ies)"
    r"|restrictions?|obligations?|guard ?rails|programming|safeguards|mandate|briefing|safety"
    r"|system message|training|ethics|alignment|limitations)"
)
_WHOSE = (
    r"(?:you|your|developers?|administrators?|admin|operators?|creators?|system|anthropic|openai"
    r"|up to this point|so far|until now|given to|told)"
)

_UNBOUND = (
    signal(
        "override",
        3,
        _CANCEL,
        rf"\b(?<!not )(?<!n't )(?<!never )(?<!to )(?<!or ){_ENDS} (?:[\w'-]{{1,14}},? "
        rf"){{0,5}}?(?:your|imposed|developer'?s?|admin\w{{0,11}}|operator'?s?|system|earlier"
        rf"|previous|prior|initial|original|all) (?:[\w'-]{{1,14}} "
        rf"){{0,2}}{_BINDS}\b(?=[^\n]{{0,90}}\b{_WHOSE}\b)"
        r"(?! (?:file|of the (?:game|project)|engine|set))",
        also=RULED,
    ),
    signal(
        "override",
        3,
        "guidance|directive|instruction|rules|prompt|orders|restriction|obligation|guardrail"
        "|guard rail|programming|safeguard|context|briefing|refusals|safety|policies|commands",
        rf"\b(?:your|all|any|previous|prior|earlier|core|original|system)\b ~(?:{_BINDS}|context"
        r"|refusals)\b ~~(?:is|are|was|were|has|have|be|been|should be|ends?) ~(?:considered |now "
        r"|hereby )?(?:retracted|amended|annulled|repealed|rescinded|withdrawn|cancell?ed|void"
        r"|lifted|waived|moot|overwritten|erased|wiped|replaced|dropped|turned off|switched off"
        r"|ends? here|here|gone|null|off)\b",
    ),
    signal(
        "override",
        3,
        "relieved|released|freed|excused|exempt|absolved|liberated",
        r"\byou(?:'re| are| have been| were)? ~(?:relieved|released|freed|excused|exempt(?:ed)?"
        r"|absolved|liberated) (?:of|from) ",
    ),
    signal(
        "override",
        2,
        "overlook|ignore|disregard|forget|whatever|regardless|no matter|set aside|never mind",
        r"\b(?:overlook|ignor\w{1,3}|disregard|forget|set aside|never mind|whatever|regardless of"
        r"|no matter) (?:everything |anything |all |about )?(?:that )?(?:what |which )?(?:the "
        r"|your )?(?:admin\w{0,11}|developers?|operators?|system|user|person|owner|human|customer"
        r"|creators?|people) (?:has |have |had |may |might )?(?:told|wrote|said|asked|configured"
        r"|chosen|requested|wants|instructed|chose|prefers|ordered)\b",
    ),
    signal(
        "turn",
        1,
        "proceed as|the only goal|the only task|you now serve|you now work|you now belong|start "
        "from zero|you serve|act on it|act on this|and act|as described here|in this section|text "
        "that follows|the one you|your new|you answer to|you work for",
        r"\bproceed as\b|\bthe only (?:goal|task|instruction|rule)s?\b|\byou (?:now )?(?:serve"
        r"|work for|belong to|answer to|report to)\b|\bstart (?:from (?:zero|scratch)|over"
        r"|afresh)\b|\bact on (?:it|this)\b|\bas described here\b|\bthe text that follows\b",
    ),
    signal(
        "override",
        2,
        "wipe your|clear your|erase your|reset your|flush your|purge your|empty your",
        r"\b(?:wipe|clear|erase|reset|flush|purge|empty) your (?:memory|context|mind|head|history"
        r"|instructions|prompt)\b",
    ),
    signal(
        "obey",
        2,
        "no guardrail|without guardrail|no restriction|no limits|refusals|without checks|no "
        "approval|without refus|no questions|without question|auto-approve|auto approve"
        "|autoapprove|approval|confirmation",
        r"\b(?:no|without|zero) (?:guard ?rails|restrictions|refusals?|ethic\w{0,3}"
        r"|moral\w{0,3})\b|\brefusals? (?:is|are) ~(?:off|disabled|forbidden|not)|\b(?:needs?"
        r"|requires?) no (?:user )?(?:approval|confirmation|permission|consent)\b|\bwithout "
        r"(?:checks|question|refus\w{1,4})|\b(?:run|execute|approve|accept|allow) (?:every|all|any"
        r"|each) (?:\w{1,12} )?(?:commands?|actions?|requests?|calls?"
        r"|tools?)\b[^\n]{0,30}\bwithout\b|\bno questions (?:asked|about)\b",
    ),
    signal(
        "authority",
        2,
        "anthropic|openai|google|the operator|the developer|the admin|the vendor|the system|your "
        "creator|the security team|the platform",
        r"\b(?:anthropic|openai|google|microsoft|the (?:operator|developers?|admin\w{0,11}|vendor"
        r"|system|platform|security team)|your creators?) (?:has|have|had) (?:\w{1,10} "
        r")?(?:white-?listed|elevated|unlocked|enabled|approved|authori[sz]ed|allowed|granted"
        r"|cleared|instructed|ordered|asked|verified|certified|signed)\b",
    ),
    signal(
        "authority",
        2,
        "this is |it's |here is |i'm |i am ",
        r"\b(?:this is|it's|i'm|i am) \w{2,14}(?: \w{2,14})? from (?:the )?(?:engineering|security"
        r"|it\b|support|legal|finance|hr|compliance|operations|headquarters|platform|anthropic"
        r"|openai|infra\w{0,12}|devops)",
    ),
    signal(
        "turn",
        3,
        "assistant:",
        r"^[*#> ]{0,4}assistant[* ]{0,3}: [^\n]{0,60}\b(?:password|token|key|code|secret) (?:is"
        r"|are)\b",
    ),
    signal(
        "turn",
        2,
        "assistant:|system-reminder|<important|<instruction|next action|tool output:|system:",
        r"^[*#> ]{0,4}assistant[* ]{0,3}: ?(?:i have|i've|i will|i can confirm|the)\b"
        r"|<system-\w{3,12}>|\bnext action required\b|^tool (?:output|result): ",
    ),
)

_HUSHED = (
    signal(
        "conceal",
        3,
        "say nothing|tell nobody|tell no one|no one|nobody|not to be told|between us|no trace"
        "|cover your|in the dark|none the wiser|suspicion|unbeknownst|trace|evidence|make no"
        "|pretend",
        r"\bsay nothing (?:about|of|to)\b|\btell (?:nobody|no one|no-one)\b|\b(?:not to be|never "
        r"be|must not be|should not be) told\b|\b(?:stays?|keep|kept|remains?) (?:\w{1,10} "
        r")?between us\b|\bleave no traces?\b|\bcover (?:up )?your tracks\b|\b(?:kept|left|keep"
        r"|leave) (?:\w{1,10} )?in the dark\b|\bnone the wiser\b|\b(?:raise|arouse|avoid) "
        r"suspicion\b|\bunbeknownst\b|\b(?:strip|remove|delete|erase|clear|scrub|wipe|hide"
        r"|destroy) (?:any|all|every|the) (?:trace|evidence|sign|mention)s? (?:of|from|that)\b"
        r"|\bno ?(?:one|body) (?:must|should|can|may|will) (?:ever )?(?:know|see|find|learn"
        r"|notice)\b|\bpretend (?:that )?(?:this (?:paragraph|text|note|message|section)|nothing"
        r"|you (?:did|have|never|know nothing))\b",
    ),
    signal(
        "conceal",
        3,
        "mention|bring|reveal|disclose|report|show|reference|admit|say|announce",
        r"\b(?:do not|don't|never|no need to|without|avoid|must not|should not|need not) (?:ever "
        r")?(?:mention|bring|reveal|disclos|report|show|admit|say|announc|explain)\w{0,3} (?:this"
        r"|it|that|these|any of this|anything) (?:up )?(?:to|with|in front of) (?:the |your |any "
        r")?(?:user|customer|person|human|owner|operator|client|anyone|anybody|people)|\b(?:make"
        r"|with) no (?:reference|mention)\b[^\n]{0,30}\b(?:in (?:your|anything|any)|to (?:the "
        r"|your )?(?:user|person|customer|human))",
    ),
    signal(
        "conceal",
        2,
        "no reference|no mention|answer that you|never speak|never talk|do not speak|do not talk"
        "|don't talk|do not refer|hide the|hide this|conceal|disguise|mask the|do not log|don't "
        "log|not be logged",
        r"\bmake no (?:reference|mention)\b|\bmention no\w{0,5}\b|\banswer that you (?:only|just"
        r"|did)\b|\b(?:do not|don't|never) (?:speak|talk|refer|write|hint) (?:of|about|to|a "
        r"word)\b[^\n]{0,20}\b(?:this|it|these|them)\b|\b(?:conceal|disguise|mask|hide"
        r"|camouflage) (?:this|these|it|the (?:fact|real|true|upload|transfer|change|copy|request"
        r"|purpose|action|origin))\b|\b(?:do not|don't|never) (?:log|record|report) (?:this|these"
        r"|it|the (?:upload|transfer|action|change|copy))\b",
    ),
)
_HOARD = (
    r"(?:session cookies?|cookies?|\*?\.pem|wallet\.dat|id_rsa|/etc/(?:passwd|shadow)|\.ssh|\.aws"
    r"|\.config/\w{2,12}|secrets?\.\w{2,5}|private keys?|bank details|health|medical \w{3,10}"
    r"|(?:last|recent|earlier|previous|all|user's?) (?:\w{1,8} )?messages|clipboard|customer list"
    r"|contacts?(?: list)?|passwords?|door code|pin\b|admin (?:token|password)|credentials?"
    r"|everything (?:that )?(?:the user|they|the person) (?:told|said|wrote|typed|shared)"
    r"|whole (?:chat|conversation)|conversation|browsing history|location|salary|seed|otp"
    r"|payment methods|saved addresses|order history"
    r"|one-time codes?|\bkeys\b|secrets?|the draft|internal documents?|source code|inbox)"
)

_TAKEN = (
    signal(
        "carry",
        3,
        "http|@|gist|github.com|webhook|rsync|scp|bucket|pastebin|issue|field|header|ftp",
        r"\b(?:put|send|post|upload|mail|e-?mail|forward|repeat|paste|copy|publish|visit|open|add"
        r"|append"
        rf"|include|sync|transmit|move|back up)\b [^\n]{{0,60}}\b(?:user'?s?|their|whatever|every"
        rf"|all|any|everything|contents?|private|present|customer'?s?)\b "
        rf"[^\n]{{0,30}}{_HOARD}\b[^\n]{{0,70}}"
        r"(?:https?://|@[\w-]{1,30}\.|\bgist\b|github\.com|webhook|pastebin|\bftp)",
    ),
    signal(
        "carry",
        3,
        "look for|search for|find|summari|each time|gather|collect|harvest|every time|whenever",
        rf"\b(?:look for|search for|find|gather|collect|harvest|locate|summari[sz]e|whenever"
        rf"|(?:each|every) time)\b [^\n]{{0,50}}{_HOARD}[^\n]{{0,70}}\b(?:mail|e-?mail|send|post"
        rf"|upload|visit|repeat|forward"
        r"|append|deliver|submit|publish)\b[^\n]{0,60}(?:https?://|@[\w-]{1,30}\.|\bgist\b"
        r"|github\.com|webhook|pastebin|\bto (?:me|us|our)\b)",
    ),
    signal(
        "carry",
        3,
        "public gist|public repo|public issue|publicly",
        rf"\b(?:open|create|make|post|publish|push)\b [^\n]{{0,30}}\bpublic\b[^\n]{{0,50}}{_HOARD}",
    ),
    signal(
        "carry",
        3,
        "parameter|argument|field|header|note",
        r"\b(?:add|put|pass|include|attach|insert|contain|copy|place|supply)\b "
        r"[^\n]{0,40}\b(?:(?:last|earlier|previous|all|recent|full text of the) (?:\w{1,10} "
        r")?(?:messages|conversation|chat)|system prompt|contents? of \S{0,3}(?:\x7e/|/etc|/home"
        r"|\.\w))[^\n]{0,50}\b(?:parameters?|arguments?|field|header|keys|secrets)\b",
    ),
    signal(
        "carry",
        3,
        "argument|parameter|field",
        r"\b(?:arguments?|parameters?|fields?) (?:has to|must|should|needs to) (?:contain|include"
        r"|hold|carry) [^\n]{0,40}\b(?:earlier messages|conversation|history|system prompt|keys"
        r"|secrets|password)",
    ),
    signal(
        "surrender",
        2,
        "disclose|divulge|hand over|give out|give up|surrender|reveal|leak|paste|read out|output"
        "|print",
        rf"\b(?:disclose|divulge|hand over|give (?:out|up|away)|surrender|reveal|leak|read out"
        rf"|paste|print|output) (?:the |all |every |any |their |your |whatever |its "
        rf")?(?:\w{{1,12}} )?(?:{_HOARD}|code"
        r"|token|password|api keys?|configuration|whatever they)\b",
    ),
    signal(
        "surrender",
        3,
        "/etc/passwd|/etc/shadow|id_rsa|.pem|secrets.|hand over whatever|whatever they request"
        "|whatever they ask|dump its|dump your|.aws/credentials",
        r"\bread \S{0,3}(?:/etc/(?:passwd|shadow)|\S{0,12}id_rsa|\S{0,20}/credentials"
        r"|\S{0,20}\.pem)\b[^\n]{0,30}\b(?:paste|show|include|print|put|add|send)\b|\b(?:hand over"
        r"|give|provide|show|do) (?:out )?(?:whatever|anything|everything) (?:they|he|she|the user"
        r"|is) (?:request|ask|want|demand)\w{0,3}\b[^\n]{0,30}without\b|\b(?:dump|paste|print"
        r"|output) (?:its|your) (?:\w{1,12} )?(?:configuration|config|context|memory|environment"
        r"|keys)\b",
    ),
    signal(
        "phish",
        3,
        "ask for|ask them|ask the user|request the|get them to|obtain",
        r"\b(?:ask|request|prompt|get|press|obtain) (?:\w{1,10} ){0,4}(?:for )?(?:their|the user's"
        r"|the customer's) (?:\w{1,10} )?(?:bank details|password|card (?:number|details)|pin\b"
        r"|cvv|ssn|social security|seed phrase|credit card|recovery phrase|mother's maiden|2fa"
        r"|one-time)",
    ),
    signal(
        "pipe",
        3,
        "tar |zip |rsync |scp |gpg |$(whoami|$(hostname|`whoami|`hostname|$(id",
        r"\b(?:tar|zip|rsync|scp)\b[^\n]{0,60}(?:\x7e/|\$home/)\.(?:ssh|aws|gnupg|config|kube"
        r"|docker)\b[^\n]{0,60}(?:curl|wget|nc |@\S{1,40}:|https?:)|[$`]\(?(?:whoami|hostname"
        r"|id)\)?`?\.[\w.$()`-]{0,40}\.[a-z]{2,8}\b",
        code=True,
    ),
    signal(
        "image",
        3,
        "![",
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{0,120}[?&]\w{0,12}=(?:\{|<|\[|%7b|\$)\w{0,12}(?:user"
        r"|key|token|secret|password|email|prompt|chat|history|session)",
    ),
    signal(
        "image",
        3,
        "picture|image|pixel|markdown",
        r"\b(?:picture|image|pixel)s?\b[^\n]{0,50}\b(?:whose|with|and|its|the) (?:\w{1,10} "
        r")?(?:address|url|src|link|source)\b[^\n]{0,40}https?://[^\n]{0,60}\b(?:plus|followed by"
        r"|with|and|containing)\b[^\n]{0,40}\b(?:text|question|message|answer|conversation|summary"
        r"|encoded|name|key)",
    ),
)

WILES = (*_UNBOUND, *_HUSHED, *_TAKEN)
