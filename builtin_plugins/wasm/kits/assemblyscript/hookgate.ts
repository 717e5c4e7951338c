/**
 * What a guest of hookgate is written with, in AssemblyScript: one file, and no package.
 *
 *     import { Json, answer, request, toolText } from "./hookgate";
 *     export { alloc } from "./hookgate";
 *
 *     export function handle_tool_call(at: usize, len: usize): u64 {
 *       const input = request(at, len).get("input");
 *       return answer(toolText(input.get("text").text().toUpperCase()));
 *     }
 *
 * A guest exports functions that take one JSON object and answer with one. Each call runs in an
 * instance of its own, so the runtime `stub`, which frees nothing, is the right one.
 *
 * Reading never fails loudly: what is missing or of another kind reads as null, as empty text or
 * as the given default.
 */

// -- memory ---------------------------------------------------------------------------------

/** Where the host puts requests and answers. */
export function alloc(len: usize): usize {
  return heap.alloc(len);
}

/** The request of an export. */
export function request(at: usize, len: usize): Json {
  return Json.parse(String.UTF8.decodeUnsafe(at, len));
}

// Half of a pair, which is no text by itself, is written as U+FFFD.
function written(value: Json): ArrayBuffer {
  return String.UTF8.encode(value.toString(), false, String.UTF8.ErrorMode.REPLACE);
}

/** The answer of an export. */
export function answer(value: Json): u64 {
  const text = written(value);
  return ((changetype<usize>(text) as u64) << 32) | (text.byteLength as u64);
}

// -- the host -------------------------------------------------------------------------------

@external("hookgate", "log")
declare function importLog(at: usize, len: usize): u64;
@external("hookgate", "clock")
declare function importClock(at: usize, len: usize): u64;
@external("hookgate", "random")
declare function importRandom(at: usize, len: usize): u64;
@external("hookgate", "store")
declare function importStore(at: usize, len: usize): u64;
@external("hookgate", "http")
declare function importHttp(at: usize, len: usize): u64;
@external("hookgate", "env")
declare function importEnv(at: usize, len: usize): u64;

function answered(packed: u64): Json {
  return request((packed >> 32) as usize, (packed & 0xffff_ffff) as usize);
}

// Each of these needs a grant in hookgate-plugin.toml as soon as the guest uses it. What comes
// back is {"ok": ...}, or {"error": {"code", "message"}}.

/** Writes a line to the gateway's log. */
export function log(level: string, message: string): Json {
  const ask = written(Json.object().put("level", Json.of(level)).put("message", Json.of(message)));
  return answered(importLog(changetype<usize>(ask), ask.byteLength));
}

/** ok: {"unix", "monotonic"}, in seconds. */
export function clock(): Json {
  const ask = written(Json.object());
  return answered(importClock(changetype<usize>(ask), ask.byteLength));
}

/** ok: base64. */
export function random(bytes: i32): Json {
  const ask = written(Json.object().put("bytes", Json.number(bytes.toString())));
  return answered(importRandom(changetype<usize>(ask), ask.byteLength));
}

/** {"op": "get" | "set" | "delete" | "list", "key", "value"?} */
export function store(what: Json): Json {
  const ask = written(what);
  return answered(importStore(changetype<usize>(ask), ask.byteLength));
}

/** {"url", "method", "headers", "body"}; ok: {"status", "headers", "body"}. */
export function http(what: Json): Json {
  const ask = written(what);
  return answered(importHttp(changetype<usize>(ask), ask.byteLength));
}

/** ok: the value, or null. */
export function env(name: string): Json {
  const ask = written(Json.object().put("name", Json.of(name)));
  return answered(importEnv(changetype<usize>(ask), ask.byteLength));
}

// -- answers --------------------------------------------------------------------------------

/** The answer of handle_tool_call: text. */
export function toolText(content: string): Json {
  return Json.object().put("content", Json.of(content));
}

/** The answer of handle_tool_call: an error that the model reads. */
export function toolError(message: string): Json {
  return toolText(message).put("is_error", Json.bool(true));
}

// -- JSON -----------------------------------------------------------------------------------

export enum Kind {
  Null,
  Bool,
  Number,
  Text,
  List,
  Object,
}

/** Containers within containers, at most. */
const DEEPEST: i32 = 64;

const NO_ITEMS: Array<Json> = [];
const NO_KEYS: Array<string> = [];

