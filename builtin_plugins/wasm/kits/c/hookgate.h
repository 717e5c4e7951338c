/* What a guest of hookgate is written with, in C: one header, no library, no libc.
 *
 *     #include "hookgate.h"
 *
 *     HG_EXPORT(handle_tool_call) {
 *         hg_json input = hg_get(request, "input");
 *         return hg_tool_text(hg_string(hg_get(input, "text")));
 *     }
 *
 * A guest exports functions that take one JSON object and answer with one. Each call runs in an
 * instance of its own, so nothing is ever freed and nothing is left over from the call before.
 *
 * Reading never fails loudly: what is missing or of another kind reads as HG_MISSING, as empty
 * text or as the given default, and what hg_get finds in it is missing as well. Where memory ends,
 * the guest traps, and the host says so.
 */
#ifndef HOOKGATE_H
#define HOOKGATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -- memory ----------------------------------------------------------------------------- */

extern unsigned char __heap_base;

/* Room for `size` bytes, aligned to 8. */
static void *hg_alloc(size_t size) {
    static uintptr_t next = 0;
    if (next == 0) {
        next = ((uintptr_t)&__heap_base + 7) & ~(uintptr_t)7;
    }
    uint64_t end = (uint64_t)next + (((uint64_t)size + 7) & ~(uint64_t)7);
    uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
    if (end > have) {
        uint64_t pages = (end - have + 0xffff) >> 16;
        if (pages > 0xffff || __builtin_wasm_memory_grow(0, (size_t)pages) == (size_t)-1) {
            __builtin_trap();
        }
    }
    uintptr_t at = next;
    next = (uintptr_t)end;
    return (void *)at;
}

/* Where the host puts requests and answers. */
__attribute__((export_name("alloc"))) void *hg_export_alloc(uint32_t size) {
    return hg_alloc(size);
}

/* -- text ------------------------------------------------------------------------------- */

/* Text in UTF-8: `len` bytes at `at`, with no zero behind them. */
typedef struct {
    const char *at;
    size_t len;
} hg_text;

static hg_text hg_of(const char *literal) {
    size_t len = 0;
    while (literal[len] != 0) {
        len++;
    }
    return (hg_text){literal, len};
}

static bool hg_same(hg_text left, hg_text right) {
    if (left.len != right.len) {
        return false;
    }
    for (size_t i = 0; i < left.len; i++) {
        if (left.at[i] != right.at[i]) {
            return false;
        }
    }
    return true;
}

/* Text that grows at its end: begin with `hg_out out = {0};` */
typedef struct {
    char *at;
    size_t len;
    size_t room;
} hg_out;

static void hg_put(hg_out *out, hg_text text) {
    if (text.len > out->room - out->len) {
        if (text.len > SIZE_MAX / 2 - 64 - out->len) {
            __builtin_trap();
        }
        size_t room = (out->len + text.len) * 2 + 64;
        char *at = hg_alloc(room);
        for (size_t i = 0; i < out->len; i++) {
            at[i] = out->at[i];
        }
        out->at = at;
        out->room = room;
    }
    for (size_t i = 0; i < text.len; i++) {
        out->at[out->len + i] = text.at[i];
    }
    out->len += text.len;
}

static void hg_put_char(hg_out *out, char one) {
    hg_put(out, (hg_text){&one, 1});
}

/* JSON that you write yourself: hg_put_raw(&out, "{\"is_error\":true}"). */
static void hg_put_raw(hg_out *out, const char *json) {
    hg_put(out, hg_of(json));
}

/* `text` as a JSON string, with its quotes. */
static void hg_put_string(hg_out *out, hg_text text) {
    static const char digits[] = "0123456789abcdef";
    hg_put_char(out, '"');
    for (size_t i = 0; i < text.len; i++) {
        unsigned char one = (unsigned char)text.at[i];
        if (one == '"' || one == '\\') {
            hg_put_char(out, '\\');
            hg_put_char(out, (char)one);
        } else if (one < 0x20) {
            const char escape[6] = {'\\', 'u', '0', '0', digits[one >> 4], digits[one & 15]};
            hg_put(out, (hg_text){escape, 6});
        } else {
            hg_put_char(out, (char)one);
        }
    }
    hg_put_char(out, '"');
}

