/* A tool that says what it was told: the smallest guest, in C. */
#include "hookgate.h"

HG_EXPORT(describe) {
    (void)request;
    hg_out out = {0};
    hg_put_raw(&out, "{\"name\":\"echo-c\",\"version\":\"1.0.0\",\"tools\":[{\"name\":\"echo\"}]}");
    return hg_answer(&out);
}

HG_EXPORT(handle_tool_call) {
    if (!hg_same(hg_string(hg_get(request, "name")), hg_of("echo"))) {
        return hg_tool_error("This guest has one tool, echo.");
    }
    hg_json text = hg_get(hg_get(request, "input"), "text");
    if (hg_kind(text) != HG_STRING) {
        return hg_tool_error("echo needs a text: {\"text\": \"...\"}");
    }
    return hg_tool_text(hg_string(text));
}