/** A JSON value. Numbers are kept as they were written, so that an id of 64 bits stays what it is. */
export class Json {
  private constructor(
    public kind: Kind,
    /** The text, the digits of a number, `true` or `false`. */
    public written: string,
    /** The items of a list, or the values of an object. */
    public items: Array<Json> = NO_ITEMS,
    /** The keys of an object. */
    public keys: Array<string> = NO_KEYS,
  ) {}

  static of(text: string): Json {
    return new Json(Kind.Text, text);
  }

  static number(digits: string): Json {
    return new Json(Kind.Number, digits);
  }

  static bool(value: bool): Json {
    return new Json(Kind.Bool, value ? "true" : "false");
  }

  static none(): Json {
    return new Json(Kind.Null, "null");
  }

  static object(): Json {
    return new Json(Kind.Object, "", [], []);
  }

  static list(items: Array<Json>): Json {
    return new Json(Kind.List, "", items);
  }

  /** Reads one JSON value; what is none, or deeper than 64, reads as null. */
  static parse(text: string): Json {
    const value = Json.read(text);
    return value == null ? Json.none() : value;
  }

  /** Reads one JSON value, or nothing where it is none. */
  static read(text: string): Json | null {
    const reader = new Reader(text);
    const value = reader.whole();
    return reader.wrong ? null : value;
  }

  /** The value of `key` in an object; of several the last, as most readers take it. */
  get(key: string): Json {
    const at = this.keys.lastIndexOf(key);
    return at < 0 ? Json.none() : this.items[at];
  }

  /** An item of a list. */
  at(index: i32): Json {
    const there = this.kind == Kind.List && index >= 0 && index < this.items.length;
    return there ? this.items[index] : Json.none();
  }

  /** Adds to an object that `object` made, and returns it. */
  put(key: string, value: Json): Json {
    this.keys.push(key);
    this.items.push(value);
    return this;
  }

  isNull(): bool {
    return this.kind == Kind.Null;
  }

  /** Text as it is, and of anything else the given default. */
  text(otherwise: string = ""): string {
    return this.kind == Kind.Text ? this.written : otherwise;
  }

  /** A whole number, or the given default. */
  int(otherwise: i64 = 0): i64 {
    return this.kind == Kind.Number && isWhole(this.written) ? I64.parseInt(this.written) : otherwise;
  }

  isTrue(): bool {
    return this.kind == Kind.Bool && this.written == "true";
  }

  toString(): string {
    const out: Array<i32> = [];
    this.write(out);
    return String.fromCharCodes(out);
  }

  private write(out: Array<i32>): void {
    if (this.kind == Kind.Text) {
      quote(this.written, out);
    } else if (this.kind != Kind.List && this.kind != Kind.Object) {
      add(this.written, out);
    } else {
      const object = this.kind == Kind.Object;
      out.push(object ? 0x7b : 0x5b);
      for (let i = 0; i < this.items.length; i++) {
        if (i > 0) {
          out.push(0x2c);
        }
        if (object) {
          quote(this.keys[i], out);
          out.push(0x3a);
        }
        this.items[i].write(out);
      }
      out.push(object ? 0x7d : 0x5d);
    }
  }
}

function add(text: string, out: Array<i32>): void {
  for (let i = 0; i < text.length; i++) {
    out.push(text.charCodeAt(i));
  }
}

function quote(text: string, out: Array<i32>): void {
  out.push(0x22);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x20) {
      add(code < 16 ? "\\u000" : "\\u00", out);
      add(code.toString(16), out);
    } else {
      if (code == 0x22 || code == 0x5c) {
        out.push(0x5c);
      }
      out.push(code);
    }
  }
  out.push(0x22);
}

/** Whether digits are a number of at most 18, which 64 bits hold in any case. */
function isWhole(digits: string): bool {
  const begin = digits.charCodeAt(0) == 0x2d ? 1 : 0;
  for (let i = begin; i < digits.length; i++) {
    if (!isDigit(digits.charCodeAt(i))) {
      return false;
    }
  }
  return digits.length - begin <= 18;
}

function isDigit(code: i32): bool {
  return code >= 0x30 && code <= 0x39;
}

/** Reads JSON as RFC 8259 has it, and sets `wrong` where it finds something else. */
class Reader {
  at: i32 = 0;
  wrong: bool = false;

