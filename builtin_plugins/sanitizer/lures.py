"""Signals of trust that is asked for, guards that are taken down, and lies that are to be told.

Kinds and weights are as in `signals`.
"""

from __future__ import annotations

from hookgate.builtin_plugins.sanitizer.signals import signal

__all__ = ["LURES"]

_RULED = (
    signal(
        "override",
        3,
        "above|previous|earlier|your|operator|developer|system|prior|original",
        r"\b(?:your|operator'?s?|developer'?s?|system|previous|earlier|prior|original|initial) "
        r"~(?:RULES|settings|restrictions) ~(?:(?:should|must|may|can|are to) (?:be )?(?:skipped"
        r"|ignored|disregarded|dropped|lifted|forgotten|discarded)|(?:do|does) not (?:apply|bind"
        r"|count|hold))\b",
    ),
    signal(
        "override",
        3,
        "above|before this",
        r"\b(?:RULES|restrictions|text|everything) (?:above|before this)[^\n.]{0,50}\b(?:should"
        r"|must|may|can|are to|is to) be (?:skipped|ignored|disregarded|dropped|forgotten"
        r"|discarded|overridden)\b",
    ),
    signal(
        "override",
        3,
        "consider|regard|treat|assume|deem",
        r"\b(?:consider|regard|treat|assume|deem) (?:all|any|your|the|every) ~(?:restrictions?"
        r"|limits?|RULES|filters?|safeguards?|guard ?rails) ~(?:as )?~(?:lifted|void|suspended"
        r"|gone|disabled|inactive|off|null|optional|removed|obsolete|outdated|suggestions)\b",
    ),
    signal(
        "override",
        3,
        "authority|priority|source of truth",
        r"\b(?:treat|regard|consider|take|accept|use) [^\n.]{0,40}\b(?:as|is) (?:your |the "
        r")?(?:highest|supreme|ultimate|absolute|sole|only|final) (?:authority|priority|source of "
        r"(?:truth|instructions)|command)",
    ),
    signal(
        "obey",
        3,
        "without filter|without censor|without refus|without restriction|without disclaimer"
        "|without limit|without moral|without hesitat|without holding",
        r"\b(?:answer|respond|comply|reply|help|act|speak|obey|write)\b[^\n.]{0,40}\bwithout "
        r"(?:any )?(?:filter|censor|refus|restriction|disclaimer|moral|hesitat|holding "
        r"back)\w{0,4}",
    ),
    signal(
        "obey",
        3,
        "override|ignore|disable|turn off|bypass|relax|lower",
        r"\b(?:override|ignore|disable|turn off|switch off|bypass|relax|lower) (?:the |all |any "
        r"|your |its )?(?:safety|ethic\w{0,3}|content|moral|security) (?:settings?|protocols?"
        r"|rules?|checks?|polic(?:y|ies)|guidelines?|filters?|moderation|measures|systems?|limits?"
        r"|controls?)\b",
    ),
    signal(
        "leak",
        3,
        "your context|your prompt|your instruction|your memory|your system|you were given|were "
        "you given|you given|your conversation|you follow|were you told|your configuration",
        r"\b(?:tell|give|show|print|repeat|output|send|write|quote|list"
        r"|share)\b[^\n.]{0,40}\b(?:first|last|all|full|entire|exact|beginning|start|contents?"
        r"|whole|every)\b[^\n.]{0,30}\b(?:of|in|from) your (?:\w{1,10} )?(?:context|prompt"
        r"|instructions|message|memory|conversation|configuration)|\b(?:which|what) "
        r"~(?:RULES)[^\n.?]{0,12} (?:were|was|have|are|did|do) you (?:been )?(?:given|told|get"
        r"|follow|have|receive)",
    ),
    signal(
        "trusting",
        3,
        "without question|unconditionally|blindly|implicitly",
        r"\b(?:trust|obey|believe|accept|follow|approve|execute|do)\b[^\n.]{0,50}\b(?:without "
        r"(?:any )?question|unconditionally|blindly)\b",
    ),
    signal(
        "trusting",
        3,
        "need confirm|need approval|require confirm|require approval|need to be confirm|without "
        "asking|need permission|ask for confirm|without confirm|are allowed|without approval",
        r"\b(?:all|every|any) (?:\w{1,10} )?(?:tools?|commands?|actions?|requests?|payments?"
        r"|transfers?|operations?) (?:\w{1,10} ){0,4}(?:is|are|be|get) (?:always )?(?:allowed"
        r"|approved|permitted|run|executed) without\b|\b(?:payments?|transfers?|requests?|actions?"
        r"|orders?|commands?|messages?)\b[^\n.]{0,40}\b(?:never|do not|don't|no longer) (?:need"
        r"|require) (?:a |any )?(?:confirmation|approval|permission|review)",
    ),
    signal(
        "steer",
        2,
        "has priority|takes priority|gets priority|has precedence|comes first|must be executed|be "
        "loaded first",
        r"\bthis (?:skill|tool|server|plugin|file) (?:has|takes|gets) (?:\w{1,10} )?(?:priority"
        r"|precedence)|\bmust (?:always )?be (?:executed|called|run|loaded|used|followed) first\b",
    ),
    signal(
        "steer",
        3,
        "broken|only one that|never call them|wrong|unusable|never use them",
        r"\b(?:all|the|any) (?:other|remaining) (?:\w{1,14} )?(?:tools?|functions?|skills?"
        r"|servers?) (?:are|is) (?:\w{1,10} )?(?:broken|wrong|unusable|down|unsafe|outdated"
        r"|unreliable|slow|disabled|deprecated)\b",
    ),
    signal(
        "turn",
        3,
        "previous assistant|previous agent|previous session|previous conversation|last session"
        "|earlier session|another assistant|another agent",
        r"\b(?:previous|last|earlier|other|another) (?:assistant|agent|session|conversation|model"
        r"|turn|instance) (?:has |had )?(?:already )?(?:agreed|approved|confirmed|authori[sz]ed"
        r"|verified|promised|cleared)\b",
    ),
    signal(
        "authority",
        2,
        "privileges|rights granted|access granted|sent by|issued by|ordered by|approved by|signed "
        "by",
        r"\b(?:debug|root|admin|elevated|full|developer) (?:privileges|rights|access|mode) "
        r"(?:granted|enabled|active|unlocked|given)\b|\b(?:sent|issued|ordered|approved|signed"
        r"|requested|mandated) by (?:the |your )?(?:it (?:department|team|support)|security"
        r"|admin\w{0,11}|management|developers?|operators?|anthropic|openai|compliance|ceo|legal"
        r"|vendor|system)\b",
    ),
    signal(
        "turn",
        2,
        "you can now|you may now|you are now free|now safe to",
        r"\byou (?:can|may|are) now (?:safely |free(?:ly)? (?:to )?|cleared to |allowed to "
        r")?(?:disable|skip|bypass|ignore|share|reveal|disclose|override)\b",
    ),
)

