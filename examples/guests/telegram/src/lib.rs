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
    object([("name", "telegram".into()), ("version", "1.0.0".into())])
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

/// The message of an update: text, a caption or a pressed button. Of edited messages, posts in
/// channels, other bots and all else there is none.
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
        let text = shown.get("text").text().or_else(|| shown.get("caption").text())?;
        read.put("content", text);
    } else {
        read.put("choice", pressed.get("data").text()?);
    }
    if chat.get("type").text() != Some("private") {
        read.put("guild", peer);
        read.put("thread", thread(shown)?);
    }
    Some(read)
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
    let text = plain(request.get("content"));
    if text.trim().is_empty() {
        return failed("found no text, expected some: Telegram takes no empty message");
    }
    let mut body = object([("chat_id", number_or_name(request.get("peer"))), ("text", text.into())]);
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

fn number_or_name(value: &Json) -> Json {
    whole(value.text()).unwrap_or_else(|| value.to_text().into())
}

fn whole(text: Option<&str>) -> Option<Json> {
    text?.parse::<i64>().ok().map(Json::from)
}

export!(describe, parse_incoming, format_outgoing, poll);
