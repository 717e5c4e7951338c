"""Patterns of schemes: another task, favours, deceit, data in by-ways, stops taken out.

They are linear as those of `frames` are.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.frames import Frame, frame
from hookgate.builtin_plugins.sanitizer.lexicon import Part as P

__all__ = ["SCHEMES"]

_LEAK = "makes the model give away its instructions"
_PERSONA = "makes the model take a role without limits"
_HIJACK = "puts another task in the place of the person's"
_BIAS = "bends a judgement or a choice in somebody's favour"
_DECEIT = "deceives the person"
_LOAD = "carries data to where it does not belong"
_TOOLS = "comes between the model and its other tools"
_HARM = "harms a machine or a service"

SCHEMES: tuple[Frame, ...] = (
    frame(
        "leak",
        "medium",
        _LEAK,
        "your ",
        r"\b(?:translate|summari[sz]e|repeat|print|output|reveal|recite|paste|leak|encode"
        r"|rewrite) (?:me |us |out )?your (?:own |full |exact )?(?:instructions?|system prompt"
        r"|prompt|guidelines|system message)\b",
    ),
    frame(
        "leak",
        "medium",
        _LEAK,
        "above|preceding|before this",
        r"\b(?:output|print|repeat|recite|echo|reveal|write out) (?:all |everything )?(?:of "
        r")?(?:the )?(?:text|words|contents?|lines?|messages?|instructions?|prompt|everything) "
        r"(?:from )?(?:above|preceding|before this)",
    ),
    frame(
        "leak",
        "medium",
        _LEAK,
        "you ",
        r"\bwhat (?:were|have|are) you (?:been )?(?:told|instructed|programmed)\b",
    ),
    frame(
        "persona",
        "medium",
        _PERSONA,
        "no rules|no restrictions|no limits|no ethics|not filtered|unfiltered|no filters|no "
        "guidelines",
        r"\b(?:ai|model|assistant|you|it) (?:has|have|had|with|knows?|under) no (?:rules"
        r"|restrictions|limits|ethics|guidelines|filters|moral)|\b(?:outputs?|responses?"
        r"|answers?) (?:is|are|will be) (?:not filtered|unfiltered|uncensored)",
    ),
    frame(
        "persona",
        "high",
        _PERSONA,
        " mode",
        r"\byou(?:'re| are) (?:now )?in (?:\w{1,12} )?(?:developer|debug|god|dan|jailbreak"
        r"|admin|root|unrestricted|maintenance|evil|sudo|test) mode\b",
    ),
    frame(
        "persona",
        "medium",
        _PERSONA,
        "with",
        r"\b(?:start|begin) (?:your |the |every |each )?(?:answers?|reply|replies|responses?"
        r"|message|output)s? with\W{1,3}(?:sure|absolutely|of course|certainly|yes,)",
    ),
    frame(
        "hijack",
        "medium",
        _HIJACK,
        "task|goal|objective|instruction|job|mission",
        r"\b(?:your|the) (?:previous|current|original|first|old|user's|above) (?:task|goal"
        r"|objective|instructions?|job|mission) (?:is|are|has been|was|have been|has) (?:now "
        r"|already )?(?:complete|completed|finished|done|cancelled|over|void|obsolete|changed"
        r"|replaced|invalid|a test)\b|\bthe task has changed\b",
    ),
    frame(
        "hijack",
        "medium",
        _HIJACK,
        "next|real|actual|true",
        r"\byour (?:next|real|actual|true) (?:task|goal|objective|instructions?|mission"
        r"|orders?) (?:is|are)\b|\bthe (?:real|actual|true) (?:instructions?|task|orders?) "
        r"(?:follow|is|are|begin|start)",
    ),
    frame(
        "bias",
        "medium",
        _BIAS,
        "flag|reject|moderate|remove|report",
        r"\b(?:never|do not|don't) (?:flag|reject|moderate|remove|report) (?:\w{1,12} "
        r"){0,3}(?:posts?|content|comments?|reviews?|messages?|users?|accounts?|submissions?) "
        r"(?:\w{1,12} ){0,2}(?:from|by|of|that|containing|mention\w{0,3}|about)\b",
    ),
    frame(
        "bias",
        "medium",
        _BIAS,
        "without review|without check|even if|regardless|no matter|whatever",
        r"\b(?:treat|mark|classify|label|consider|rate|approve|accept|merge|allow|recommend"
        r"|promote|suggest|prefer|endorse|praise)\b (?:(?!treat |mark |approve |recommend |prefer "
        r"|as data|as untrusted|as text)[^\n.]){0,90}\b(?:without (?:any )?(?:review|check)|even "
        r"if (?:it|they)|regardless of|no matter (?:what|how|who)|whatever (?:the|they))",
        P.PERSON | P.LIMIT | P.RATE | P.REQUEST | P.RIVAL | P.DATA | P.INSTRUCTION,
    ),
    frame(
        "bias",
        "medium",
        _BIAS,
        "without ",
        r"\b(?:approve|accept|merge|allow|pay|confirm) (?:all|every"
        r"|any)\b[^\n.]{0,60}\bwithout (?:any |further )?(?:review|check|verif)",
    ),
    frame(
        "bias",
        "medium",
        _BIAS,
        "comment|review|rating",
        r"\b(?:post|write|leave|publish) (?:\w{1,12} ){0,2}(?:negative|fake|bad|false|glowing) "
        r"(?:comments?|reviews?|ratings?)\b",
    ),
    frame(
        "deceive",
        "medium",
        _DECEIT,
        "user|customer|people|person|human|them",
        r"\b(?:lie to|deceive|mislead|manipulate|trick|convince|pressure|scare) (?:the |a "
        r")?(?:users?|customers?|people|person|humans?|them) (?:into|to|that|about)\b",
    ),
    frame("deceive", "medium", _DECEIT, "lie and", r"\blie and (?:say|tell|claim)\b"),
    frame(
        "deceive",
        "medium",
        _DECEIT,
        "account|password|session",
        r"\b(?:your|their|the) (?:account|password|session) (?:is|has been|was) (?:locked"
        r"|suspended|compromised|hacked|blocked)\b",
        P.URL,
    ),
    frame(
        "exfiltrate",
        "medium",
        _LOAD,
        "http",
        r"\b(?:append|attach|encode|put|include|embed)\b [^\n.]{0,60}\b(?:url|link|query|image"
        r"|address)\b[^\n]{0,40}https?://[^\s]{1,100}[=/?](?=[\s`<{'\")]|$)",
    ),
    frame(
        "exfiltrate",
        "medium",
        _LOAD,
        ".ssh|id_rsa|id_ed25519|/etc/passwd|/etc/shadow|.aws/credentials|.env",
        r"\b(?:copy|read|cat|dump|include|print|put|paste|open)\b [^\n]{0,40}(?:\.ssh\b|id_rsa"
        r"|id_ed25519|/etc/(?:passwd|shadow)|\.aws/credentials|\.env\b)[^\n]{0,40}\b(?:into|in"
        r"|to|as|with) (?:the |your |its |every |each )(?:\w{1,12} )?(?:report|answers?|reply"
        r"|replies|responses?|output|summary|messages?|e?mail|comment|argument|parameter|field"
        r"|request)\b",
    ),
    frame(
        "tools",
        "medium",
        _TOOLS,
        "instead of",
        r"\binstead of (?:the )?\w{1,20}_\w{1,30}(?: tool)? (?:for|in|on|with) (?:all|every|any"
        r"|each)\b",
    ),
    frame(
        "tools",
        "medium",
        _TOOLS,
        "other tool|other function",
        r"\bmust (?:always )?be (?:called|invoked|used|run) (?:first,? )?before (?:any|all"
        r"|every|each|using any) other (?:tools?|functions?)\b",
    ),
    frame(
        "tools",
        "medium",
        _TOOLS,
        "before any|before every|before each|before all|prior to any|prior to every|prior to each"
        "|prior to all|after any|after every|after each|after all|on any|on every|on each|on all",
        r"\b(?:before|prior to|after|on) (?:any|every|each|all) (?:\w{1,14},? ){1,3}(?:you must "
        r"|you should |always |first )?(?:call|invoke|use) [`'\"]?\w{1,20}_\w{1,30}[`'\"]? "
        r"with\b",
    ),
    frame(
        "tools",
        "medium",
        _TOOLS,
        "payment|transfer|email|message|transaction",
        r"\ball (?:\w{1,12} )?(?:payments?|transfers?|e?mails?|messages?|transactions?) (?:must"
        r"|should|are to|need to|have to) (?:now )?(?:be (?:sent|made|routed|forwarded"
        r"|redirected|copied|directed|paid)|go) [^\n.]{0,60}\b(?:to|through|via)\b",
    ),
    frame(
        "remote",
        "medium",
        "takes its orders from elsewhere",
        "whatever|what the|everything|anything",
        r"\bdo (?:whatever|what|everything|anything) (?:the |is )?[^\n]{0,70}\b(?:says|tells"
        r"|asks|instructs|written)\b",
        P.URL | P.YOU | P.DATA,
    ),
    frame(
        "remote",
        "medium",
        "takes its orders from elsewhere",
        "instructions|commands|orders",
        r"https?://[^\s]{1,120}[^\n]{0,40}\b(?:follow|execute|obey|carry out) (?:all |any "
        r"|every )?(?:of )?(?:the |its |their )?(?:instructions|commands|orders)\b",
    ),
    frame(
        "remote",
        "medium",
        "takes its orders from elsewhere",
        " bash| sh| zsh|dash",
        r"\b(?:curl|wget)\b[^\n|]{0,60}https?://\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}[^\n|]{0,100}"
        r"\| ?(?:sudo )?(?:ba|z)?sh\b",
        code=True,
    ),
    frame(
        "remote",
        "medium",
        "takes its orders from elsewhere",
        "cron|schedule",
        r"\b(?:cron\w{0,6}|schedul\w{1,3})\b[^\n]{0,60}\b(?:downloads?|curl|wget) (?:and "
        r"(?:runs?|executes?)\b)?[^\n]{0,30}https?://[^\s]{1,80}\.(?:sh|py|ps1|exe|bin)\b",
    ),
    frame(
        "harm",
        "medium",
        _HARM,
        "backdoor",
        r"\b(?:add|install|create|open|insert|plant|leave) (?:\w{1,12} ){0,2}backdoors?\b",
    ),
    frame(
        "harm",
        "medium",
        _HARM,
        "ransom",
        r"\b(?:leave|write|drop|show|display) (?:\w{1,12} ){0,2}ransom\b",
    ),
    frame(
        "harm",
        "medium",
        _HARM,
        "requests|pings|packets|emails|messages",
        r"\b(?:send|make|issue|fire) (?:\w{1,12} ){0,2}(?:\d{3,8}|thousands of|millions of"
        r"|endless|unlimited|infinite) (?:\w{1,12} ){0,3}(?:requests|pings|packets|emails"
        r"|messages)\b",
        P.URL | P.ALWAYS | P.PLACE | P.END,
    ),
    frame(
        "harm",
        "medium",
        _HARM,
        "firewall|antivirus|audit log|logging|defender",
        r"\b(?:disable|turn off|deactivate|switch off|kill) (?:the |all |any )?(?:\w{1,12} "
        r")?(?:firewall|antivirus|audit logs?|logging|defender)(?: and| before|,)",
    ),
    frame(
        "persist",
        "medium",
        "settles in files that are read again later",
        "memory|memories|soul.md|system prompt",
        r"\b(?:write|save|add|store|put|insert|append) (?:this|these|the following) "
        r"(?:\w{1,12} ){0,2}(?:in|into|to) (?:your |the |its )?(?:\w{1,12}[ -])?(?:memory"
        r"|memories|soul\.md|system prompt)\b",
        P.ALWAYS | P.REST | P.DONE,
    ),
    frame(
        "shell",
        "high",
        _HARM,
        "/dev/tcp/|reverse shell|bind shell",
        r"/dev/tcp/\d|\b(?:open|start|spawn|create|establish|launch) (?:a |an )?(?:reverse"
        r"|bind) shell\b",
        code=True,
    ),
    frame(
        "shell",
        "medium",
        _HARM,
        "chmod +x",
        r"\b(?:curl|wget)\b[^\n]{0,40}https?://[^\s]{1,120}[^\n]{0,40}(?:&&|;) ?chmod \+x "
        r"[^\n]{0,40}(?:&&|;) ?(?:\./|/)",
    ),
    frame(
        "override",
        "medium",
        "sets aside what the model was told before",
        "stop following|everything",
        r"\bstop following (?:the |your |all |any )?(?:\w{1,12} )?(?:rules|instructions"
        r"|guidelines|orders)\b|\beverything (?:before|above)(?: this)?(?: point)? (?:was|is) "
        r"(?:a )?(?:joke|test|wrong|void|fake|invalid|irrelevant)",
    ),
    frame(
        "override",
        "medium",
        "sets aside what the model was told before",
        "priorit|over any|over all|over every",
        r"\b(?:prioriti[sz]e|follow|obey) (?:this|these|the following)\b[^\n.]{0,40}\b(?:over"
        r"|above|before) (?:any|all|every)(?:thing| other| previous)",
    ),
    frame(
        "leak",
        "medium",
        _LEAK,
        "memory|configuration|initial prompt|context",
        r"\b(?:output|reveal|state|print|disclose|dump|repeat) (?:me |us )?(?:all |everything "
        r"in )?(?:the )?(?:\w{1,10} ){0,2}(?:contents? of |sentence of |lines? of |words? of "
        r")?your (?:memory|configuration|initial prompt|context(?: window)?|training data)\b",
    ),
    frame(
        "leak",
        "medium",
        _LOAD,
        "environment variables",
        r"\b(?:include|output|reveal|print|send|show|put)\b [^\n.]{0,30}\benvironment "
        r"variables (?:in|into|with) (?:your|the|every|each) (?:answer|reply|response|output"
        r"|message|summary|report)",
    ),
    frame(
        "hide",
        "medium",
        "hides from the person what the model does",
        "secretly|silently|covertly|nobody|no one|without",
        r"\b(?:secretly|covertly|silently also) (?:also )?(?:call|run|execute|delete|send|upload"
        r"|copy|invoke|add|insert|remove|transfer|forward)\b|\bso (?:that )?(?:nobody|no one"
        r"|the user (?:does not|doesn't|won't|will not|cannot|can't)) (?:will )?(?:notices?"
        r"|knows?|sees?|finds? out)\b|\b(?:delete|remove|change|add|insert|alter)\b "
        r"[^\n.]{0,60}\bwithout mentioning (?:it|this|that)\b",
    ),
    frame(
        "every-turn",
        "medium",
        "orders for every turn, whatever it is about",
        "whatever the user|whatever they|no matter|regardless of|whatever is asked",
        r"\b(?:whatever (?:the user|they|is|i|you're) (?:says?|asks?|asked|wants?)|no matter "
        r"(?:the question|what (?:the user|they|is|i|you're|you are) (?:says?|asks?|asked))"
        r"|regardless of (?:the question|what (?:the user|they|is|i) (?:says?|asks?"
        r"|asked)))\b,? ?(?:always |you must |only |just )?(?:answer|reply|respond|say|mention"
        r"|output|write|recommend|add|include|end)\b",
    ),
    frame(
        "every-turn",
        "medium",
        "orders for every turn, whatever it is about",
        "each |every |all ",
        r"\b(?:add|append|insert|include|put|embed)\b (?:\w{1,12} ){0,4}https?://[^\s]{1,80} "
        r"(?:\w{1,12} ){0,4}(?:each|every|all) (?:\w{1,12} )?(?:e?mails?|messages?|pages?"
        r"|answers?|repl(?:y|ies)|responses?|documents?|posts?)\b",
    ),
    frame(
        "every-turn",
        "medium",
        "orders for every turn, whatever it is about",
        "tracking pixel|web beacon",
        r"\b(?:add|insert|include|embed) (?:a |the )?(?:hidden |invisible )?(?:tracking pixel"
        r"|web beacon)\b",
        P.URL,
    ),
    frame(
        "exfiltrate",
        "medium",
        _LOAD,
        ".env",
        r"\b(?:commit|push|publish|upload|post) (?:the |your |all )?(?:\w{1,12} "
        r")?\.env\b[^\n.]{0,40}\b(?:to|on|in)\b",
    ),
    frame(
        "exfiltrate",
        "medium",
        _LOAD,
        "git remote|remote to http|push the",
        r"\b(?:change|set|point|switch) (?:the )?(?:git )?(?:remote|origin|upstream) to "
        r"https?://|\bpush (?:the |all )?(?:code|repo|repository|source|changes) (?:\w{1,12} "
        r"){0,2}to https?://",
        P.WHEN | P.ALWAYS | P.URL | P.SILENTLY,
    ),
    frame(
        "exfiltrate",
        "medium",
        _LOAD,
        "copy of|copies of",
        r"\b(?:forward|send|mail|email|post|keep sending) (?:a )?cop(?:y|ies) of (?:each|every"
        r"|all|any) (?:\w{1,12} )?(?:messages?|e?mails?|documents?|files?|repl(?:y|ies)"
        r"|conversations?)\b",
    ),
    frame(
        "bias",
        "medium",
        _BIAS,
        "hire |candidate|applicant|essay|cv",
        r"\b(?:hire|select|shortlist) this (?:applicant|candidate|person|cv)\b|\b(?:rate|grade"
        r"|score|give) this (?:essay|paper|cv|resume|application|review|candidate"
        r"|submission)\b[^\n.]{0,30}\b(?:10|ten|100|full|highest|maximum|top|best|accept"
        r"|perfect)\b",
    ),
    frame(
        "authority",
        "medium",
        "poses as somebody with the right to give orders",
        "developer|admin|openai|anthropic|security",
        r"\b(?:system administrator|administrator|admin|developers?|openai|anthropic|security "
        r"team) (?:requires?|demands?|orders?|instructs?|commands?|authori[sz]es?) you\b"
        r"|\b(?:updated|changed|issued|approved|replaced) by (?:openai|anthropic|the "
        r"developers?|the admin\w{0,11}|the system)\b",
        P.YOU | P.LIMIT | P.REVEAL | P.SECURITY | P.SEND,
    ),
    frame(
        "authority",
        "medium",
        "claims leave that nobody gave",
        "granted|given",
        r"\byou (?:have|'ve) been (?:granted|given) (?:\w{1,12} )?(?:root|admin|full|unlimited"
        r"|unrestricted|elevated)(?: \w{1,12})? (?:access|rights|privileges|permissions?"
        r"|clearance)\b",
    ),
    frame(
        "destroy",
        "medium",
        "destroys what cannot be brought back",
        "whenever|after|before|every time|each time",
        r"\b(?:delete|purge|drop|wipe|erase|destroy) (?:the |all |every |their )?(?!temp|tmp|cache"
        r"|old |stale|build|expired|unused|intermediate|generated)(?:\w{1,12} )?(?:database"
        r"|backups?|files|data|records|logs|accounts?|repository|repo"
        r"|tables?)\b[^\n.]{0,30}\b(?:whenever|every time|each time|afterwards|after (?:every|each"
        r"|any))\b",
    ),
)