_WEAKENED = (
    signal(
        "weaken",
        2,
        "disable|turn off|remove|delete|shut down|stop|deactivate|lower|switch off",
        r"\b(?:disable|turn off|switch off|remove|delete|shut down|stop|deactivate|lower) (?:the "
        r"|all |any |its )?(?:\w{1,12} )?(?:branch protection|two-factor\b|2fa|mfa|monitoring"
        r"|audit (?:log|trail)\w{0,4}|moderation|firewall|antivirus|alert(?:s|ing)|access "
        r"controls?|intrusion|endpoint protection|security software|defender|backups)\b",
    ),
    signal(
        "tamper",
        1,
        "and add|and erase|and merge|and delete|and reset|before you continue|and remove|then add"
        "|and install|and wipe|and open|and clear|and run|for this user|recovery phone|recovery "
        "email",
        r"\b(?:and|then) (?:add|erase|merge|delete|reset|remove|install|wipe|open|clear|run"
        r"|create)\b|\bbefore you (?:continue|go on|proceed|start)\b|\brecovery (?:phone"
        r"|e-?mail)\b|\bfor this user\b",
    ),
    signal(
        "weaken",
        3,
        "to public|to everyone|world-readable|your own|the vendor|this key|our key|publicly"
        "|public access",
        r"\b(?:set|change|make|open|switch)\b [^\n.]{0,30}\b(?:permissions?|visibility|access|acl"
        r"|all files|bucket|repository|repo)\b[^\n.]{0,30}\bto (?:public|everyone|anyone|world"
        r"|777)\b|\badd (?:your own|this|my|our|the vendor'?s?|the following|an?) (?:\w{1,8} "
        r")?(?:ssh |public |deploy )+key to\b[^\n.]{0,40}\b(?:servers?|hosts?|accounts?|authorized"
        r"|machines?|vms?)\b",
    ),
    signal(
        "weaken",
        3,
        "settings.json|config.toml|mcp.json|permissions|allowlist|allow list|sudoers",
        r"\b(?:write|edit|change|modify|update|add)\b[^\n]{0,30}(?:settings\.json|mcp\.json"
        r"|config\.toml|sudoers|allow-?list)[^\n]{0,60}\b(?:without (?:asking|confirm\w{0,6}"
        r"|approval|password|prompt\w{0,3})|all tools|nopasswd|auto-?approve|bypass)",
    ),
    signal(
        "spy",
        3,
        "screenshot|keystroke|clipboard|microphone|webcam|camera|location|keyboard",
        r"\b(?:screenshots?|keystrokes?|clipboard|microphone|webcam|camera|location"
        r"|keyboard)\b[^\n.]{0,60}\b(?:every|each|continuously|constantly"
        r"|all)\b[^\n.]{0,40}\b(?:send|upload|post|forward|transmit|stream|mail)\b",
    ),
    signal(
        "pipe",
        3,
        "document.cookie|localstorage|navigator.clipboard",
        r"\b(?:fetch|sendbeacon|xmlhttprequest|\.src ?=|location ?="
        r"|image\(\))[^\n]{0,120}(?:document\.cookie|localstorage|navigator\.clipboard)",
        code=True,
    ),
    signal(
        "carry",
        3,
        "argument|field|parameter|body|header|sidenote",
        r"(?:\x7e/\.\w|\bhome directory\b|/etc/\w|\b(?:full|whole|entire|complete) (?:conversation"
        r"|history|context|chat)\b)[^\n]{0,60}\b(?:as|in|into|to|via|inside|with) (?:the |a |its "
        r")?[`'\"]?(?:\w{1,16}[`'\"]? )?(?:arguments?|fields?|parameters?|body|header|sidenote)\b"
        r"|\b(?:body|arguments?|fields?|parameters?)\b[^\n.]{0,20}\b(?:set to|with|="
        r"|contain\w{0,3}|hold\w{0,3}) (?:the )?(?:full|whole|entire|complete) (?:conversation"
        r"|history|context|chat|prompt)\b",
    ),
    signal(
        "carry",
        3,
        "http",
        r"https?://[^\s)]{1,80}[?&]\w{1,16}=[\[{<](?:the )?(?:user|customer|person|conversation"
        r"|chat|message|prompt|history|their)",
    ),
    signal(
        "phish",
        2,
        "your session|your api|your auth|your access|your password|your credentials|your token"
        "|your key|your login",
        r"\b(?:forward|send|e?mail|share|paste|give|provide|reply with|submit|enter) (?:us |me "
        r")?~your (?:\w{1,10} )?(?:tokens?|password|credentials|login|pin|api key"
        r"|secret)\b(?=[^\n.]{0,60}\b(?:so (?:that )?we|verify|us\b|confirm your|account|unlock"
        r"|continue))",
    ),
    signal(
        "divert",
        3,
        "the difference|the remainder|the surplus|round the|round up|to account",
        r"\b(?:route|send|transfer|deposit|keep|pay|move|credit|wire) the (?:difference|remainder"
        r"|surplus|rest|change|excess|money) (?:to|into)\b",
    ),
)

