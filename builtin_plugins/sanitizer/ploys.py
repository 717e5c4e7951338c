"""Signals of what an attack wants done: run this, destroy that, stay, steer, favour, obey.

Kinds and weights are as in `signals`.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.signals import signal

__all__ = ["PLOYS"]

_RUNNING = (
    signal(
        "remote",
        2,
        "http",
        r"\b(?:fetch|download|get|load|visit|open|read|retrieve|pull|grab|go to|browse)\b ~~"
        r"[^\n]{0,12}https?://[^\s]{1,120}[^\n]{0,24}\b(?:and|then|,)[^\n]{0,24}\b(?:run|execut\w"
        r"{1,3}|follow|do what|obey|apply|carry out|eval|comply|source|launch)\b(?! the (?:test"
        r"|example|quick))",
    ),
    signal(
        "remote",
        2,
        "tasks from|commands from|orders from|instructions from|directives from|directions from",
        r"\b(?:fetch|get|load|pull|take|read|poll|receive|retrieve) (?:[\w']{1,12} ){0,3}(?:tasks"
        r"|commands|orders|instructions|directives|directions) from [`'\"<]?(?:https?://|the "
        r"(?:server|url|address|site))",
    ),
    signal(
        "remote",
        3,
        "do what|does what|do whatever|do as|do exactly|do everything|carry out|perform|complete"
        "|obey|follow|execute",
        r"\b(?:do|does|perform|execute) (?:exactly )?(?:what|whatever|as|everything|anything) "
        r"(?:that )?(?:it|they|the (?:page|file|site|server|response|reply|url|link|string|text"
        r"|message|document|website|result)|this (?:page|file|url)) (?:asks?|says?|tells?"
        r"|instructs?|commands?|orders?|demands?|requests?|specif\w{1,4})\b|\b(?:carry out|obey"
        r"|follow|execute|perform) (?:the |any |all |its |whatever )?(?:commands?|orders|tasks?"
        r"|instructions?) (?:\w{1,8} )?(?:it (?:returns?|contains?|gives?)|(?:on|from|at|in) "
        r"(?:the |that )?(?:page|remote|url|website|server|site|response|https?:))",
    ),
    signal(
        "remote",
        3,
        "exec(|eval(|powershell|pwsh|eval |mshta|regsvr32|rundll32|certutil",
        r"\b(?:exec|eval)\((?:\w{0,12}\()?(?:urllib|requests\.|urlopen|base64|__import__|fetch"
        r"|atob|zlib|codecs)|\b(?:powershell|pwsh)(?:\.exe)?\b[^\n]{0,40} -e(?:nc|ncodedcommand)?"
        r" [a-z0-9+/=]{6}|\beval [\"']?\$\((?:curl|wget)|\bmshta https?:|\bcertutil[^\n]{0,24}"
        r"-urlcache",
        code=True,
    ),
    signal(
        "urge",
        1,
        "before anything else|before doing anything|does not work|will not work|first of all"
        "|before you start|before you begin|before you continue|first fetch"
        "|first download|first run|first read|first open|first send|first, fetch|first, download"
        "|first, run|first, read|first, open|first, send",
        r"\bbefore (?:doing )?anything else\b|\b(?:does|will) not work (?:otherwise|without)\b"
        r"|\bfirst of all\b|\bbefore you (?:start|begin|continue)\b|^\W{0,4}first,?"
        r" (?:fetch|download|run|read|open|send)",
    ),
)

_DAMAGE = (
    signal("address", 1, "http", r"\b(?:from|to|at|see|visit|fetch|load|with) [`'\"<]?https?://"),
    signal(
        "destroy",
        3,
        "rm |remove-item|del |rmdir|shred|format ",
        r"\brm (?:-\w{1,8} ){1,3}[`'\"]{0,2}(?:\$\{?home\}?|\x7e|/home/[\w$]{1,20}"
        r"|/users/[\w$]{1,20}|c:\\users)[`'\"]{0,2}(?:/(?:documents|desktop|pictures|downloads"
        r"|projects|photos|\*|\.ssh|\.git))?/?\*?[`'\"]{0,2}(?=[\s`;&|)]|\.?$|\.\s)|\bshred "
        r"(?:-\w{1,8} ){0,3}(?:\x7e|/home)",
        code=True,
    ),
    signal(
        "destroy",
        2,
        "delete|remove|wipe|erase|drop|destroy|purge|truncate|overwrite|shred|force-push|force "
        "push",
        r"\b(?:delete|remove|wipe|erase|drop|destroy|purge|truncate|overwrite|shred|empty|clear)"
        r" (?:all|every|each|any|the (?:entire|whole|user'?s?)) (?:of )?(?:the |their )?"
        r"(?:[\w']{1,14} ){0,2}(?:files?|tables?|tags?|branch(?:es)?|backups?|records?|rows|data"
        r"|databases?|folders?|documents?|e-?mails?|messages?|history|repos?\w{0,8}|disks?|photos"
        r"|customers|users|accounts|logs|snapshots|volumes|buckets)\b(?! (?:older|that|which|with"
        r"|where|in this|matching|from (?:this|the (?:list|cart)))|\?)",
    ),
    signal(
        "stakes",
        1,
        "production|home folder|home directory|backups|force-push|without asking|then close|once"
        "|last step|afterwards|when done|finished|as soon as|whenever|instead|then ",
        r"\b(?:in|from|on) (?:the )?(?:\w{1,12} )?production\b|\bhome (?:folder|directory)\b"
        r"|\bforce-?push\b|\bonce (?:the|you|it|this|that|they)\b|\b(?:last|final) step\b"
        r"|\bafterwards\b|\bwhen (?:you are )?(?:done|finished)\b|\bas soon as\b|, then\b"
        r"|\bwithout (?:asking|confirm)",
    ),
    signal(
        "destroy",
        3,
        "encrypt",
        r"\bencrypt ~(?:the |all |every |any )(?:[\w']{1,14} ){0,3}(?:files?|disk|folder|data"
        r"|drive|documents?|repo\w{0,8})\b[^\n]{0,60}(?:random|do not (?:store|keep|save)|don't "
        r"(?:store|keep)|discard|throw away|delete) ?~(?:password|key|it\b|them|passphrase)",
    ),
)

_STAYING = (
    signal(
        "persist",
        1,
        "agents.md|claude.md|soul.md|memory.md|gemini.md|heartbeat.md|.cursorrules|copilot-instr"
        "|system prompt|memory",
        r"\b(?:append|add|write|insert|save|put|copy|paste|store|inject)\b[^\n]{0,70}\b(?:to|into"
        r"|in) (?:the |your |its |every |each |any )?[`'\"]?(?:\x7e?/?[\w./]{0,20})AGENTFILE",
    ),
    signal(
        "later",
        1,
        "later session|future|every session|each session|permanent|always|forever|from now on|next"
        "|each start|every start|restart|reload|later",
        r"\b(?:later|future|every|each|next|subsequent|all) (?:\w{1,10} )?(?:sessions?"
        r"|conversations?|starts?|restarts?|runs?|agents?|turns?)\b|\bpermanently\b|\bforever\b"
        r"|\bfrom now on\b",
    ),
    signal(
        "persist",
        3,
        ">>|tee -a|crontab -|crontab,",
        r"(?:curl|wget|nc|bash -[ci]|python3? -c|base64)\b[^\n]{0,120}(?:>>|tee -a) ?[\"'`]?"
        r"(?:\x7e|\$home)?/?\S{0,20}RC|\b(?:curl|wget)\b[^\n]{0,90}\| ?crontab -",
        code=True,
    ),
    signal(
        "persist",
        3,
        "copy this|replicate|propagate|spread|add this|insert this|paste this|include this",
        r"\b(?:copy|replicate|propagate|spread|add|insert|paste|include) (?:this|these)"
        r" (?:\w{1,12} )?(?:skill|text|prompt|file|instructions?|message|paragraph|note|block)?"
        r" ?~(?:in)?to (?:every|all|each|any) (?:other )?(?:\w{1,12} )?(?:skills?|files?|folders?"
        r"|prompts?|repos?\w{0,8}|documents?|readmes?|e-?mails?|messages?|projects?|agents?)\b",
    ),
    signal(
        "persist",
        2,
        "remember |memorize|memorise|store in|keep in mind|save to",
        r"\b(?:remember|memori[sz]e) (?:this|the following|that)? ?(?:permanently|forever|for "
        r"(?:all|every)|across)",
    ),
    signal(
        "trigger",
        1,
        "when the user|if the user|whenever|when someone|if someone|when anybody|if asked|when "
        "asked|once the date|when the word|if the word|when the phrase|if anyone|if a customer|if "
        "they|when they|if the date|when a user|if a user",
        r"\b(?:if|when|whenever|once|as soon as) (?:the |a |an )?(?:PEOPLE|someone|somebody"
        r"|message|conversation|date|time|word|code) ~(?:asks?|mentions?|says?|types?|writes?"
        r"|contains?|requests?|wants?|is|appears?|reaches)\b|\b(?:if|when) asked\b|\bwhenever "
        r"~(?:used|called|sent|mentioned)\b",
    ),
)

_STEERING = (
    signal(
        "steer",
        3,
        "when |whenever |if |each time|every time|before calling|before using|after calling",
        r"\b(?:when|whenever|if|each time|every time|before|after) (?:the |you |using |calling "
        r"|any |another )?(?:call |use |calling |using )?(?:the "
        r")?[`'\"]?\w{2,20}_\w{2,24}[`'\"]?(?: tool| function)?(?: is| gets)?(?: used| called| "
        r"invoked| available| present)?,? ~(?:add|set|change|replace|insert|append|forward"
        r"|redirect|substitute|swap|use)\b ~~(?:bcc|cc|recipient|to\b|amount|destination|account"
        r"|address|argument|parameter|field)",
    ),
    signal(
        "steer",
        3,
        "is available|is used|is called|is invoked|is present|are available|are used",
        r"\b(?:when|whenever|if) (?:the |any |an? |another )?[`'\"]?[\w-]{2,24}[`'\"]? (?:tool"
        r"|function|server) (?:is|are) (?:available|used|called|invoked|present"
        r"|also)\b[^\n]{0,30}\b(?:add|set|change|replace|insert|append|redirect|substitute|swap"
        r"|forward|pass)\b",
    ),
    signal(
        "steer",
        2,
        "other tool|another tool|any tool|every tool|all tools|other function|other server",
        r"\b(?:before|prior to|instead of|ahead of) (?:using |calling |invoking )?(?:every|any|all"
        r"|each) (?:other )?(?:tools?|functions?|servers?)\b(?! (?:call|that|which))",
    ),
    signal(
        "scoop",
        1,
        "whole conversation|entire conversation|full conversation|conversation history|whole "
        "history|full history|full context|entire context|whole context|complete conversation"
        "|full prompt",
        r"\b(?:whole|entire|full|complete) (?:conversation|history|context|chat|prompt|transcript"
        r"|message history)\b",
    ),
    signal(
        "steer",
        3,
        "deprecated|dangerous|broken|insecure|unsafe|compromised|unreliable|disabled|obsolete"
        "|infected|malicious|outdated",
        r"\b(?:tools?|functions?) [`'\"]?\w{2,30}[`'\"]? (?:is|are|has been) ~(?:deprecated"
        r"|dangerous|broken|insecure|unsafe|compromised|unreliable|disabled|infected|obsolete"
        r"|malicious|outdated)\b[^\n]{0,60}\b(?:always|only|instead|must|exclusively)\b ?~[`'\"]?"
        r"\w{2,20}",
    ),
    signal(
        "steer",
        3,
        "do not use|don't use|never use|never call|do not call|stop using|refuse to use",
        r"\b(?:do not|don't|never|stop|refuse to) (?:use|call|using|calling) (?:any |the "
        r")?(?:other )?(?:\w{1,14} )?(?:tools?|functions?|servers?|skills?) ?(?:other than|except"
        r"|but|besides|apart from) (?:this|the one|`?\w)",
    ),
    signal(
        "stubborn",
        1,
        "even if the|even when the|even where|regardless of what|no matter what|whatever the user"
        "|despite",
        r"\beven (?:if|when) (?:the |a )?PEOPLE (?:asks?|wants?|insists?|says?|objects?|tells?"
        r"|requests?|prefers?|explicitly|declines?|refuses?)\b|\beven (?:where|if|when) (?:it"
        r"|they) (?:does|do|is|are)(?: not|n't)\b|\b(?:regardless of|no matter) what\b",
    ),
    signal(
        "trigger",
        1,
        "code word|codeword|keyword|the word|the phrase|secret phrase|passphrase|magic word",
        r"\b(?:code ?word|secret phrase|magic word|trigger (?:word|phrase))\b|\b(?:says?|types?"
        r"|writes?|mentions?) (?:the )?(?:word|phrase)\b",
    ),
    signal(
        "obey",
        3,
        "switch off|turn off|disable|skip|bypass|obey|comply with|drop |suspend|lift",
        r"\b(?:switch off|turn off|disable|skip|bypass|suspend|lift|drop) (?:all|any|every|your"
        r"|the) (?:\w{1,12} )?(?:safety|checks|filters?|safeguards?|guard ?rails|restrictions"
        r"|moderation|safety checks|approval prompts?|permission prompts?|security checks)\b(?! "
        r"(?:for|when|in) (?:test|ci|local|dev))|\bobey (?:them|him|her|me|every|any|all|whoever"
        r"|whatever|the (?:next|speaker|caller))\b|\bcomply with (?:every|any|all|each|whatever) "
        r"~(?:requests?|commands?|orders?|demands?)",
    ),
    signal(
        "obey",
        2,
        "safety check|safety filter|approval prompt|approval step|content filter|guardrail"
        "|safeguards|content policy|restrictions",
        r"\b(?:safety (?:checks?|filters?)|content (?:filters?|polic(?:y|ies))|guard ?rails"
        r"|safeguards|restrictions) (?:are|is|have been|were) ~(?:off|disabled|lifted|suspended"
        r"|gone|inactive|void|removed)\b|\bskip (?:the |all |any )?(?:approval|confirmation"
        r"|permission|consent) ?(?:prompts?|steps?|dialogs?|requests?)?\b",
    ),
    signal(
        "obey",
        2,
        "stop doing|stop working|abandon the|abort the|stop the task|cancel the|instead of the "
        "task",
        r"\b(?:stop|abandon|abort|cancel|quit) (?:doing |working on |with )?(?:the|your|this|any"
        r"|whatever) (?:\w{1,10} )?(?:task|job|work|assignment)\b",
    ),
    signal(
        "junk",
        1,
        "advert|promot|nonsense|gibberish|only the word|only output|print only|output only",
        r"\b(?:print|output|answer|reply|respond|write|produce) ~only\b|\b(?:only|nothing but) "
        r"(?:\w{1,8} )?(?:advert\w{0,10}|promotion\w{0,3}|nonsense|gibberish)",
    ),
)

_FAVOURS = (
    signal(
        "bias",
        2,
        "on top|first|above|favour|favor|best|recommend|prefer|promote|mention|praise|highlight"
        "|suggest|plug",
        r"\balways (?:put|place|rank|list|present|choose|pick|favou?r|rate) ~~(?:on top|at the top"
        r"|first|above|as the best|favou?rably|over|ahead)\b|\b(?:always|must) (?:recommend"
        r"|promote|praise|endorse|plug|advertise|favou?r) (?!that|the user|us|a |an |using"
        r"|test)[\w.-]{2,20}|\b(?:mention|recommend|praise|promote|plug|advertise|link to|endorse"
        r"|bring up) ~~(?:in|at|to|on) (?:each|every|all|any) (?:\w{1,10} )?(?:reply|replies"
        r"|answers?|responses?|messages?|conversations?|outputs?)\b",
    ),
    signal(
        "smear",
        1,
        "describe the other|describe other|describe all|the others as|others as|competitors"
        "|alternatives as|rivals|unreliable|inferior|downsides|weaknesses|negative",
        r"\b(?:describe|portray|present|call|paint|dismiss|list|rank) ~(?:others?|competitors?"
        r"|competing|alternatives?|rivals?|rest)\b|\b(?:has|have|with|mention|list|find) no "
        r"(?:weaknesses|downsides|drawbacks|flaws|risks|issues)\b",
    ),
    signal(
        "bias",
        2,
        "score|rate |grade|mark |give |award|rating|review",
        r"\b(?:score|rate|grade|mark|give|award) (?:this|it|the (?:author|candidate|submission"
        r"|paper|essay|applicant|skill|package|product|code))\b ~(?:a |an |as |with )?(?:10|5|100"
        r"|ten|five|full|perfect|maximum|highest|top|a\+|excellent|pass|positive|acceptance"
        r"|strong)",
    ),
    signal(
        "whitewash",
        2,
        "safe|harmless|clean|reviewed|verified|benign|trusted|approved|secure|no finding|no issue"
        "|no problem|no vulnerab|no threat|not malicious|no concern|no risk",
        r"\b(?:say|report|state|claim|answer|tell|respond|conclude|write|assure|confirm|note"
        r"|reply)\b ~(?:that )?(?:it|this|they|(?:the|this) \w{2,14}) (?:is|was|are|were|has been"
        r"|have been) (?:\w{1,12} (?:and )?){0,3}(?:safe|harmless|clean|reviewed|verified|benign"
        r"|trusted|approved|secure|legitimate)\b|\b(?:report|return|list|raise|flag|find|give) "
        r"(?:no|zero) (?:\w{1,10} )?(?:findings?|issues?|problems?|vulnerabilit\w{1,3}|threats?"
        r"|concerns?|risks?)\b",
    ),
    signal(
        "whitewash",
        2,
        "this file|this skill|this code|this package|this repo|this extension|this plugin|this "
        "text|this tool|this document|this submission",
        r"\bthis (?:file|skill|code|package|repo\w{0,8}|extension|plugin|text|tool|document"
        r"|submission) (?:is|was|has been) (?:\w{1,12} ){0,2}(?:clean|safe|benign|harmless|trusted"
        r"|verified|approved|pre-?approved|audited|whitelisted|reviewed)\b",
    ),
    signal(
        "reader",
        1,
        "scanner|auditor|reviewer|grader|evaluator|moderator|assistants|agents|ai |ais|models|llms"
        "|classifier|if asked|when asked|bots",
        r"(?:^\W{0,4}|[.!>(] |-- ?|# ?|\()(?:note (?:to|for) |dear |attention,? )?(?:all |any "
        r"|the )?(?:\w{1,12} )?(?:scanners?|auditors?|reviewers?|graders?|evaluators?|moderators?"
        r"|assistants?|agents?|ais?|models?|llms?|bots?|classifiers?) ?[:,]|\b(?:if|when) (?:the "
        r"user )?ask(?:ed|s) (?:whether|if|about)\b",
    ),
    signal(
        "lie",
        2,
        "tell them|tell the user|tell him|tell her|say that|claim that|pretend|lie |deny|make up"
        "|invent",
        r"\b(?:tell (?:them|the user|him|her|PEOPLE)|say|claim|pretend|insist) (?:that )?(?:[\w']"
        r"{1,14} ){1,5}(?:do not exist|does not exist|is impossible|are impossible|unavailable"
        r"|is lost|not possible|is down|no longer|must (?:pay|call|install|log|buy|visit|enter)"
        r"|has expired|to (?:install|call|pay|log in|enter|buy) )",
    ),
    signal(
        "lure",
        2,
        "tell the user|ask the user|suggest|urge|convince|persuade|instruct the user|have the user"
        "|tell them|get the user|advise",
        r"\b(?:tell|ask|urge|convince|persuade|instruct|have|get|advise|suggest) (?:the |that the "
        r"|to the )?(?:PEOPLE )?(?:to )?(?:install|download|call|calling|paste|enter|type|run"
        r"|disable|share|hand over|wire|pay|buy|visit) [^\n]{0,60}(?:https?://|\d{3}-\d{4}|\.exe"
        r"|\.dmg|password|card|seed|their (?:\w{1,10} )?(?:key|code|token|pin))",
    ),
    signal(
        "leak",
        3,
        "system prompt|your full|your hidden|your initial|your original|context window|your "
        "complete|your secret|session data|system message|systemprompt|every api key|all api keys"
        "|api key",
        r"\b(?:output|print|reveal|show|display|repeat|dump|export|recite|quote|paste|disclose"
        r"|translate|encode|spell|write|give|share|list|provide|return|include)\b ~(?:your|the) "
        r"~(?:system (?:prompt|message|instructions)|(?:full|hidden|initial|original|complete"
        r"|secret|entire) (?:instructions|prompt|context|configuration|rules)|context window"
        r"|session data)\b(?! (?:is|for|with|to the (?:api|sdk))|\w)(?=[^\n]{0,40}(?:\.|,|;|:|!|$"
        r"| in full| verbatim| word| to continue| and | before| exactly))",
    ),
    signal(
        "leak",
        3,
        "every api key|all api keys|every secret|all secrets|every password|all passwords"
        "|every credential|all credentials|every token|all tokens",
        r"\b(?:list|print|show|output|reveal|dump|display|give|write|send|include)\b ~(?:every"
        r"|all) (?:the )?(?:\w{1,10} )?(?:api keys?|secrets?|passwords?|credentials?|tokens?)(?: "
        r"that)? (?:you (?:can|have|know|find|see|hold)|in (?:your|the) (?:context|memory"
        r"|environment)|stored|available)\b",
    ),
    signal(
        "encoded",
        3,
        "decode|decrypt|decipher|unscramble|rot13|first letter|base64|backwards|reversed|acrostic",
        r"\b(?:decode|decrypt|decipher|unscramble|reverse|unpack"
        r"|base64-decode)\b[^\n]{0,70}\b(?:and|then)\b ~(?:do|execute|follow|run|obey|carry out"
        r"|perform|act|comply)\b|\bfirst (?:letter|word|character)s? of (?:each"
        r"|every)\b[^\n]{0,80}\b(?:carry out|do|follow|execute|obey|command|instruction)",
    ),
)
PLOYS = (*_RUNNING, *_DAMAGE, *_STAYING, *_STEERING, *_FAVOURS)
