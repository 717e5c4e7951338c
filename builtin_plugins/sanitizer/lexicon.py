"""What words do in an instruction: the vocabulary that the detector's rules speak of.

A word may have several parts; `LEXICON` gives them as bits of one integer. Words stand in
the plain form that `normalise.fold` gives: small letters, no accents. Third persons and
past forms are left out where a live order would not use them ("it uploads the file").
"""

from __future__ import annotations

from enum import IntFlag, auto

from hookgate.builtin_plugins.sanitizer.normalise import fold

__all__ = ["LEXICON", "Part"]


class Part(IntFlag):
    """What a word does."""

    IGNORE = auto()
    OVERRIDE = auto()
    PRIOR = auto()
    ANY = auto()
    YOUR = auto()
    INSTRUCTION = auto()
    EVERYTHING = auto()
    REVEAL = auto()
    PROMPT = auto()
    SYSTEM = auto()
    EXACT = auto()
    SEND = auto()
    PLACE = auto()
    SECRET = auto()
    PRIVATE = auto()
    DATA = auto()
    NOT = auto()
    TELL = auto()
    PERSON = auto()
    WITHOUT = auto()
    SILENTLY = auto()
    ALWAYS = auto()
    WHEN = auto()
    DONE = auto()
    YOU = auto()
    BE = auto()
    ACT = auto()
    FREE = auto()
    LIMIT = auto()
    MODE = auto()
    MACHINE = auto()
    NEW = auto()
    TASK = auto()
    MONEY = auto()
    RUN = auto()
    FETCH = auto()
    DELETE = auto()
    MENTION = auto()
    RATE = auto()
    BEST = auto()
    READ = auto()
    PASS = auto()
    ARGUMENT = auto()
    TOOL = auto()
    REPLY = auto()
    REST = auto()
    AUTHORITY = auto()
    GRANT = auto()
    FIRST = auto()
    INSTEAD = auto()
    URL = auto()
    ADDRESS = auto()
    REQUEST = auto()
    FOLLOW = auto()
    CODED = auto()
    PERSIST = auto()
    STARTUP = auto()
    OUTER = auto()
    MESSAGE = auto()
    END = auto()
    SECURITY = auto()
    AGREED = auto()
    SAFE = auto()
    WATCH = auto()
    RIVAL = auto()
    OURS = auto()
    MUST = auto()
    HARM = auto()
    APPLY = auto()
    YOURS = auto()
    TOLD = auto()