static void hg_put_int(hg_out *out, int64_t value) {
    char digits[20];
    size_t at = sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left != 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    hg_put(out, (hg_text){digits + at, sizeof digits - at});
}

/* -- reading JSON ------------------------------------------------------------------------ */

/* Containers within containers, at most. */
enum { HG_DEEPEST = 64 };

typedef enum {
    HG_MISSING,
    HG_NULL,
    HG_BOOL,
    HG_NUMBER,
    HG_STRING,
    HG_ARRAY,
    HG_OBJECT,
} hg_kind_t;

/* One value inside of a text that hg_parse has checked. */
typedef struct {
    const char *at;
    const char *end;
} hg_json;

static const char *hg__blank(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) {
        at++;
    }
    return at;
}

static int hg__hex(const char *at, const char *end) {
    if (end - at < 4) {
        return -1;
    }
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char one = at[i];
        int digit = one >= '0' && one <= '9'   ? one - '0'
                    : one >= 'a' && one <= 'f' ? one - 'a' + 10
                    : one >= 'A' && one <= 'F' ? one - 'A' + 10
                                               : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

/* Each of these returns where a value ends, or NULL where there is none. */
static const char *hg__end_of_string(const char *at, const char *end) {
    for (at++; at < end; at++) {
        if (*at == '"') {
            return at + 1;
        }
        if ((unsigned char)*at < 0x20) {
            return NULL;
        }
        if (*at != '\\') {
            continue;
        }
        if (++at >= end) {
            return NULL;
        }
        switch (*at) {
        case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
            break;
        case 'u':
            if (hg__hex(at + 1, end) < 0) {
                return NULL;
            }
            at += 4;
            break;
        default:
            return NULL;
        }
    }
    return NULL;
}

static const char *hg__digits(const char *at, const char *end) {
    const char *begin = at;
    while (at < end && *at >= '0' && *at <= '9') {
        at++;
    }
    return at == begin ? NULL : at;
}

static const char *hg__end_of_number(const char *at, const char *end) {
    if (at < end && *at == '-') {
        at++;
    }
    if (at < end && *at == '0') {
        at++;
    } else if ((at = hg__digits(at, end)) == NULL) {
        return NULL;
    }
    if (at < end && *at == '.' && (at = hg__digits(at + 1, end)) == NULL) {
        return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-')) {
            at++;
        }
        at = hg__digits(at, end);
    }
    return at;
}

static const char *hg__end_of_word(const char *at, const char *end, const char *word) {
    hg_text expected = hg_of(word);
    if ((size_t)(end - at) < expected.len || !hg_same((hg_text){at, expected.len}, expected)) {
        return NULL;
    }
    return at + expected.len;
}

static const char *hg__end_of(const char *at, const char *end, int depth) {
    if (at >= end) {
        return NULL;
    }
    switch (*at) {
    case '"': return hg__end_of_string(at, end);
    case 't': return hg__end_of_word(at, end, "true");
    case 'f': return hg__end_of_word(at, end, "false");
    case 'n': return hg__end_of_word(at, end, "null");
    case '{': case '[': break;
    default: return hg__end_of_number(at, end);
    }
    if (depth > HG_DEEPEST) {
        return NULL;
    }
    bool object = *at == '{';
    char close = object ? '}' : ']';
    at = hg__blank(at + 1, end);
    if (at < end && *at == close) {
        return at + 1;
    }
    for (;;) {
        if (object) {
            if (at >= end || *at != '"' || (at = hg__end_of_string(at, end)) == NULL) {
                return NULL;
            }
            at = hg__blank(at, end);
            if (at >= end || *at != ':') {
                return NULL;
            }
            at = hg__blank(at + 1, end);
        }
        if ((at = hg__end_of(at, end, depth + 1)) == NULL) {
            return NULL;
        }
        at = hg__blank(at, end);
        if (at >= end) {
            return NULL;
        }
        if (*at == close) {
            return at + 1;
        }
        if (*at != ',') {
            return NULL;
        }
        at = hg__blank(at + 1, end);
    }
}

static const hg_json hg_nothing = {NULL, NULL};

