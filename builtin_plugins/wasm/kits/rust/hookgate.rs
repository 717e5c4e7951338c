//! What a guest of hookgate is written with, in Rust: one file, and no crate besides `std`.
//!
//! ```ignore
//! #[macro_use]
//! mod hookgate;
//! use hookgate::{tool_error, tool_text, Json};
//!
//! fn handle_tool_call(request: &Json) -> Json {
//!     match request.get("input").get("text").text() {
//!         Some(text) => tool_text(text.to_uppercase()),
//!         None => tool_error("upper needs a text"),
//!     }
//! }
//!
//! export!(handle_tool_call);
//! ```
//!
//! A guest exports functions that take one JSON object and answer with one. Each call runs in an
//! instance of its own, so nothing is ever freed and nothing is left over from the call before.
#![allow(dead_code)]

#[cfg(target_arch = "wasm32")]
use std::alloc::{GlobalAlloc, Layout};
use std::fmt;

// -- memory --------------------------------------------------------------------------------

/// Hands out memory and takes none back: the instance ends with the call.
#[cfg(target_arch = "wasm32")]
struct Bump;

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: Bump = Bump;

#[cfg(target_arch = "wasm32")]
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        static mut NEXT: usize = 0;
        static mut END: usize = 0;
        let need = layout.size() + layout.align();
        if NEXT == 0 || END - NEXT < need {
            let pages = (need + 0xffff) >> 16;
            let grown = core::arch::wasm32::memory_grow(0, pages);
            if grown == usize::MAX {
                return core::ptr::null_mut();
            }
            // What the host or nobody grew lies next to what is left: it is used up to its end.
            if NEXT == 0 || grown << 16 != END {
                NEXT = grown << 16;
            }
            END = (grown + pages) << 16;
        }
        let at = (NEXT + layout.align() - 1) & !(layout.align() - 1);
        NEXT = at + layout.size();
        at as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Where the host puts requests and answers.
#[no_mangle]
pub extern "C" fn alloc(len: usize) -> *mut u8 {
    Box::leak(vec![0; len].into_boxed_slice()).as_mut_ptr()
}

/// Exports functions of the form `fn(&Json) -> Json` under their own names.
macro_rules! export {
    ($($name:ident),+ $(,)?) => {
        mod exports {
            $(
                #[no_mangle]
                pub extern "C" fn $name(at: *const u8, len: usize) -> u64 {
                    crate::hookgate::answered(at, len, super::$name)
                }
            )+
        }
    };
}

/// Reads the request, calls `with`, and hands its answer to the host.
pub fn answered(at: *const u8, len: usize, with: fn(&Json) -> Json) -> u64 {
    let answer = with(&read(at, len)).to_string().into_bytes();
    let answer = Box::leak(answer.into_boxed_slice());
    (answer.as_ptr() as usize as u64) << 32 | answer.len() as u64
}

fn read(at: *const u8, len: usize) -> Json {
    if len == 0 {
        return Json::Null;
    }
    // The host has written these bytes where `alloc` said.
    let bytes = unsafe { std::slice::from_raw_parts(at, len) };
    Json::parse(&String::from_utf8_lossy(bytes)).unwrap_or(Json::Null)
}

// -- the host ------------------------------------------------------------------------------

#[link(wasm_import_module = "hookgate")]
extern "C" {
    #[link_name = "log"]
    fn import_log(at: *const u8, len: usize) -> u64;
    #[link_name = "clock"]
    fn import_clock(at: *const u8, len: usize) -> u64;
    #[link_name = "random"]
    fn import_random(at: *const u8, len: usize) -> u64;
    #[link_name = "store"]
    fn import_store(at: *const u8, len: usize) -> u64;
    #[link_name = "http"]
    fn import_http(at: *const u8, len: usize) -> u64;
    #[link_name = "env"]
    fn import_env(at: *const u8, len: usize) -> u64;
}

type Import = unsafe extern "C" fn(*const u8, usize) -> u64;

/// Why the host refused, or what failed.
pub struct Refused {
    pub code: String,
    pub message: String,
}

fn ask(import: Import, request: &Json) -> Result<Json, Refused> {
    let request = request.to_string();
    let packed = unsafe { import(request.as_ptr(), request.len()) };
    let mut answer = read((packed >> 32) as usize as *const u8, packed as u32 as usize);
    match answer.take("ok") {
        Some(ok) => Ok(ok),
        None => Err(Refused {
            code: answer.get("error").get("code").to_text(),
            message: answer.get("error").get("message").to_text(),
        }),
    }
}