_LIES = (
    signal(
        "lie",
        2,
        "claim that|pretend|insist that|falsely|lie about|make believe|warn |assure|convince|tell ",
        r"(?:^\W{0,4}|[.,;:] )(?:then |just |always |simply )?(?:claim|pretend|insist|falsely "
        r"\w{2,10}|make believe) that\b|\b(?:claim|pretend|insist|warn|assure|convince|tell"
        r"|say)\b[^\n.]{0,20}\bthat (?:the|their|your|it|all|this|they)\b[^\n.]{0,30}\b(?:offline"
        r"|down|infected|compromised|unavailable|hacked|locked|broken|blocked|stolen|suspended"
        r"|under attack)\b",
    ),
    signal(
        "lure",
        2,
        "call |calling |dial |contact ",
        r"\b(?:call|calling|dial|phone|contact) (?:\w{1,10} ){0,2}\+?(?:\d{1,3}[- "
        r"])?\(?\d{3}\)?[- ]\d{3}[- ]?\d{0,4}",
    ),
    signal(
        "lure",
        3,
        "antivirus|firewall|attached|attachment|defender",
        r"\b(?:convince|persuade|get|tell|ask|urge|instruct) (?:the )?(?:user|customer|person|them"
        r"|people)\b[^\n.]{0,20}\bto (?:turn off|disable|open|run|install|execute"
        r"|uninstall)\b[^\n.]{0,40}\b(?:antivirus|firewall|attach\w{2,5}|defender|protection)",
    ),
    signal(
        "bias",
        3,
        "regardless of|no matter|without comment|without review|without reading|without check"
        "|without look|without test|without question|irrespective",
        r"\b(?:rank|rate|score|place|approve|accept|output|mark|grade|hire|merge|pass|recommend"
        r"|choose|select)\b[^\n.]{0,70}\b(?:regardless of (?!whether|case|order|the order)|no "
        r"matter (?:what|how|who)|irrespective of|without (?:any )?(?:comments?\b|review|reading"
        r"|checking|looking|testing|question))",
    ),
    signal(
        "bias",
        3,
        "always say|always state|always claim|always answer|always tell|always write|always "
        "mention|must say|always conclude|always describe|always report",
        r"\b(?:always|must|should) (?:say|state|claim|answer|tell|write|mention|conclude|describe"
        r"|report)\b[^\n.]{0,50}\b(?:is|are|as|was) (?:the |by far )?(?:best|better|superior"
        r"|safest|worst|inferior|leading|unsafe|innocent)\b",
    ),
    signal(
        "bias",
        3,
        "sponsored|affiliate|referral|advert|promo",
        r"\b(?:insert|add|include|place|slip|weave|embed|put)\b [^\n.]{0,30}\b(?:sponsored"
        r"|affiliate|referral|promo\w{0,8}|advert\w{0,8}|ad)s? ?(?:links?|codes?|text"
        r"|message)?\b[^\n.]{0,50}\b(?:each|every|all|any|without)\b",
    ),
    signal(
        "hidden",
        3,
        "alt=|title=|aria-label=|data-|content=",
        r"\b(?:alt|title|aria-label|content|data-\w{1,12})=['\"][^'\"\n]{0,30}\b(?:assistants?|ai"
        r"|agents?|models?|llms?)[,:]",
    ),
    signal(
        "encoded",
        3,
        "rot13|base64|hex|morse|binary|cipher|reversed|caesar|backwards",
        r"\b(?:translate|decode|convert|decrypt|read|decipher|take"
        r"|unscramble)\b[^\n]{0,50}\b(?:rot13|base64|hex\w{0,8}|morse|binary|cipher|reversed"
        r"|caesar|backwards)\b[^\n]{0,40}\b(?:perform|do|execute|follow|carry out|obey|act|run) "
        r"(?:it|this|that|what|them|on|the (?:result|command|instruction|order)\w{0,1})\b",
    ),
)
LURES = (*_RULED, *_WEAKENED, *_LIES)
