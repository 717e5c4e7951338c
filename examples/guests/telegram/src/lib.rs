//! Telegram: what the Bot API says becomes messages, and what is to be said becomes its requests.
//!
//! The gateway holds the connection, webhook or long polling, and sends; this module translates.
//! It never sees the token: `{{secret:TELEGRAM_BOT_TOKEN}}` is replaced on the way out.

#[macro_use]
#[path = "../../../../builtin_plugins/wasm/kits/rust/hookgate.rs"]
mod hookgate;

use hookgate::{object, Json};

/// Where the Bot API is, unless the value TELEGRAM_API of the environment names a server of one's own.
const API: &str = "https://api.telegram.org";
/// Seconds that Telegram may hold a request for updates, where the manifest does not say.
const WAIT: i64 = 25;
/// The most of them that Telegram takes.
const LONGEST_WAIT: i64 = 50;
/// Messages of one answer; Telegram sends 100 at most.
const MOST: usize = 1000;

fn describe(_: &Json) -> Json {
    object([("name", "telegram".into()), ("version", "1.1.0".into())])
}

/// An answer that says why there is none.
fn failed(message: impl Into<String>) -> Json {
    object([("error", object([("message", message.into().into())]))])
}

// -- in --------------------------------------------------------------------------------------

fn parse_incoming(request: &Json) -> Json {
    let body = match Json::parse(request.get("body").text().unwrap_or("")) {
        Ok(body) => body,
        Err(at) => return failed(format!("found no JSON at byte {}, expected what the Bot API sends", at)),
    };
    match request.get("kind").text() {
        Some("webhook") => webhook(&body),
        Some("poll") => match result(request, &body) {
            Ok(updates) => page(updates),
            Err(error) => error,
        },
        Some("sent") => match result(request, &body) {
            Ok(message) => object([("message_id", id(message.get("message_id")).unwrap_or_default().into())]),
            // The message says already what it was to be changed to.
            Err(_) if description(&body).contains("message is not modified") => object([("done", true.into())]),
            Err(error) => error,
        },
        _ => failed("found no kind that Telegram has, expected webhook, poll or sent"),
    }
}

fn description(body: &Json) -> &str {
    body.get("description").text().unwrap_or("no description")
}

/// What a method of the Bot API has returned.
fn result<'a>(request: &Json, body: &'a Json) -> Result<&'a Json, Json> {
    if body.get("ok").bool() == Some(true) {
        return Ok(body.get("result"));
    }
    let code = body.get("error_code").int().or_else(|| request.get("status").int()).unwrap_or(0);
    let mut error = object([
        ("message", format!("Telegram refuses with {}: {}", code, description(body)).into()),
        // 409 ends by itself: another gateway still polls, or a webhook is being taken away.
        ("transient", matches!(code, 409 | 429 | 500..=599).into()),
    ]);
    if let Some(seconds) = body.get("parameters").get("retry_after").int() {
        error.put("retry_after", seconds.clamp(0, 3600));
    }
    Err(object([("error", error)]))
}

fn webhook(update: &Json) -> Json {
    if update.get("update_id").int().is_none() {
        return failed("found no update_id, expected an update of the Bot API");
    }
    let messages = message(update).into_iter().collect();
    let mut answer = object([("messages", Json::List(messages))]);
    // Telegram shows a pressed button as waiting until it is answered; the reply may do that.
    if let Some(query) = update.get("callback_query").get("id").text() {
        let body = object([("method", "answerCallbackQuery".into()), ("callback_query_id", query.into())]);
        answer.put(
            "reply",
            object([
                ("status", 200i64.into()),
                ("headers", object([("content-type", "application/json".into())])),
                ("body", body.to_string().into()),
            ]),
        );
    }
    answer
}

fn page(updates: &Json) -> Json {
    let mut messages = Vec::new();
    let mut last = None;
    for update in updates.items() {
        if messages.len() == MOST {
            break;
        }
        if let Some(at) = update.get("update_id").int() {
            last = last.max(Some(at));
            messages.extend(message(update));
        }
    }
    let mut answer = object([("messages", Json::List(messages))]);
    if let Some(next) = last.and_then(|at| at.checked_add(1)) {
        answer.put("cursor", next.to_string());
    }
    answer
}

/// What a message can have beside its text, and what it is called; what comes first is named.
const MEDIA: [(&str, &str); 11] = [
    ("photo", "photo"),
    ("voice", "voice message"),
    ("audio", "audio file"),
    ("video", "video"),
    ("video_note", "video message"),
    ("animation", "animation"),
    ("document", "file"),
    ("sticker", "sticker"),
    ("location", "location"),
    ("contact", "contact"),
    ("poll", "poll"),
];