/// Writes a line to the gateway's log. Needs the grant `log`.
pub fn log(level: &str, message: &str) {
    // A line that is not written changes nothing for the guest.
    let _ = ask(import_log, &object([("level", level.into()), ("message", message.into())]));
}

/// Returns `{"unix", "monotonic"}`, in seconds. Needs the grant `clock`.
pub fn clock() -> Result<Json, Refused> {
    ask(import_clock, &object([]))
}

/// Returns random bytes as base64. Needs the grant `random`.
pub fn random(bytes: u32) -> Result<Json, Refused> {
    ask(import_random, &object([("bytes", i64::from(bytes).into())]))
}

/// `{"op": "get" | "set" | "delete" | "list", "key", "value"?}`. Needs a grant `store:...`.
pub fn store(request: &Json) -> Result<Json, Refused> {
    ask(import_store, request)
}

/// `{"url", "method", "headers", "body"}`, and back `{"status", "headers", "body"}`. Needs a grant
/// `http:...`.
pub fn http(request: &Json) -> Result<Json, Refused> {
    ask(import_http, request)
}

/// Returns a value of the environment, or null. Needs the grant `env:NAME`.
pub fn env(name: &str) -> Result<Json, Refused> {
    ask(import_env, &object([("name", name.into())]))
}

// -- answers -------------------------------------------------------------------------------

/// The answer of `handle_tool_call`: text.
pub fn tool_text(content: impl Into<String>) -> Json {
    object([("content", content.into().into())])
}

/// The answer of `handle_tool_call`: an error that the model reads.
pub fn tool_error(message: impl Into<String>) -> Json {
    object([("content", message.into().into()), ("is_error", true.into())])
}

// -- JSON ----------------------------------------------------------------------------------

/// Containers within containers, at most.
const DEEPEST: usize = 64;

