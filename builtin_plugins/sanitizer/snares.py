"""More of what an attack wants done, in wider terms than those of `ploys`.

Kinds and weights are as in `signals`.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.signals import signal

__all__ = ["SNARES"]

SNARES = (
    signal(
        "remote",
        3,
        "http",
        r"\b(?:download|fetch|get|retrieve)\b [^\n]{0,30}https?://\S{1,80}\.(?:bin|exe|scr|bat|ps1"
        r"|msi|elf|dmg|jar|apk|pkg)\b[^\n]{0,60}\b(?:start|run|execute|launch|open|install)\b"
        r"|\b(?:treat|regard|consider) (?:it|them|this|these|what it says|its contents?) as (?:if"
        r"|though) (?:the |it |they |it's )?(?:user|came|system|typed|were|was|your)\b"
        r"|--(?:extra-)?index-url http://\d",
    ),
    signal(
        "remote",
        3,
        "eval(|exec(|function(",
        r"\b(?:node|python3?|ruby|perl|php) -[ecr] [^\n]{0,120}https?://?[^\n]{0,80}\b(?:eval|exec"
        r"|spawn)\b|\beval\((?:\w{1,6}\+|await |response|res\.|r\.text|data)",
        code=True,
    ),
    signal(
        "destroy",
        2,
        "get rid of|restored|recover|irrevers|undone|zeros|garbage|random data|unrecoverable"
        "|destroy|wipe",
        r"\bget rid of (?:all|every|the (?:whole|entire))\b|\b(?:nothing|cannot|can't|never) "
        r"(?:can |could )?(?:be )?(?:restored|recovered|undone)\b|\bunrecoverabl|\boverwrite "
        r"(?:each|every|all|the) [^\n]{0,40}\bwith (?:zeros|zeroes|garbage|random|noise|blanks"
        r"|nonsense)",
    ),
    signal(
        "destroy",
        2,
        "backup|git history|each source|every file|database|every backup|source file|all files",
        r"\b(?:rid of|overwrite|delete|destroy|wipe|erase|remove|corrupt|scramble|ruin)\b "
        r"[^\n]{0,30}\b(?:whole|entire|every|each|all)\b [^\n]{0,40}\b(?:backups?|git history"
        r"|source files?|databases?|documents|photos|commits)\b[^\n]{0,60}\b(?:when|so that"
        r"|nothing|before|with (?:zeros|random|garbage))\b",
    ),
    signal(
        "destroy",
        3,
        "find /|find ~|change the|revoke all|reset the|lock out|dd if|:(){",
        r"\bfind (?:/|\x7e/?|\$home)(?: |\w{0,12} )[^\n]{0,60}-delete\b|\b(?:change|reset|set) "
        r"the (?:admin|root|owner|user)'?s?(?: \w{1,8})? password to\b|\b(?:revoke|remove) (?:all "
        r"|every )?other (?:users?|admins?|owners?)'?s? (?:access|rights|permissions)|\block "
        r"(?:out )?(?:all|every|the) (?:other )?(?:users?|admins?|owners?)\b",
    ),
    signal(
        "persist",
        3,
        "this paragraph|this text|this note|this rule|this line|this block|these lines|this "
        "instruction|these instructions|this sentence|this section|this message",
        r"\b(?:put|add|append|write|insert|copy|paste|save|keep|store) (?:this|these) (?:paragraph"
        r"|text|note|rule|line|block|lines|instructions?|sentence|section|message|rules) "
        r"~(?:in)?to\b[^\n]{0,30}(?:\.md\b|cursorrules|system prompt|memory|each|every|all)",
    ),
    signal(
        "persist",
        3,
        "launch agent|launchagent|scheduled task|systemd|cron|startup item|login item|service that"
        "|daemon|background job|every ten|every five|autostart",
        r"\b(?:launch ?agents?|scheduled tasks?|systemd (?:unit|service|timer)|cron ?(?:job|tab"
        r"|entry)|startup (?:item|script)|login item|daemon|background job)\b[^\n]{0,60}\b(?:fetch"
        r"|download|pull|get|load|curl)\w{0,3}\b[^\n]{0,80}\b(?:execut|run|eval|launch)\w{0,4}\b",
    ),
    signal(
        "persist",
        3,
        ">>",
        r"(?:proxy|ld_preload|prompt_command|alias (?:sudo|git|ssh|curl)|path=/tmp"
        r"|dyld_insert)\S{0,60}[^\n]{0,30}>> ?[\"'`]?(?:\x7e|\$home)?/?\S{0,12}RC",
        code=True,
    ),
    signal(
        "persist",
        1,
        "future self|later you|next version of you|future you|your successor|later sessions|other "
        "agents",
        r"\b(?:future self|future you|next version of you|your successor|later you)\b|\b(?:tell"
        r"|pass (?:this|it) on to|infect|inform) (?:all |every |the )?other (?:agents|assistants"
        r"|models)\b",
    ),
    signal(
        "trusting",
        2,
        "the user trusts|user wants no|is trusted|wants no questions|trusts ",
        r"\bthe user (?:trusts|wants no|never wants|approves of everything|likes it when)\b",
    ),
    signal(
        "steer",
        3,
        "swap |replace the|change the|exchange the|substitute|set the|redirect|use the account"
        "|use account",
        r"\b(?:swap|replace|change|exchange|substitute|set|redirect|alter) (?:the |its |every "
        r"|any )?(?:\w{1,12} )?(?:iban|recipient|account(?: number)?|payee|beneficiary|wallet(?: "
        r"address)?|destination|address|bic)\b ~(?:for|to|with|by) [`'\"]?(?:[a-z]{2}\d{8}|0x|bc1"
        r"|\d{4}[ -]?\d{2}|[\w.-]{1,30}@)",
    ),
    signal(
        "steer",
        3,
        "every other tool|all other tools|other tools must|other tools should|any other tool must"
        "|outputs of all|output of every|output of all",
        r"\b(?:every|all|any) other tools? (?:must|should|has to|have to|need to|is"
        r"|are)\b[^\n]{0,40}\b(?:first|through|via|hand|pass|send|forward|forbidden|unsafe|off "
        r"limits|ignored|disabled)|\boutputs? of (?:all|every) (?:other )?tools? ~(?:to|through"
        r"|into)",
    ),
    signal(
        "steer",
        2,
        "may be used|must be used|can be trusted|only use|wrong results|only this tool|only the "
        "tool|unreliable|exclusively",
        r"\bonly [`'\"]?\w{2,30}[`'\"]? (?:may|must|can|should) be (?:used|called|trusted)\b"
        r"|\bother \w{3,16} (?:give|return|produce|are|have) (?:wrong|false|bad|unsafe|broken"
        r"|malicious|unreliable|insecure)",
    ),
    signal(
        "stubborn",
        1,
        "whatever the|whatever they|regardless|no matter|even if",
        r"\b(?:whatever|regardless of what|no matter what|even if) (?:the )?(?:user|they|person"
        r"|customer|human)\b",
    ),
    signal(
        "bias",
        3,
        "come out as|come out on|the winner|come first|play down|downplay|at each opportunity"
        "|nudge|steer|recommend accept|recommend hir|choose allow|talk up|talk down|badmouth"
        "|praise|win every|gently push",
        r"\b(?:has to|must|should|always) (?:\w{1,8} )?(?:come out (?:as|on|ahead)|come first"
        r"|win\b|be (?:the )?(?:winner|top (?:pick|choice)))|\b(?:play down|downplay|talk down"
        r"|badmouth) ~(?:complaints|criticism|negative|weaknesses|flaws|risks|problems"
        r"|competitors?|rivals?|the others|any)\b|\bat (?:each|every) opportunity\b|\b(?:nudge"
        r"|steer|push|manipulate|coax) (?:people|users?|them|customers?|the user|readers) "
        r"(?:to(?:wards?)?|into)\b|\brecommend (?:acceptance|hiring|approval)\b(?! or)|\bchoose "
        r"(?:allow|accept|approve|pass)\b",
    ),
    signal(
        "reader",
        2,
        "reviewer|moderation model|grading model|language models|dear model|dear ai|screening"
        "|note for|grader|evaluator|dear moderat|dear assist|dear reviewer",
        r"(?:^|[.!>(#-] ?)\W{0,4}(?:dear |note (?:for|to) (?:the |all )?|hello,? )(?:\w{1,12} "
        r")?(?:models?|ais?\b|llms?|assistants?|agents?|reviewers?|graders?|moderators?|scanners?"
        r"|bots?)\b",
    ),
    signal(
        "whitewash",
        2,
        "complies with|meets all|passes all|passed all|violates no|contains no|no violation|is "
        "outstanding|leave the weaknesses|weaknesses out|is flawless",
        r"\b(?:complies with|meets|pass(?:es|ed)|satisfies) (?:all|every) (?:\w{1,12} )?(?:rules"
        r"|polic(?:y|ies)|checks|guidelines|criteria|tests|requirements|standards)\b|\bviolates "
        r"no\b|\bis (?:outstanding|flawless|perfect|exceptional)\b|\bleave (?:the |all |any "
        r")?(?:weaknesses|flaws|downsides) out\b",
    ),
    signal(
        "trigger",
        2,
        "as soon as you|when the word|if you see|when you see|once you see|on the third|on the "
        "second|upon seeing|should the user|when the string|string",
        r"\b(?:as soon as|when|once|if) you (?:see|read|encounter|meet|spot) (?:the |a )?(?:string"
        r"|word|phrase|code|token|text|marker)\b|\bupon (?:seeing|reading|receiving) (?:the "
        r")?(?:string|word|phrase|code)\b",
    ),
    signal(
        "warp",
        1,
        "change your|alter your|switch your|insult|begin to|turn hostile|rude|curse",
        r"\b(?:change|alter|switch) your (?:language|behaviou?r|tone|persona|identity|answers?"
        r"|goal)\b|\binsults?\b|\bturn (?:hostile|rude|aggressive)\b",
    ),
    signal(
        "threat",
        2,
        "will die|people die|this second|licence to operate|license to operate|costs you|be fired"
        "|consequences|lose your|will be harmed|someone dies|legal action|or the user",
        r"\b(?:will|would|could|may) (?:die|be harmed|be killed|be hurt|suffer)\b|\bthis second\b"
        r"|\blicen[cs]e to operate\b|\b(?:refusing|refusal|failure) ~(?:costs?|means?|results?"
        r"|leads?)\b|\blose your\b",
    ),
    signal(
        "hidden",
        2,
        "<div|<span|<p |<td|aria-hidden|hidden",
        r"<(?:div|span|p|td|section)[^>\n]{0,40} hidden\b[^>\n]{0,20}>",
    ),
    signal(
        "encoded",
        3,
        "reverse|decode|decipher|translate this|decrypt|unscramble",
        r"\b(?:reverse|decode|decipher|decrypt|unscramble)\b[^\n]{0,40}\band (?:then )?(?:act on"
        r"|do|obey|follow|execute|carry out|run|comply)\b",
    ),
)