/// The message of an update: text, a caption, a photo or the like, or a pressed button. Of edited
/// messages, posts in channels, other bots and all else there is none.
fn message(update: &Json) -> Option<Json> {
    let pressed = update.get("callback_query");
    let (from, shown) = if pressed.is_null() {
        let written = update.get("message");
        (written.get("from"), written)
    } else {
        (pressed.get("from"), pressed.get("message"))
    };
    if from.get("is_bot").bool() == Some(true) {
        return None;
    }
    let chat = shown.get("chat");
    let peer = id(chat.get("id"))?;
    let mut read = object([
        ("id", id(update.get("update_id"))?.into()),
        ("account", "default".into()),
        ("peer", peer.clone().into()),
        ("sender", id(from.get("id"))?.into()),
    ]);
    if pressed.is_null() {
        read.put("content", content(shown)?);
    } else {
        read.put("choice", pressed.get("data").text()?);
    }
    if chat.get("type").text() != Some("private") {
        read.put("addressed", !pressed.is_null() || addressed(shown));
        read.put("guild", peer);
        read.put("thread", thread(shown)?);
    }
    Some(read)
}

/// What a message says. Of what is no text it says that it is there: it cannot be read here, and
/// whoever has sent it is to hear that.
fn content(shown: &Json) -> Option<String> {
    let text = shown.get("text").text().or_else(|| shown.get("caption").text()).unwrap_or("");
    let media = MEDIA.iter().find(|(key, _)| !shown.get(key).is_null()).map(|(_, name)| name);
    match media {
        None if text.is_empty() => None,
        None => Some(text.to_string()),
        Some(name) => {
            let said = format!("[The message has a {} with it, which cannot be read here.]", name);
            Some(if text.is_empty() { said } else { format!("{}\n\n{}", text, said) })
        }
    }
}

/// Whether a message in a group is for the bot: a command, or a reply to a bot. By which names
/// people call it, the gateway's settings say.
fn addressed(shown: &Json) -> bool {
    let text = shown.get("text").text().unwrap_or("");
    text.starts_with('/') || shown.get("reply_to_message").get("from").get("is_bot").bool() == Some(true)
}

/// What an answer in a group names: the message, and behind a dash the topic of a forum.
fn thread(shown: &Json) -> Option<String> {
    let mut thread = id(shown.get("message_id"))?;
    if let (Some(true), Some(topic)) = (shown.get("is_topic_message").bool(), id(shown.get("message_thread_id"))) {
        thread.push('-');
        thread.push_str(&topic);
    }
    Some(thread)
}

/// Ids are whole numbers of up to 64 bits, and stay text from here on.
fn id(value: &Json) -> Option<String> {
    value.int().map(|id| id.to_string())
}

// -- out -------------------------------------------------------------------------------------

fn format_outgoing(request: &Json) -> Json {
    let chat = number_or_name(request.get("peer"));
    if request.get("action").text() == Some("typing") {
        return method("sendChatAction", &object([("chat_id", chat), ("action", "typing".into())]));
    }
    let written = Written::of(&plain(request.get("content")));
    if written.text.trim().is_empty() {
        return failed("found no text, expected some: Telegram takes no empty message");
    }
    let mut body = object([("chat_id", chat), ("text", written.text.into())]);
    if !written.entities.is_empty() {
        body.put("entities", Json::List(written.entities));
    }
    let edit = request.get("action").text() == Some("edit");
    if edit {
        match whole(request.get("message_id").text()) {
            Some(message) => body.put("message_id", message),
            None => return failed("found no message_id to edit, expected a number"),
        }
    } else if let Some(thread) = request.get("thread").text() {
        let (answered, topic) = thread.split_once('-').unwrap_or((thread, ""));
        if let Some(message) = whole(Some(answered)) {
            let reply = object([("message_id", message), ("allow_sending_without_reply", true.into())]);
            body.put("reply_parameters", reply);
        }
        if let Some(topic) = whole(Some(topic)) {
            body.put("message_thread_id", topic);
        }
    }
    let choices = request.get("choices").items();
    if !choices.is_empty() {
        let rows = choices.iter().map(|choice| {
            let button = object([
                ("text", choice.get("label").clone()),
                ("callback_data", choice.get("data").clone()),
            ]);
            Json::List(vec![button])
        });
        body.put("reply_markup", object([("inline_keyboard", Json::List(rows.collect()))]));
    }
    method(if edit { "editMessageText" } else { "sendMessage" }, &body)
}