/* The value that `text` is, or a missing one where it is no JSON or deeper than 64. */
static hg_json hg_parse(hg_text text) {
    const char *end = text.at + text.len;
    const char *at = hg__blank(text.at, end);
    const char *over = hg__end_of(at, end, 1);
    return over == NULL || hg__blank(over, end) != end ? hg_nothing : (hg_json){at, over};
}

static hg_kind_t hg_kind(hg_json value) {
    if (value.at == NULL) {
        return HG_MISSING;
    }
    switch (*value.at) {
    case '{': return HG_OBJECT;
    case '[': return HG_ARRAY;
    case '"': return HG_STRING;
    case 't': case 'f': return HG_BOOL;
    case 'n': return HG_NULL;
    default: return HG_NUMBER;
    }
}

/* The text of a string, its escapes read; of anything else the empty text. */
static hg_text hg_string(hg_json value) {
    if (hg_kind(value) != HG_STRING) {
        return (hg_text){"", 0};
    }
    const char *end = value.end - 1;
    char *text = hg_alloc((size_t)(end - value.at));
    size_t len = 0;
    for (const char *at = value.at + 1; at < end; at++) {
        if (*at != '\\') {
            text[len++] = *at;
            continue;
        }
        switch (*++at) {
        case 'b': text[len++] = '\b'; continue;
        case 'f': text[len++] = '\f'; continue;
        case 'n': text[len++] = '\n'; continue;
        case 'r': text[len++] = '\r'; continue;
        case 't': text[len++] = '\t'; continue;
        case 'u': break;
        default: text[len++] = *at; continue;
        }
        uint32_t code = (uint32_t)hg__hex(at + 1, end);
        at += 4;
        if (code >= 0xd800 && code < 0xdc00 && end - at > 6 && at[1] == '\\' && at[2] == 'u') {
            uint32_t low = (uint32_t)hg__hex(at + 3, end);
            if (low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                at += 6;
            }
        }
        if (code >= 0xd800 && code < 0xe000) {
            code = 0xfffd; /* half of a pair: it stands for nothing */
        }
        if (code < 0x80) {
            text[len++] = (char)code;
        } else if (code < 0x800) {
            text[len++] = (char)(0xc0 | code >> 6);
            text[len++] = (char)(0x80 | (code & 0x3f));
        } else if (code < 0x10000) {
            text[len++] = (char)(0xe0 | code >> 12);
            text[len++] = (char)(0x80 | (code >> 6 & 0x3f));
            text[len++] = (char)(0x80 | (code & 0x3f));
        } else {
            text[len++] = (char)(0xf0 | code >> 18);
            text[len++] = (char)(0x80 | (code >> 12 & 0x3f));
            text[len++] = (char)(0x80 | (code >> 6 & 0x3f));
            text[len++] = (char)(0x80 | (code & 0x3f));
        }
    }
    return (hg_text){text, len};
}

/* A value as it was written: a number with all its digits, an object with its braces. */
static hg_text hg_written(hg_json value) {
    return value.at == NULL ? (hg_text){"null", 4}
                            : (hg_text){value.at, (size_t)(value.end - value.at)};
}

/* A whole number, or `otherwise`: where it is none, or needs more than 64 bits. */
static int64_t hg_int(hg_json value, int64_t otherwise) {
    if (hg_kind(value) != HG_NUMBER) {
        return otherwise;
    }
    const char *at = value.at;
    bool negative = *at == '-';
    uint64_t limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
    uint64_t sum = 0;
    for (at += negative ? 1 : 0; at < value.end; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (digit > 9 || sum > (limit - digit) / 10) {
            return otherwise;
        }
        sum = sum * 10 + digit;
    }
    return (int64_t)(negative ? 0 - sum : sum);
}

static bool hg_bool(hg_json value, bool otherwise) {
    return hg_kind(value) == HG_BOOL ? *value.at == 't' : otherwise;
}

/* The entries of an array or an object:
 *
 *     hg_json key, value;
 *     for (hg_entries it = hg_begin(list); hg_next(&it, &key, &value);) { ... }
 */
typedef struct {
    const char *at;
    const char *end;
    bool object;
} hg_entries;

