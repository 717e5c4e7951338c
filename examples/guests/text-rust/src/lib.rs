//! Tools for text, in Rust: what models are bad at, counted and cut exactly.

#[macro_use]
#[path = "../../../../builtin_plugins/wasm/kits/rust/hookgate.rs"]
mod hookgate;

use hookgate::{object, tool_error, tool_text, Json};

fn describe(_: &Json) -> Json {
    let tools = ["text_count", "text_slug", "text_find"].iter().map(|name| object([("name", (*name).into())]));
    object([
        ("name", "text-rust".into()),
        ("version", "1.0.0".into()),
        ("tools", Json::List(tools.collect())),
    ])
}

fn handle_tool_call(request: &Json) -> Json {
    let input = request.get("input");
    let text = match input.get("text").text() {
        Some(text) => text,
        None => return tool_error("The input needs a text: {\"text\": \"...\"}"),
    };
    match request.get("name").text() {
        Some("text_count") => count(text),
        Some("text_slug") => slug(text, input.get("longest").int().unwrap_or(60)),
        Some("text_find") => match input.get("what").text() {
            Some(what) if !what.is_empty() => find(text, what),
            _ => tool_error("text_find needs what to look for: {\"text\": \"...\", \"what\": \"...\"}"),
        },
        _ => tool_error("This guest has the tools text_count, text_slug and text_find."),
    }
}

fn count(text: &str) -> Json {
    let told = object([
        ("bytes", number(text.len())),
        ("characters", number(text.chars().count())),
        ("words", number(text.split_whitespace().count())),
        ("lines", number(text.lines().count())),
    ]);
    tool_text(told.to_string())
}

/// Letters and digits in lower case, with one dash between them.
fn slug(text: &str, longest: i64) -> Json {
    let longest = longest.clamp(1, 200) as usize;
    let mut made = String::new();
    let mut dash = false;
    for one in text.chars().flat_map(char::to_lowercase) {
        if !one.is_alphanumeric() {
            dash = !made.is_empty();
            continue;
        }
        if made.len() + usize::from(dash) + one.len_utf8() > longest {
            break;
        }
        if dash {
            made.push('-');
            dash = false;
        }
        made.push(one);
    }
    tool_text(made)
}

/// Where `what` stands: lines and columns, counted from 1, in characters.
fn find(text: &str, what: &str) -> Json {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for (column, _) in line.match_indices(what) {
            found.push(object([
                ("line", number(at + 1)),
                ("column", number(line[..column].chars().count() + 1)),
            ]));
        }
    }
    tool_text(Json::List(found).to_string())
}

fn number(value: usize) -> Json {
    Json::Number(value.to_string())
}

export!(describe, handle_tool_call);