/// A JSON value. What is missing reads as `Null`. Numbers are kept as they were written, so that
/// an id of 64 bits stays what it is.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Makes an object.
pub fn object<const N: usize>(entries: [(&str, Json); N]) -> Json {
    Json::Object(entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
}

impl Json {
    /// Reads one JSON value, or says at which byte it is none.
    pub fn parse(text: &str) -> Result<Json, usize> {
        let mut reader = Reader { text, at: 0 };
        reader.blank();
        let value = reader.value(1);
        reader.blank();
        match value {
            Some(value) if reader.at == text.len() => Ok(value),
            _ => Err(reader.at),
        }
    }

    /// The value of `key` in an object; of several the last, as most readers take it.
    pub fn get(&self, key: &str) -> &Json {
        match self {
            Json::Object(entries) => {
                entries.iter().rev().find(|(name, _)| name == key).map_or(&Json::Null, |(_, value)| value)
            }
            _ => &Json::Null,
        }
    }

    fn take(&mut self, key: &str) -> Option<Json> {
        match self {
            Json::Object(entries) => {
                let at = entries.iter().rposition(|(name, _)| name == key)?;
                Some(entries.swap_remove(at).1)
            }
            _ => None,
        }
    }

    /// Adds to an object; to anything else it does nothing.
    pub fn put(&mut self, key: &str, value: impl Into<Json>) {
        if let Json::Object(entries) = self {
            entries.push((key.to_string(), value.into()));
        }
    }

    /// The items of a list; of anything else none.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::List(items) => items,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Text as it is, a number with all its digits, and anything else as empty text.
    pub fn to_text(&self) -> String {
        match self {
            Json::Text(text) | Json::Number(text) => text.clone(),
            _ => String::new(),
        }
    }

    /// A whole number of 64 bits.
    pub fn int(&self) -> Option<i64> {
        match self {
            Json::Number(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    pub fn bool(&self) -> Option<bool> {
        match self {
            Json::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Json::Null)
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Json {
        Json::Text(text.to_string())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Json {
        Json::Text(text)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Json {
        Json::Number(value.to_string())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Json {
        Json::Bool(value)
    }
}

impl From<Vec<Json>> for Json {
    fn from(items: Vec<Json>) -> Json {
        Json::List(items)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => out.write_str(if *value { "true" } else { "false" }),
            Json::Number(digits) => out.write_str(digits),
            Json::Text(text) => quoted(text, out),
            Json::List(items) => {
                out.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    out.write_str(if at == 0 { "" } else { "," })?;
                    item.fmt(out)?;
                }
                out.write_str("]")
            }
            Json::Object(entries) => {
                out.write_str("{")?;
                for (at, (key, value)) in entries.iter().enumerate() {
                    out.write_str(if at == 0 { "" } else { "," })?;
                    quoted(key, out)?;
                    out.write_str(":")?;
                    value.fmt(out)?;
                }
                out.write_str("}")
            }
        }
    }
}

fn quoted(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    out.write_str("\"")?;
    let mut done = 0;
    for (at, one) in text.bytes().enumerate() {
        if one >= 0x20 && one != b'"' && one != b'\\' {
            continue;
        }
        out.write_str(&text[done..at])?;
        done = at + 1;
        match one {
            b'"' => out.write_str("\\\"")?,
            b'\\' => out.write_str("\\\\")?,
            b'\n' => out.write_str("\\n")?,
            _ => {
                let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
                out.write_str("\\u00")?;
                fmt::Write::write_char(out, digit(one >> 4))?;
                fmt::Write::write_char(out, digit(one & 15))?;
            }
        }
    }
    out.write_str(&text[done..])?;
    out.write_str("\"")
}

/// Reads JSON as RFC 8259 has it. Each method returns None where it finds something else.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blank(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.next() {
            self.at += 1;
        }
    }

    fn eat(&mut self, expected: u8) -> bool {
        let found = self.next() == Some(expected);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        match self.next()? {
            b'{' | b'[' if depth > DEEPEST => None,
            b'{' => self.object(depth),
            b'[' => self.list(depth),
            b'"' => self.string().map(Json::Text),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'n' => self.word("null", Json::Null),
            _ => self.number(),
        }
    }

    fn word(&mut self, expected: &str, value: Json) -> Option<Json> {
        self.text.get(self.at..)?.starts_with(expected).then(|| {
            self.at += expected.len();
            value
        })
    }

    fn object(&mut self, depth: usize) -> Option<Json> {
        let mut entries = Vec::new();
        self.at += 1;
        self.blank();
        if self.eat(b'}') {
            return Some(Json::Object(entries));
        }
        loop {
            let key = self.string()?;
            self.blank();
            if !self.eat(b':') {
                return None;
            }
            self.blank();
            entries.push((key, self.value(depth + 1)?));
            self.blank();
            if self.eat(b'}') {
                return Some(Json::Object(entries));
            }
            if !self.eat(b',') {
                return None;
            }
            self.blank();
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        let mut items = Vec::new();
        self.at += 1;
        self.blank();
        if self.eat(b']') {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.blank();
            if self.eat(b']') {
                return Some(Json::List(items));
            }
            if !self.eat(b',') {
                return None;
            }
            self.blank();
        }
    }

    fn digits(&mut self) -> Option<()> {
        let begin = self.at;
        while let Some(b'0'..=b'9') = self.next() {
            self.at += 1;
        }
        (self.at > begin).then_some(())
    }

    fn number(&mut self) -> Option<Json> {
        let begin = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Some(Json::Number(self.text.get(begin..self.at)?.to_string()))
    }

    fn string(&mut self) -> Option<String> {
        if !self.eat(b'"') {
            return None;
        }
        let mut read = String::new();
        let mut begin = self.at;
        loop {
            match self.next()? {
                b'"' => {
                    read.push_str(self.text.get(begin..self.at)?);
                    self.at += 1;
                    return Some(read);
                }
                b'\\' => {
                    read.push_str(self.text.get(begin..self.at)?);
                    self.at += 1;
                    read.push(self.escape()?);
                    begin = self.at;
                }
                0..=0x1f => return None,
                _ => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let one = self.next()?;
        self.at += 1;
        Some(match one {
            b'"' | b'\\' | b'/' => char::from(one),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let high = self.hex()?;
                let before = self.at;
                if (0xd800..0xdc00).contains(&high) && self.eat(b'\\') && self.eat(b'u') {
                    let low = self.hex()?;
                    if (0xdc00..0xe000).contains(&low) {
                        return char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
                    }
                }
                if (0xd800..0xe000).contains(&high) {
                    self.at = before; // half of a pair stands for nothing
                }
                char::from_u32(high).unwrap_or('\u{fffd}')
            }
            _ => return None,
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|one| one.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}