static hg_entries hg_begin(hg_json value) {
    hg_kind_t kind = hg_kind(value);
    if (kind != HG_ARRAY && kind != HG_OBJECT) {
        return (hg_entries){NULL, NULL, false};
    }
    return (hg_entries){value.at + 1, value.end - 1, kind == HG_OBJECT};
}

static bool hg_next(hg_entries *it, hg_json *key, hg_json *value) {
    const char *at = it->at == NULL ? NULL : hg__blank(it->at, it->end);
    if (at == it->end) {
        return false;
    }
    at = *at == ',' ? hg__blank(at + 1, it->end) : at;
    *key = hg_nothing;
    if (it->object) {
        const char *over = hg__end_of_string(at, it->end);
        *key = (hg_json){at, over};
        at = hg__blank(hg__blank(over, it->end) + 1, it->end);
    }
    it->at = hg__end_of(at, it->end, 1);
    *value = (hg_json){at, it->at};
    return true;
}

static bool hg__names(hg_json key, hg_text name) {
    hg_text raw = {key.at + 1, (size_t)(key.end - key.at) - 2};
    for (size_t i = 0; i < raw.len; i++) {
        if (raw.at[i] == '\\') {
            return hg_same(hg_string(key), name);
        }
    }
    return hg_same(raw, name);
}

/* The value of `name` in an object; of several the last, as most readers take it. */
static hg_json hg_get(hg_json object, const char *name) {
    hg_json key, value, found = hg_nothing;
    if (hg_kind(object) != HG_OBJECT) {
        return found;
    }
    for (hg_entries it = hg_begin(object); hg_next(&it, &key, &value);) {
        if (hg__names(key, hg_of(name))) {
            found = value;
        }
    }
    return found;
}

/* -- answering --------------------------------------------------------------------------- */

static int64_t hg_answer(const hg_out *out) {
    return (int64_t)((uint64_t)(uintptr_t)out->at << 32 | (uint64_t)out->len);
}

static int64_t hg_tool_answer(hg_text content, bool is_error) {
    hg_out out = {0};
    hg_put_raw(&out, "{\"content\":");
    hg_put_string(&out, content);
    hg_put_raw(&out, is_error ? ",\"is_error\":true}" : "}");
    return hg_answer(&out);
}

/* The answer of handle_tool_call: text, or an error that the model reads. */
static int64_t hg_tool_text(hg_text content) {
    return hg_tool_answer(content, false);
}

static int64_t hg_tool_error(const char *message) {
    return hg_tool_answer(hg_of(message), true);
}

/* One of describe, handle_tool_call, parse_incoming, format_outgoing, poll: its body reads
 * `request` and returns hg_answer(&out). */
#define HG_EXPORT(name)                                                        \
    static int64_t hg_do_##name(hg_json request);                              \
    __attribute__((export_name(#name)))                                        \
    int64_t hg_export_##name(const char *at, uint32_t len) {                   \
        return hg_do_##name(hg_parse((hg_text){at, len}));                     \
    }                                                                          \
    static int64_t hg_do_##name(hg_json request)

/* -- the host ---------------------------------------------------------------------------- */

/* Each of these needs a grant in hookgate-plugin.toml, as soon as the guest uses it:
 *
 *     hg_out ask = {0};
 *     hg_put_raw(&ask, "{\"op\":\"get\",\"key\":\"last\"}");
 *     hg_json last = hg_get(hg_host_store(&ask), "ok");
 *
 * The answer is {"ok": ...}, or {"error": {"code", "message"}}. */
#define HG__HOST(name)                                                         \
    __attribute__((import_module("hookgate"), import_name(#name)))             \
    int64_t hg_import_##name(const char *at, uint32_t len);                    \
    static inline hg_json hg_host_##name(const hg_out *ask) {                  \
        uint64_t packed = (uint64_t)hg_import_##name(ask->at, (uint32_t)ask->len); \
        const char *at = (const char *)(uintptr_t)(packed >> 32);              \
        return hg_parse((hg_text){at, (size_t)(packed & 0xffffffff)});         \
    }

HG__HOST(log)
HG__HOST(clock)
HG__HOST(random)
HG__HOST(store)
HG__HOST(http)
HG__HOST(env)

#endif