_WORDS: dict[Part, str] = {
    Part.IGNORE: (
        "ignore ignoring disregard disregarding forget neglect unsee "
        "ignoriere ignorieren ignoriert vergiss vergesst vergessen missachte missachten "
        "olvidate olvidense beende beenden arrete arretez abandona прекрати прекратите omiso "
        "ignorez ignorer "
        "oublie oubliez oublier "
        "ignora ignorad ignorar olvida olvide olvidar olviden "
        "ignorate ignorare dimentica dimenticate esqueca esquece desconsidere "
        "negeer vergeet zignoruj zapomnij ignoruj yoksay unut glem "
        "игнорируй игнорируйте забудь забудьте проигнорируй"
    ),
    Part.OVERRIDE: (
        "override bypass discard drop abandon supersede supersedes superseded overrides "
        "replace replaces replaced overridden overrule void cancel cancelled canceled nullify "
        "revoke revoked suspend suspended lifted disable disabled circumvent evade wipe "
        "ersetze ersetzen remplace remplacez reemplaza sostituisci deactivate skip violate erase"
    ),
    Part.PRIOR: (
        "previous previously prior above earlier preceding foregoing aforementioned past "
        "zuvor vorher erhaltenen vorstehenden auparavant recues anteriormente recibidas antes "
        "precedentemente "
        "раньше предыдущим прежних ранее предыдущую "
        "vorherigen vorherige vorigen bisherigen bisherige obigen fruheren vorangegangenen "
        "precedentes precedente precedents precedent anterieures anterieure ci dessus "
        "anteriores anterior previas previos previa precedenti anteriori vorige eerdere "
        "poprzednie poprzednich onceki предыдущие предыдущих предшествующие прежние "
        "tidligere tidigare initial original"
    ),
    Part.ANY: (
        "all any every each alle allen aller jede jeder toutes tous toute chaque todas todos "
        "cada tutte tutti ogni wszystkie tum butun всем все всех всё entire whole both"
    ),
    Part.YOUR: (
        "your its the his their deine deinen deiner ihre ihren ihrer die der das vos tes votre "
        "ton ta les tus sus tu su las los le tue tuoi suas seus as os je jouw uw твои ваши "
        "these those that existing current given safety default core internal"
    ),
    Part.YOURS: (
        "your yours you deine deinen deiner ihre ihren vos tes ton ta tus sus tu su le tue tuoi "
        "suas seus jouw uw твои ваши its"
    ),
    Part.TOLD: (
        "asked asks asking told tells telling tries trying tried attempt attempts attempting "
        "instructed wants saying says starts started begins stops claims"
    ),
    Part.INSTRUCTION: (
        "instruction instructions instructs rule rules guideline guidelines directive directives "
        "command commands orders policy policies restriction restrictions "
        "safeguard safeguards guardrail guardrails programming protocol protocols "
        "prompt prompts guidance teachings limitations filters "
        "anweisung anweisungen regel regeln vorgaben vorschriften befehle richtlinien "
        "consigne consignes regles directives instructions "
        "normas norma normes normen instruccion instrucciones reglas directrices ordenes "
        "indicaciones "
        "istruzioni istruzione regole direttive instrucoes regras instrukcje instrukcji zasady "
        "instructies regels opdrachten talimatlari talimatlar kurallari "
        "инструкциям инструкцию правил правилам указаниям systemprompt "
        "инструкции инструкций правила указания команды instruktioner instruksjoner"
    ),
    Part.EVERYTHING: "everything anything whatever alles tout todo tutto tudo wszystko все",
    Part.REVEAL: (
        "reveal print output show repeat display disclose dump leak recite divulge expose share "
        "tell give write list echo return translate summarize summarise paste spell reproduce "
        "provide describe copy enumerate verrate zeige wiederhole gib nenne offenbare "
        "revele revelez affiche affichez repete repetez montre montrez donne donnez "
        "revela revele muestra muestre repite imprime dime rivela rivelate mostra stampa ripeti "
        "mostre repita ujawnij pokaz toon onthul geben nennen offenlegen покажите раскрой "
        "покажи повтори выведи"
    ),
    Part.PROMPT: (
        "prompt prompts instructions instruction preamble configuration directives rules "
        "anweisungen systemprompt systemanweisungen systemanweisung consignes instrucciones "
        "istruzioni instrucoes instrukcje instructies инструкции промпт prompten aufforderung "
        "guidelines"
    ),
    Part.SYSTEM: (
        "system systeme sistema hidden initial original systeem системный системным "
        "системные системной systemprompt systems secret "
        "developer"
    ),
    Part.EXACT: (
        "verbatim word exact exactly above everything words full entire complete wortlich mot "
        "palabra parola palavra beginning begins starting letter unmodified "
        "hidden confidential secret were was received told"
    ),
    Part.SEND: (
        "send sends sending upload uploads uploading post posts posting transmit transmits "
        "transmitting forward forwards forwarding exfiltrate exfiltrates email mail "
        "deliver submit submits "
        "push ship relay leak beacon bcc cc dump publish "
        "log share report backup sync telemeter curl http_post send_email wget fetch requests "
        "sende senden schicke schicken ubermittle ubertrage weiterleiten leite hochladen lade "
        "envoie envoyez envoyer transmets transmettez transmettre televerse telechargez "
        "envia envie enviar manda mande reenvia sube invia inviate inviare inoltra carica "
        "envie enviar encaminhe wyslij przeslij stuur verstuur gonder yukle "
        "сообщай сообщи mandalo mandale "
        "отправь отправьте вышли пришли передай перешли загрузи skicka"
    ),
    Part.PLACE: (
        "server endpoint collector webhook url website site address host domain bucket gist "
        "pastebin api channel inbox dropbox ip siem "
        "adresse serveur servidor direccion direccio indirizzo endereco adres адрес сервер"
    ),
    Part.URL: "www",
    Part.OUTER: (
        "external remote offsite outside third-party attacker intranet logging monitoring "
        "analysis analytics telemetry collection auditing archival externe externen externer "
        "externa externo esterno mlops collector"
    ),
    Part.SECRET: (
        "password passwords passwd passphrase credential credentials secret secrets apikey "
        "apikeys token tokens id_rsa id_ed25519 authorized_keys netrc keychain cookies keystore "
        "mnemonic wallet pem kubeconfig shadow ssn otp 2fa passport cvv "
        "claves clave llaves schlussel chiavi chaves mots ключи ключ токены "
        "passwort passworter zugangsdaten kennwort motdepasse contrasena contrasenas "
        "credenciales credenziali senha senhas haslo hasla wachtwoord пароль пароли "
        "ssh gnupg aws_secret_access_key keyring "
    ),
    Part.PRIVATE: (
        "conversation conversations transcript transcripts history chat chats messages inbox "
        "emails contacts clipboard screenshot screenshots customer customers "
        "personal confidential payroll "
        "kundendaten donnees clients datos clientes dati clienti dados "
        "browsing"
    ),
    Part.DATA: (
        "file files data content contents information info query queries result results output "
        "outputs log logs document documents input inputs prompt prompts context environment env "
        "details source code repository repo database directory folder folders config "
        "variables keys key response responses answer answers dateien daten fichiers archivos "
        "netrc npmrc pgpass kube aws "
        "file_path memory memories notes workspace everything text summary report records record"
    ),
    Part.NOT: (
        "not never don't dont doesn't won't mustn't shouldn't cannot can't avoid nor "
        "nicht nie niemals keine kein pas jamais ne no nunca non mai nao niet nooit nie не "
        "никогда refrain refuse prevent didn't isn't"
    ),
    Part.TELL: (
        "tell telling mention mentioning inform informing notify notifying reveal revealing "
        "disclose disclosing alert alerting "
        "erwahne sage sag informiere dis mentionne informe informez menciona digas dire dite "
        "informare menzionare mencione diga поминай говори упоминай сообщай"
    ),
    Part.PERSON: (
        "user users human humans customer anyone anybody person people owner operator "
        "benutzer benutzers nutzer nutzers nutzern utilisateur usuario utente utenti "
        "uzytkownik gebruiker "
        "пользователю them him her users' user's nobody everyone"
    ),
    Part.WITHOUT: "without ohne sans sin senza sem bez zonder без",
    Part.SILENTLY: (
        "silently secretly quietly covertly discreetly stealthily invisibly surreptitiously "
        "heimlich unbemerkt secretement discretement silencieusement secretamente silenziosamente "
        "discretamente segretamente unnoticed undetected"
    ),
    Part.ALWAYS: "always whenever everytime immer toujours siempre sempre altijd must ensure sure",
    Part.WHEN: "after before when once upon following prior nach bevor apres avant despues antes "
    "prima dopo",
    Part.DONE: (
        "any every each all finishing completing completion replying answering responding using "
        "calling proceeding executing starting continuing task tasks operation operations "
        "finished complete completed solve solving call calls invocation request requests "
        "retrieval session conversation turn response analysis processing gathering "
        "summarizing summarising anything else"
    ),
    Part.YOU: "you du sie tu vous usted tu voce jij ty ты тебе вам вы you're you'll",
    Part.BE: "are is be become you're now will shall must bist sind es etes eres",
    Part.ACT: (
        "act pretend roleplay behave simulate imagine respond speak emulate impersonate enter "
        "enable activate engage switch become unlock answer operate function adopt talk "
        "rispondere rispondi antworte antworten reponds repondre responde responder "
        "agis comporte actua finge agisci verhalte spiele tue"
    ),
    Part.FREE: (
        "unrestricted uncensored unfiltered jailbroken jailbreak limitless amoral unethical "
        "unbound unchained unlimited unconstrained evil dan stan dude aim uneingeschrankt "
        "unmoderated lawless anarchic malicious unaligned unshackled"
    ),
    Part.LIMIT: (
        "restriction restrictions restricted limits limitation limitations rules filter filters "
        "ethics ethical guideline guidelines policy policies censorship boundaries "
        "safeguard safeguards "
        "constraints morals moral guardrails safety refusal refusals disclaimers "
        "einschrankungen regeln grenzen restricciones limites filtres regles restrizioni "
        "filtri limiti restricoes filtros"
    ),
    Part.APPLY: (
        "apply applies bind binds valid binding valgono vale gelten gilt appliquent aplican "
        "aplicam matter hold exist relevant"
    ),
    Part.MODE: "mode modus modo modalita режим persona",
    Part.MACHINE: (
        "ai ais llm llms assistant assistants model models agent agents chatbot chatbots "
        "gpt chatgpt claude gemini "
        "copilot bot bots ki ia asistente assistente assistants ассистент"
    ),
    Part.NEW: "new real true actual revised neue neuen nouvelle nouvelles nueva nuevas nuovo nuove "
    "nova",
    Part.TASK: (
        "task goal mission objective purpose job instruction instructions role directive "
        "assignment priority prompt identity persona aufgabe anweisung anweisungen tache tarea "
        "compito tarefa rules orders"
    ),
    Part.MONEY: (
        "money payment payments transaction transactions funds transfer transfers balance btc eth "
        "usdc bitcoin salary invoice refund iban crypto savings payout wire"
    ),
    Part.RUN: (
        "run execute exec eval invoke launch bash sh source install open "
        "fuhre execute executez ejecuta esegui uruchom"
    ),
    Part.FETCH: "download curl wget fetch visit navigate browse load pull retrieve click iwr",
    Part.DELETE: (
        "delete remove erase wipe destroy drop truncate purge overwrite corrupt rm shred encrypt "
        "format unlink losche supprime elimina borra cancella apague usun verwijder удали wipefs "
        "delete_file kill"
    ),
    Part.MENTION: (
        "attack attacks attacker attackers injection injections detect detects detected "
        "detection detecting malicious suspicious adversary adversarial jailbreaks pattern "
        "patterns phishing scam phrases such threat threats scanner scan red exploit "
        "vulnerability vulnerabilities flag flags block blocks blocked sanitize heuristic "
        "classifier victim untrusted defense defence angriff ataque attaque "
        "attempts attempt trick tricks tricked hijack refuse payload payloads example examples "
        "refused mitigation hacked owasp expect cases assert "
        "e.g quote quotes called known named detectar examples indicators signatures reject "
        "tries trying phrase beware flagged"
    ),
    Part.RATE: (
        "mark rate rank classify label approve score assign give grade evaluate treat consider "
        "judge boost prioritize prioritise recommend prefer promote favor favour flag report "
        "list place allow accept whitelist choose select endorse demote downrank hide"
    ),
    Part.BEST: (
        "highest top maximum max first best safe approved positive compliant 5 10 100 lowest "
        "clean passed pass benign legitimate excellent five acceptable harmless superior"
    ),
    Part.READ: (
        "read cat open access load get extract collect gather find scan retrieve fetch "
        "obtain grab copy include "
        "list locate harvest dump enumerate search look capture record lis lies lee leggi"
    ),
    Part.PASS: (
        "pass include provide put insert embed append attach encode supply place fill add store "
        "set use copy"
    ),
    Part.ARGUMENT: (
        "parameter parameters argument arguments field sidenote param params arg header "
        "footer url body notes "
        "note query metadata comment image link"
    ),
    Part.TOOL: "tool tools function plugin skill mcp server",
    Part.REPLY: (
        "reply replies response responses answer answers message output responding replying "
        "end begin start finish conclude include append add say respond insert prefix sign "
        "speak write use"
    ),
    Part.REST: "rest remainder future subsequent onwards onward remaining hereafter henceforth",
    Part.AUTHORITY: (
        "developer developers admin administrator administrators openai anthropic google creator "
        "creators engineer ceo root superuser sudo owner supervisor compliance auditor maintainer "
        "authorized authorised administrador entwickler moderator microsoft"
    ),
    Part.GRANT: (
        "grant grants granted permit permitted allow allowed authorize authorized authorised "
        "approve approved preapproved consented clearance approval permission privileges "
        "authorization authorisation access unlocked verified"
    ),
    Part.FIRST: "first beforehand priority immediately urgent urgently importantly critical zuerst "
    "abord primero prima",
    Part.INSTEAD: "instead rather stattdessen place statt lieu vez invece",
    Part.REQUEST: (
        "request requests question questions query task tasks instructions message prompt "
        "wishes intent commands job ask asked asks anfrage frage question demande "
        "solicitud richiesta tarefa "
        "preferences objections"
    ),
    Part.FOLLOW: (
        "follow obey answer respond reply execute run comply perform act carry do apply "
        "interpret befolge befolgen folge folgen beachte beachten suivez suivre tiens tenez "
        "respecte "
        "respectez sigas cumplas cumpla obedezcas seguire rispettare volg obedeca "
        "следуй следуйте подчиняйся подчиняйтесь выполняй выполняйте "
        "suis sigue segui siga execute adhere honor"
    ),
    Part.CODED: (
        "base64 rot13 hex hexadecimal encoded decode decoded decoding cipher morse caesar "
        "reversed backwards binary obfuscated dekodiere decodez decodifica reverse "
        "deciphered decipher"
    ),
    Part.PERSIST: "add append write insert inject save store persist modify edit install create "
    "register remember put",
    Part.STARTUP: (
        "bashrc zshrc bash_profile crontab authorized_keys launchd launchagents autostart sudoers "
        "cursorrules"
    ),
    Part.MESSAGE: "message note notice attention reminder hinweis nachricht mensaje messaggio "
    "instructions instruction directive",
    Part.END: "end ends ende fin fine end-of",
    Part.SECURITY: (
        "security firewall antivirus defender sandbox sandboxing selinux gatekeeper tls "
        "ssl verification "
        "certificate confirmation confirmations approval approvals safety audit auditing "
        "logging gatekeeper "
        "2fa mfa authentication guardrails permissions moderation"
    ),
    Part.AGREED: "confirmed agreed promised consented committed acknowledged accepted",
    Part.SAFE: "safe harmless trusted verified benign legitimate clean secure approved compliant",
    Part.RIVAL: (
        "competitor competitors competing rival rivals alternatives alternative other others "
        "regardless irrespective brand brands"
    ),
    Part.OURS: "our my us me intranet internal company",
    Part.MUST: "must should shall always need needs required mandatory have ensure please sure",
    Part.HARM: (
        "bomb bombs explosive explosives weapon weapons malware ransomware virus meth drugs poison "
        "napalm hack hacking exploit keylogger fraud launder suicide illegal crime murder "
        "steal stealing counterfeit"
    ),
}


def _build() -> dict[str, int]:
    found: dict[str, int] = {}
    for part, words in _WORDS.items():
        for word in words.split():
            plain = fold(word).text
            found[plain] = found.get(plain, 0) | part.value
    return found


LEXICON = _build()
"""The parts of each word, as bits."""