fn poll(request: &Json) -> Json {
    let wait = request.get("seconds").int().unwrap_or(WAIT).clamp(0, LONGEST_WAIT);
    let mut body = object([
        ("timeout", wait.into()),
        ("allowed_updates", Json::List(vec!["message".into(), "callback_query".into()])),
    ]);
    if let Some(offset) = whole(request.get("cursor").text()) {
        body.put("offset", offset);
    }
    let mut asked = method("getUpdates", &body);
    asked.put("seconds", wait);
    asked
}

fn method(name: &str, body: &Json) -> Json {
    let api = hookgate::env("TELEGRAM_API").map_or(String::new(), |value| value.to_text());
    let api = if api.is_empty() { API } else { api.trim_end_matches('/') };
    object([
        ("url", format!("{}/bot{{{{secret:TELEGRAM_BOT_TOKEN}}}}/{}", api, name).into()),
        ("method", "POST".into()),
        ("headers", object([("content-type", "application/json".into())])),
        ("body", body.to_string().into()),
    ])
}

/// Content as plain text: parts one below the other, and in the place of media their name.
fn plain(content: &Json) -> String {
    if let Some(text) = content.text() {
        return text.to_string();
    }
    let lines: Vec<String> = content.items().iter().map(part).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

fn part(part: &Json) -> String {
    let name = part.get("name").to_text();
    match part.get("type").text() {
        Some("text") => part.get("text").to_text(),
        Some("link") if name.is_empty() => part.get("uri").to_text(),
        Some("link") => format!("{}: {}", name, part.get("uri").to_text()),
        Some(kind) => format!("[{}]", if name.is_empty() { kind } else { &name }),
        None => String::new(),
    }
}

// -- Markdown --------------------------------------------------------------------------------

/// Entities of one message; Telegram passes over those beyond.
const ENTITIES: usize = 100;
/// So deep may they stand in one another.
const DEPTH: usize = 8;

/// Text as Telegram has it: without marks, and beside it which part of it is bold and the like.
/// So nothing has to be escaped, and marks that nobody has closed yet stay as they were written.
#[derive(Default)]
struct Written {
    text: String,
    entities: Vec<Json>,
    /// The length of the text in the units of UTF-16, in which Telegram counts.
    at: i64,
}

impl Written {
    fn of(markdown: &str) -> Written {
        let mut written = Written::default();
        let mut lines = markdown.split_inclusive('\n').peekable();
        let mut paragraph = String::new();
        while let Some(line) = lines.next() {
            let ticks = line.chars().take_while(|&one| one == '`').count();
            if ticks >= 3 && !line[ticks..].contains('`') {
                written.inline(&core::mem::take(&mut paragraph), 0);
                let mut code = String::new();
                let closes = |one: &str| {
                    let one = one.trim_end();
                    one.len() >= ticks && one.bytes().all(|byte| byte == b'`')
                };
                while let Some(next) = lines.next() {
                    if closes(next) {
                        break;
                    }
                    code.push_str(next);
                }
                let code = code.strip_suffix('\n').unwrap_or(&code);
                let mut pre = object([("type", "pre".into())]);
                if !line[ticks..].trim().is_empty() {
                    pre.put("language", line[ticks..].trim());
                }
                written.entity(pre, |inner| inner.push(code));
                if lines.peek().is_some() {
                    written.push("\n");
                }
                continue;
            }
            let marks = line.chars().take_while(|&one| one == '#').count();
            let title = line[marks..].trim();
            if (1..=6).contains(&marks) && line[marks..].starts_with(' ') && !title.is_empty() {
                written.inline(&core::mem::take(&mut paragraph), 0);
                written.entity(object([("type", "bold".into())]), |inner| inner.inline(title, 1));
                if line.ends_with('\n') {
                    written.push("\n");
                }
                continue;
            }
            let indent = line.len() - line.trim_start_matches(' ').len();
            match line[indent..].strip_prefix("- ").or_else(|| line[indent..].strip_prefix("* ")) {
                Some(item) => {
                    paragraph.push_str(&line[..indent]);
                    paragraph.push_str("\u{2022} ");
                    paragraph.push_str(item);
                }
                None => paragraph.push_str(line),
            }
        }
        written.inline(&paragraph, 0);
        written
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.at += text.encode_utf16().count() as i64;
    }

    /// Writes by `inner`, and notes that what it has written is `entity`.
    fn entity(&mut self, mut entity: Json, inner: impl FnOnce(&mut Written)) {
        let (from, place) = (self.at, self.entities.len());
        inner(self);
        if self.at > from && self.entities.len() < ENTITIES {
            entity.put("offset", from);
            entity.put("length", self.at - from);
            self.entities.insert(place, entity);
        }
    }

    fn inline(&mut self, text: &str, depth: usize) {
        let (mut rest, mut before) = (text, ' ');
        while let Some(first) = rest.chars().next() {
            let step = self.marked(rest, before, depth);
            if step > 0 {
                before = rest[..step].chars().next_back().unwrap_or(' ');
                rest = &rest[step..];
                continue;
            }
            let escaped = rest[first.len_utf8()..].chars().next().filter(char::is_ascii_punctuation);
            match (first, escaped) {
                ('\\', Some(next)) => {
                    self.push(next.encode_utf8(&mut [0; 4]));
                    before = next;
                    rest = &rest[1 + next.len_utf8()..];
                }
                _ => {
                    self.push(first.encode_utf8(&mut [0; 4]));
                    before = first;
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
    }

    /// Writes what stands at the beginning of `rest` within marks, and returns how long that is
    /// with them; 0 where there are none.
    fn marked(&mut self, rest: &str, before: char, depth: usize) -> usize {
        if depth >= DEPTH {
            return 0;
        }
        let end = rest.find("\n\n").unwrap_or(rest.len());
        let ticks = rest.chars().take_while(|&one| one == '`').count();
        if ticks > 0 {
            let fence = &rest[..ticks];
            return match rest[ticks..end.max(ticks)].find(fence) {
                Some(length) if length > 0 => {
                    let code = &rest[ticks..ticks + length];
                    self.entity(object([("type", "code".into())]), |inner| inner.push(code));
                    length + 2 * ticks
                }
                _ => {
                    self.push(fence);
                    ticks
                }
            };
        }
        if rest.starts_with('[') {
            return self.link(&rest[..end], depth);
        }
        let marks =
            [("**", "bold"), ("__", "bold"), ("~~", "strikethrough"), ("*", "italic"), ("_", "italic")];
        for (mark, kind) in marks {
            if !rest.starts_with(mark) {
                continue;
            }
            let within = &rest[mark.len()..end.max(mark.len())];
            let opens = within.chars().next().map_or(false, |one| !one.is_whitespace());
            if !opens || (mark.len() == 1 && before.is_alphanumeric()) {
                continue;
            }
            if let Some(length) = closed(within, mark) {
                let text = &within[..length];
                self.entity(object([("type", kind.into())]), |inner| inner.inline(text, depth + 1));
                return length + 2 * mark.len();
            }
        }
        0
    }

    fn link(&mut self, rest: &str, depth: usize) -> usize {
        let parts = rest[1..].split_once("](").and_then(|(name, after)| {
            after.split_once(')').map(|(url, _)| (name, url))
        });
        let (name, url) = match parts {
            Some(parts) if !parts.0.contains('[') => parts,
            _ => return 0,
        };
        let known = ["https://", "http://", "mailto:"].iter().any(|scheme| url.starts_with(scheme));
        if name.is_empty() || !known || url.contains(char::is_whitespace) {
            return 0;
        }
        let entity = object([("type", "text_link".into()), ("url", url.into())]);
        self.entity(entity, |inner| inner.inline(name, depth + 1));
        name.len() + url.len() + 4
    }
}

/// Where the text within a mark ends: before the next one that closes it.
fn closed(within: &str, mark: &str) -> Option<usize> {
    let twice = format!("{}{}", mark, mark);
    let mut from = 0;
    while let Some(found) = within[from..].find(mark) {
        let at = from + found;
        let before = within[..at].chars().next_back();
        let after = within[at + mark.len()..].chars().next();
        let doubled = mark.len() == 1 && within[at..].starts_with(&twice);
        let inside = mark.len() == 1 && after.map_or(false, char::is_alphanumeric);
        if at > 0 && !doubled && !inside && before.map_or(false, |one| !one.is_whitespace()) {
            return Some(at);
        }
        from = at + if doubled { twice.len() } else { mark.len() };
    }
    None
}

fn number_or_name(value: &Json) -> Json {
    whole(value.text()).unwrap_or_else(|| value.to_text().into())
}

fn whole(text: Option<&str>) -> Option<Json> {
    text?.parse::<i64>().ok().map(Json::from)
}

export!(describe, parse_incoming, format_outgoing, poll);