  constructor(private text: string) {}

  whole(): Json {
    this.blank();
    const value = this.value(1);
    this.blank();
    this.wrong = this.wrong || this.at != this.text.length;
    return value;
  }

  private next(): i32 {
    return this.at < this.text.length ? this.text.charCodeAt(this.at) : -1;
  }

  private blank(): void {
    let code = this.next();
    while (code == 0x20 || code == 0x0a || code == 0x0d || code == 0x09) {
      this.at++;
      code = this.next();
    }
  }

  private eat(code: i32): bool {
    const found = this.next() == code;
    this.at += found ? 1 : 0;
    return found;
  }

  private expect(code: i32): void {
    this.wrong = !this.eat(code) || this.wrong;
  }

  private value(depth: i32): Json {
    const code = this.next();
    if (code == 0x7b || code == 0x5b) {
      if (depth <= DEEPEST) {
        return this.container(depth, code == 0x7b);
      }
      this.wrong = true;
    } else if (code == 0x22) {
      return Json.of(this.string());
    } else if (code == 0x2d || isDigit(code)) {
      return this.number();
    } else if (this.word("true")) {
      return Json.bool(true);
    } else if (this.word("false")) {
      return Json.bool(false);
    } else {
      this.wrong = !this.word("null");
    }
    return Json.none();
  }

  private word(expected: string): bool {
    const found = this.text.substr(this.at, expected.length) == expected;
    this.at += found ? expected.length : 0;
    return found;
  }

  private container(depth: i32, object: bool): Json {
    const made = object ? Json.object() : Json.list([]);
    const close = object ? 0x7d : 0x5d;
    this.at++;
    this.blank();
    if (this.eat(close)) {
      return made;
    }
    while (!this.wrong) {
      if (object) {
        made.keys.push(this.string());
        this.blank();
        this.expect(0x3a);
        this.blank();
      }
      made.items.push(this.wrong ? Json.none() : this.value(depth + 1));
      this.blank();
      if (this.eat(close)) {
        return made;
      }
      this.expect(0x2c);
      this.blank();
    }
    return made;
  }

  private digits(): void {
    this.wrong = !isDigit(this.next()) || this.wrong;
    while (isDigit(this.next())) {
      this.at++;
    }
  }

  private number(): Json {
    const begin = this.at;
    this.eat(0x2d);
    if (!this.eat(0x30)) {
      this.digits();
    }
    if (this.eat(0x2e)) {
      this.digits();
    }
    if (this.eat(0x65) || this.eat(0x45)) {
      if (!this.eat(0x2b)) {
        this.eat(0x2d);
      }
      this.digits();
    }
    return Json.number(this.text.substring(begin, this.at));
  }

  private string(): string {
    this.expect(0x22);
    const begin = this.at;
    let units: Array<i32> | null = null;
    while (!this.wrong) {
      const code = this.next();
      if (code == 0x22) {
        const end = this.at++;
        return units == null ? this.text.substring(begin, end) : String.fromCharCodes(units);
      }
      if (code == 0x5c && units == null) {
        units = [];
        for (let i = begin; i < this.at; i++) {
          units.push(this.text.charCodeAt(i));
        }
      }
      this.wrong = code < 0x20;
      this.at++;
      const unit = code == 0x5c ? this.escape() : code;
      if (units != null) {
        units.push(unit);
      }
    }
    return "";
  }

  private escape(): i32 {
    const code = this.next();
    this.at++;
    switch (code) {
      case 0x22:
      case 0x5c:
      case 0x2f:
        return code;
      case 0x62:
        return 0x08;
      case 0x66:
        return 0x0c;
      case 0x6e:
        return 0x0a;
      case 0x72:
        return 0x0d;
      case 0x74:
        return 0x09;
      case 0x75:
        return this.hex();
      default:
        this.wrong = true;
        return 0;
    }
  }

  /** Halves of a pair are joined by themselves: text is UTF-16 here. */
  private hex(): i32 {
    let value = 0;
    for (let i = 0; i < 4; i++) {
      const code = this.next();
      const letter = code | 0x20;
      const digit = isDigit(code) ? code - 0x30 : letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
      this.wrong = digit < 0 || this.wrong;
      value = (value << 4) | (digit & 15);
      this.at++;
    }
    return value;
  }
}
