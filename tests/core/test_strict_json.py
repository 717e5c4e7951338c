from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookgate.core import strict_json
from hookgate.core.strict_json import (
    MAX_DEPTH,
    MAX_INTEGER,
    StrictJSONError,
    canonical,
    dumps,
    loads,
)

# The names follow JSONTestSuite: y_ must be accepted, n_ must be refused, and i_ is left to
# the reader by RFC 8259; for those, what this reader does is stated.

ACCEPTED: dict[str, tuple[bytes, Any]] = {
    "y_array_arraysWithSpaces": (b"[[]   ]", [[]]),
    "y_array_empty": (b"[]", []),
    "y_array_empty-string": (b'[""]', [""]),
    "y_array_ending_with_newline": (b'["a"]\n', ["a"]),
    "y_array_false": (b"[false]", [False]),
    "y_array_heterogeneous": (b'[null, 1, "1", {}]', [None, 1, "1", {}]),
    "y_array_null": (b"[null]", [None]),
    "y_array_with_1_and_newline": (b"[1\n]", [1]),
    "y_array_with_leading_space": (b" [1]", [1]),
    "y_array_with_several_null": (b"[1,null,null,null,2]", [1, None, None, None, 2]),
    "y_array_with_trailing_space": (b"[2] ", [2]),
    "y_number": (b"[123e65]", [123e65]),
    "y_number_0e+1": (b"[0e+1]", [0.0]),
    "y_number_0e1": (b"[0e1]", [0.0]),
    "y_number_after_space": (b"[ 4]", [4]),
    "y_number_double_close_to_zero": (b"[-0.000000000000000000000000000001]", [-1e-30]),
    "y_number_int_with_exp": (b"[20e1]", [200.0]),
    "y_number_minus_zero": (b"[-0]", [0]),
    "y_number_minus_zero_float": (b"[-0.0]", [-0.0]),
    "y_number_negative_int": (b"[-123]", [-123]),
    "y_number_negative_one": (b"[-1]", [-1]),
    "y_number_real_capital_e": (b"[1E22]", [1e22]),
    "y_number_real_capital_e_neg_exp": (b"[1E-2]", [0.01]),
    "y_number_real_capital_e_pos_exp": (b"[1E+2]", [100.0]),
    "y_number_real_exponent": (b"[123e45]", [123e45]),
    "y_number_real_fraction_exponent": (b"[123.456e78]", [123.456e78]),
    "y_number_real_neg_exp": (b"[1e-2]", [0.01]),
    "y_number_simple_int": (b"[123]", [123]),
    "y_number_simple_real": (b"[123.456789]", [123.456789]),
    "y_number_largest_integer": (b"[9007199254740991]", [2**53 - 1]),
    "y_number_smallest_integer": (b"[-9007199254740991]", [-(2**53) + 1]),
    "y_number_many_digits_of_fraction": (b"[0.1234567890123456789012345]", [0.12345678901234568]),
    "y_object": (b'{"asd":"sdf", "dfg":"fgh"}', {"asd": "sdf", "dfg": "fgh"}),
    "y_object_basic": (b'{"asd":"sdf"}', {"asd": "sdf"}),
    "y_object_empty": (b"{}", {}),
    "y_object_empty_key": (b'{"":0}', {"": 0}),
    "y_object_escaped_null_in_key": (b'{"foo\\u0000bar": 42}', {"foo\x00bar": 42}),
    "y_object_extreme_numbers": (b'{"min": -1.0e+28, "max": 1.0e+28}', {"min": -1e28, "max": 1e28}),
    "y_object_long_strings": (b'{"x":[{"id": "' + b"x" * 40 + b'"}]}', {"x": [{"id": "x" * 40}]}),
    "y_object_simple": (b'{"a":[]}', {"a": []}),
    "y_object_string_unicode": (
        b'{"title":"\\u041f\\u043e\\u043b\\u0442\\u043e\\u0440\\u0430" }',
        {"title": "Полтора"},
    ),
    "y_object_with_newlines": (b'{\n"a": "b"\n}', {"a": "b"}),
    "y_object_same_key_in_two_objects": (b'[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}]),
    "y_object_same_key_nested": (b'{"a":{"a":{"a":1}}}', {"a": {"a": {"a": 1}}}),
    "y_object_keys_that_differ_in_case": (b'{"a":1,"A":2}', {"a": 1, "A": 2}),
    "y_object_keys_that_differ_in_form": (
        '{"\u00e9":1,"e\u0301":2}'.encode(),
        {"\u00e9": 1, "e\u0301": 2},
    ),
    "y_object_space_before_colon": (b'{"a" : 1 , "b"\t:\r\n2}', {"a": 1, "b": 2}),
    "y_object_colons_in_strings": (b'{"a:b": "c: d", "e": "::"}', {"a:b": "c: d", "e": "::"}),
    "y_object_escaped_colons": (b'{"a": "\\u003a\\u003A"}', {"a": "::"}),
    "y_string_1_2_3_bytes_UTF-8_sequences": (b'["\\u0060\\u012a\\u12AB"]', ["`\u012a\u12ab"]),
    "y_string_accepted_surrogate_pair": (b'["\\uD801\\udc37"]', ["\U00010437"]),
    "y_string_accepted_surrogate_pairs": (b'["\\ud83d\\ude39\\ud83d\\udc8d"]', ["😹💍"]),
    "y_string_allowed_escapes": (b'["\\"\\\\\\/\\b\\f\\n\\r\\t"]', ['"\\/\b\f\n\r\t']),
    "y_string_backslash_and_u_escaped_zero": (b'["\\\\u0000"]', ["\\u0000"]),
    "y_string_backslash_and_u_escaped_surrogate": (b'["\\\\ud800"]', ["\\ud800"]),
    "y_string_backslash_doublequotes": (b'["\\""]', ['"']),
    "y_string_comments": (b'["a/*b*/c/*d//e"]', ["a/*b*/c/*d//e"]),
    "y_string_double_escape_a": (b'["\\\\a"]', ["\\a"]),
    "y_string_double_escape_n": (b'["\\\\n"]', ["\\n"]),
    "y_string_escaped_control_character": (b'["\\u0012"]', ["\x12"]),
    "y_string_escaped_noncharacter": (b'["\\uFFFF"]', ["\uffff"]),
    "y_string_in_array": (b'["asd"]', ["asd"]),
    "y_string_last_surrogates_1_and_2": (b'["\\uDBFF\\uDFFF"]', ["\U0010ffff"]),
    "y_string_nbsp_uescaped": (b'["new\\u00A0line"]', ["new\xa0line"]),
    "y_string_nonCharacterInUTF-8_U+10FFFF": ('["\U0010ffff"]'.encode(), ["\U0010ffff"]),
    "y_string_nonCharacterInUTF-8_U+FFFF": ('["\uffff"]'.encode(), ["\uffff"]),
    "y_string_null_escape": (b'["\\u0000"]', ["\x00"]),
    "y_string_one-byte-utf-8": (b'["\\u002c"]', [","]),
    "y_string_pi": ('["π"]'.encode(), ["π"]),
    "y_string_simple_ascii": (b'["asd "]', ["asd "]),
    "y_string_space": (b'" "', " "),
    "y_string_u+2028_line_sep": ('["\u2028"]'.encode(), ["\u2028"]),
    "y_string_u+2029_par_sep": ('["\u2029"]'.encode(), ["\u2029"]),
    "y_string_unicode_2": ('["⍂㈴⍂"]'.encode(), ["⍂㈴⍂"]),
    "y_string_unescaped_char_delete": (b'["\x7f"]', ["\x7f"]),
    "y_string_unicode_escaped_double_quote": (b'["\\u0022"]', ['"']),
    "y_string_utf8": ('["€𝄞"]'.encode(), ["€𝄞"]),
    "y_string_brackets_do_not_nest": (b'["' + b"[{" * 200 + b'"]', ["[{" * 200]),
    "y_string_escaped_quotes_and_brackets": (b'["' + b'\\"[' * 100 + b'"]', ['"[' * 100]),
    "y_structure_lonely_false": (b"false", False),
    "y_structure_lonely_int": (b"42", 42),
    "y_structure_lonely_negative_real": (b"-0.1", -0.1),
    "y_structure_lonely_null": (b"null", None),
    "y_structure_lonely_string": (b'"asd"', "asd"),
    "y_structure_lonely_true": (b"true", True),
    "y_structure_string_empty": (b'""', ""),
    "y_structure_trailing_newline": (b'["a"]\r\n', ["a"]),
    "y_structure_whitespace_array": (b" [] ", []),
    "y_structure_deepest": (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, None),
    "y_structure_many_shallow_brackets": (b"[" + b"[]," * 500 + b"[]]", [[]] * 501),
    "i_number_double_huge_neg_exp": (b"[1e-400]", [0.0]),
    "i_number_real_underflow": (b"[123e-10000000]", [0.0]),
}

REFUSED: dict[str, bytes] = {
    "n_array_1_true_without_comma": b"[1 true]",
    "n_array_a_invalid_utf8": b"[a\xe5]",
    "n_array_colon_instead_of_comma": b'["": 1]',
    "n_array_comma_after_close": b'[""],',
    "n_array_comma_and_number": b"[,1]",
    "n_array_double_comma": b"[1,,2]",
    "n_array_double_extra_comma": b'["x",,]',
    "n_array_extra_close": b'["x"]]',
    "n_array_extra_comma": b'["",]',
    "n_array_incomplete": b'["x"',
    "n_array_incomplete_invalid_value": b"[x",
    "n_array_inner_array_no_comma": b"[3[4]]",
    "n_array_invalid_utf8": b"[\xff]",
    "n_array_items_separated_by_semicolon": b"[1:2]",
    "n_array_just_comma": b"[,]",
    "n_array_just_minus": b"[-]",
    "n_array_missing_value": b'[   , ""]',
    "n_array_newlines_unclosed": b'["a",\n4\n,1,',
    "n_array_spaces_vertical_tab_formfeed": b'["\x0ba"\\f]',
    "n_array_star_inside": b"[*]",
    "n_array_unclosed": b'[""',
    "n_array_unclosed_trailing_comma": b"[1,",
    "n_array_unclosed_with_object_inside": b"[{}",
    "n_incomplete_false": b"[fals]",
    "n_incomplete_null": b"[nul]",
    "n_incomplete_true": b"[tru]",
    "n_multidigit_number_then_00": b"123\x00",
    "n_number_++": b"[++1234]",
    "n_number_+1": b"[+1]",
    "n_number_+Inf": b"[+Inf]",
    "n_number_-01": b"[-01]",
    "n_number_-1.0.": b"[-1.0.]",
    "n_number_-2.": b"[-2.]",
    "n_number_-NaN": b"[-NaN]",
    "n_number_.-1": b"[.-1]",
    "n_number_.2e-3": b"[.2e-3]",
    "n_number_0.1.2": b"[0.1.2]",
    "n_number_0.3e+": b"[0.3e+]",
    "n_number_0.e1": b"[0.e1]",
    "n_number_0_capital_E+": b"[0E+]",
    "n_number_0e": b"[0e]",
    "n_number_1_000": b"[1 000.0]",
    "n_number_1eE2": b"[1eE2]",
    "n_number_2.e+3": b"[2.e+3]",
    "n_number_9.e+": b"[9.e+]",
    "n_number_Inf": b"[Inf]",
    "n_number_Infinity": b"[Infinity]",
    "n_number_NaN": b"[NaN]",
    "n_number_U+FF11_fullwidth_digit_one": "[１]".encode(),
    "n_number_arabic_digits": "[١٢]".encode(),
    "n_number_expression": b"[1+2]",
    "n_number_hex_1_digit": b"[0x1]",
    "n_number_infinity": b"[infinity]",
    "n_number_invalid+-": b"[0e+-1]",
    "n_number_invalid-utf-8-in-int": b"[0\xe5]",
    "n_number_minus_infinity": b"[-Infinity]",
    "n_number_minus_space_1": b"[- 1]",
    "n_number_neg_int_starting_with_zero": b"[-012]",
    "n_number_neg_real_without_int_part": b"[-.123]",
    "n_number_real_garbage_after_e": b"[1ea]",
    "n_number_real_without_fractional_part": b"[1.]",
    "n_number_starting_with_dot": b"[.123]",
    "n_number_underscore": b"[1_000]",
    "n_number_with_alpha_char": b"[1.8011670033376514H-308]",
    "n_number_with_leading_zero": b"[012]",
    "n_object_bad_value": b'["x", truth]',
    "n_object_bracket_key": b'{[: "x"}\n',
    "n_object_comma_instead_of_colon": b'{"x", null}',
    "n_object_double_colon": b'{"x"::"b"}',
    "n_object_emoji": "{🇨🇭}".encode(),
    "n_object_garbage_at_end": b'{"a":"a" 123}',
    "n_object_key_with_single_quotes": b"{key: 'value'}",
    "n_object_missing_colon": b'{"a" b}',
    "n_object_missing_key": b'{:"b"}',
    "n_object_missing_value": b'{"a":',
    "n_object_no-colon": b'{"a"',
    "n_object_non_string_key": b"{1:1}",
    "n_object_repeated_null_null": b"{null:null,null:null}",
    "n_object_several_trailing_commas": b'{"id":0,,,,,}',
    "n_object_single_quote": b"{'a':0}",
    "n_object_trailing_comma": b'{"id":0,}',
    "n_object_trailing_comment": b'{"a":"b"}/**/',
    "n_object_trailing_comment_slash_open": b'{"a":"b"}//',
    "n_object_two_commas_in_a_row": b'{"a":"b",,"c":"d"}',
    "n_object_unquoted_key": b'{a: "b"}',
    "n_object_unterminated-value": b'{"a":"a',
    "n_object_with_trailing_garbage": b'{"a": true} "x"',
    "n_object_duplicated_key": b'{"a":"b","a":"c"}',
    "n_object_duplicated_key_and_value": b'{"a":"b","a":"b"}',
    "n_object_duplicated_key_spaced": b'{"a" :1, "a":2}',
    "n_object_duplicated_key_escaped": b'{"a":1,"\\u0061":2}',
    "n_object_duplicated_key_beside_escaped_colon": b'{"a":1,"a":"\\u003a"}',
    "n_object_duplicated_key_beside_escaped_colons": b'{"a": 1, "a": 2, "b": "\\u003A"}',
    "n_object_duplicated_key_nested": b'[{"x":{"a":1,"b":2,"a":3}}]',
    "n_object_duplicated_empty_key": b'{"":1,"":2}',
    "n_object_duplicated_key_whose_value_holds_a_colon": b'{"a":"::","a":"x:"}',
    "n_single_space": b" ",
    "n_string_1_surrogate_then_escape": b'["\\uD800\\"]',
    "n_string_1_surrogate_then_escape_u": b'["\\uD800\\u"]',
    "n_string_1_surrogate_then_escape_u1x": b'["\\uD800\\u1x"]',
    "n_string_accentuated_char_no_quotes": "[é]".encode(),
    "n_string_backslash_00": b'["\\\x00"]',
    "n_string_escape_x": b'["\\x00"]',
    "n_string_escaped_backslash_bad": b'["\\\\\\"]',
    "n_string_escaped_ctrl_char_tab": b'["\\\t"]',
    "n_string_escaped_emoji": '["\\🌀"]'.encode(),
    "n_string_incomplete_escape": b'["\\"]',
    "n_string_incomplete_escaped_character": b'["\\u00A"]',
    "n_string_invalid-utf-8-in-escape": b'["\\u\xe5"]',
    "n_string_invalid_backslash_esc": b'["\\a"]',
    "n_string_invalid_unicode_escape": b'["\\uqqqq"]',
    "n_string_no_quotes_with_bad_escape": b"[\\n]",
    "n_string_signed_escape": b'["\\u+123"]',
    "n_string_single_doublequote": b'"',
    "n_string_single_quote": b"['single quote']",
    "n_string_start_escape_unclosed": b'["\\',
    "n_string_unescaped_ctrl_char": b'["a\x00a"]',
    "n_string_unescaped_newline": b'["new\nline"]',
    "n_string_unescaped_tab": b'["\t"]',
    "n_string_with_trailing_garbage": b'""x',
    "n_structure_angle_bracket_.": b"<.>",
    "n_structure_ascii-unicode-identifier": "aå".encode(),
    "n_structure_capitalized_True": b"[True]",
    "n_structure_close_unopened_array": b"1]",
    "n_structure_comma_instead_of_closing_brace": b'{"x": true,',
    "n_structure_double_array": b"[][]",
    "n_structure_end_array": b"]",
    "n_structure_incomplete_UTF8_BOM": b"\xef\xbb{}",
    "n_structure_lone-invalid-utf-8": b"\xe5",
    "n_structure_no_data": b"",
    "n_structure_null-byte-outside-string": b"[\x00]",
    "n_structure_number_with_trailing_garbage": b"2@",
    "n_structure_object_followed_by_closing_object": b"{}}",
    "n_structure_open_array_apostrophe": b"['",
    "n_structure_open_array_object": b'[{"":' * 5000,
    "n_structure_100000_opening_arrays": b"[" * 100_000,
    "n_structure_too_deep": b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1),
    "n_structure_too_deep_objects": b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1),
    "n_structure_single_eacute": b"\xe9",
    "n_structure_unicode-identifier": "å".encode(),
    "n_structure_U+2060_word_joined": "[\u2060]".encode(),
    "n_structure_whitespace_formfeed": b"[\x0c]",
    "n_structure_no_break_space": "[\xa0]".encode(),
    "i_number_double_huge_exp": b"[1e400]",
    "i_number_neg_double_huge_exp": b"[-1e400]",
    "i_number_too_big_pos_int": b"[9007199254740992]",
    "i_number_too_big_neg_int": b"[-9007199254740992]",
    "i_number_beyond_64_bits": b"[18446744073709551616]",
    "i_number_beyond_64_bits_negative": b'{"a": -9223372036854775809}',
    "i_number_very_big_int": b"[" + b"1" * 5000 + b"]",
    "i_object_key_lone_2nd_surrogate": b'{"\\uDFAA":0}',
    "i_string_1st_surrogate_but_2nd_missing": b'["\\uDADA"]',
    "i_string_1st_valid_surrogate_2nd_invalid": b'["\\uD888\\u1234"]',
    "i_string_UTF-16LE_with_BOM": '["é"]'.encode("utf-16"),
    "i_string_UTF-8_invalid_sequence": '["日ш'.encode() + b'\xfa"]',
    "i_string_UTF8_surrogate_U+D800": b'["\xed\xa0\x80"]',
    "i_string_incomplete_surrogate_and_escape_valid": b'["\\uD800\\n"]',
    "i_string_incomplete_surrogate_pair": b'["\\uDd1ea"]',
    "i_string_incomplete_surrogates_escape_valid": b'["\\uD800\\uD800\\n"]',
    "i_string_invalid_lonely_surrogate": b'["\\ud800"]',
    "i_string_inverted_surrogates_U+1D11E": b'["\\uDd1e\\uD834"]',
    "i_string_lone_second_surrogate": b'["\\uDFAA"]',
    "i_string_lone_utf8_continuation_byte": b'["\x81"]',
    "i_string_not_in_unicode_range": b'["\xf4\xbf\xbf\xbf"]',
    "i_string_overlong_sequence_2_bytes": b'["\xc0\xaf"]',
    "i_string_overlong_sequence_6_bytes_null": b'["\xfc\x80\x80\x80\x80\x80"]',
    "i_string_truncated-utf-8": b'["\xe0\xff"]',
    "i_structure_UTF-8_BOM_empty_object": b"\xef\xbb\xbf{}",
}


def same(left: Any, right: Any) -> bool:
    """Equal in value, in type, in the sign of zero and in the order of keys."""
    return repr(left) == repr(right)


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_valid_text_is_read(name: str) -> None:
    text, value = ACCEPTED[name]
    if name == "y_structure_deepest":
        assert dumps(loads(text)) == text
    else:
        assert same(loads(text), value)
        assert same(loads(text.decode()), value)


@pytest.mark.parametrize("name", REFUSED)
def test_an_invalid_or_ambiguous_text_is_refused_with_a_reason(name: str) -> None:
    with pytest.raises(StrictJSONError, match="found ") as caught:
        loads(REFUSED[name])
    assert len(str(caught.value)) < 300


def test_reasons_name_what_was_found() -> None:
    reasons = {
        b'{"key":1,"key":2}': "found the key 'key' twice in one object",
        b"[NaN]": "found the number NaN",
        b"9007199254740992": "found the integer 9007199254740992",
        b'"\\ud800"': "half of a surrogate pair",
        b'["a" 1]': "line 1, column 6",
        b"\xff": "not UTF-8 at offset 0",
        b"[" * 65: "more than 64 levels",
        b"1e999": "found the number 1e999",
    }
    for text, reason in reasons.items():
        with pytest.raises(StrictJSONError) as caught:
            loads(text)
        assert reason in str(caught.value)


def test_a_lone_surrogate_in_a_python_string_is_refused() -> None:
    with pytest.raises(StrictJSONError):
        loads('"\ud800"')


def test_many_escaped_quotes_in_a_string_without_an_end_take_linear_time() -> None:
    small, large = (b"[" * 70 + b'"' + b'\\"' * size for size in (20_000, 200_000))

    def seconds(text: bytes) -> float:
        times = []
        for _ in range(3):
            start = time.perf_counter()
            with pytest.raises(StrictJSONError):
                loads(text)
            times.append(time.perf_counter() - start)
        return min(times)

    assert seconds(large) < 50 * max(seconds(small), 1e-4)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-MAX_INTEGER, max_value=MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab:\\"é\n'), inner),
    max_leaves=25,
)


@given(values)
def test_what_is_written_is_read_back(value: Any) -> None:
    assert same(loads(dumps(value)), value)
    assert same(loads(json.dumps(value)), value)
    assert same(loads(json.dumps(value, ensure_ascii=False, indent=1)), value)


@given(values)
def test_canonical_text_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    def reversed_keys(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: reversed_keys(item[key]) for key in reversed(item)}
        return [reversed_keys(entry) for entry in item] if isinstance(item, list) else item

    assert canonical(value) == canonical(reversed_keys(value))
    assert canonical(loads(canonical(value))) == canonical(value)


# Texts that are nearly JSON: pieces in any order, with the pieces that the quick way could
# get wrong (double keys, escapes of colons, long integers) much more often than by chance.
pieces = st.sampled_from(
    [
        *'{}[],:"',
        '"a"',
        '"a":',
        '"a" :',
        '"\\u0061":',
        '":"',
        '"\\u003a"',
        '"\\u003A"',
        '"\\\\u003a"',
        "1",
        "-0",
        "0.5",
        "1e3",
        "9007199254740991",
        "9007199254740992",
        "18446744073709551616",
        "18446744073709551616.0",
        "1e400",
        "true",
        "null",
        "NaN",
        " ",
        "\n",
        '"\\ud800"',
        "é",
    ]
)


def either(read: Any, raw: bytes) -> tuple[str, str]:
    try:
        return "value", repr(read(raw))
    except StrictJSONError as error:
        return "refused", str(error)


@st.composite
def objects(draw: st.DrawFn) -> str:
    """Objects whose keys may be double, written with and without spaces and escapes."""
    members = draw(
        st.lists(
            st.tuples(
                st.sampled_from(['"a"', '"\\u0061"', '"b:"', '"b\\u003a"', '""']),
                st.sampled_from(["", " ", "\n"]),
                st.sampled_from(
                    ['"\\u003a"', '":"', '"::"', "1", "{}", '{"a":1}', "12345678901234567"]
                ),
            ),
            max_size=4,
        )
    )
    gap = draw(st.sampled_from(["", " "]))
    return "{" + ",".join(f"{key}{space}:{gap}{value}" for key, space, value in members) + "}"


@given(st.lists(pieces, max_size=14).map("".join) | objects() | st.lists(objects()).map(str))
@example('{"a":1,"a":"\\u003a"}')
@example('{"a" :1,"a":2}')
@example("[18446744073709551616, 1e3]")
@example('{"a":[' + "[]," * 70 + "[]]}")
def test_the_quick_way_never_differs_from_the_strict_one(text: str) -> None:
    raw = text.encode()
    assert either(loads, raw) == either(strict_json._strict, raw)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused_alike_by_both_ways(raw: bytes) -> None:
    assert either(loads, raw) == either(strict_json._strict, raw)


@given(st.integers())
def test_integers_are_exact_or_refused(number: int) -> None:
    text = str(number)
    if abs(number) <= MAX_INTEGER:
        assert loads(text) == number
    else:
        with pytest.raises(StrictJSONError):
            loads(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_keep_every_bit(number: float) -> None:
    read = loads(repr(number))
    assert read == number
    assert math.copysign(1, read) == math.copysign(1, number)


@given(st.integers(min_value=1, max_value=130), st.booleans())
def test_the_limit_on_depth_holds_for_arrays_and_objects(depth: int, arrays: bool) -> None:
    text = "[" * depth + "]" * depth if arrays else '{"k": ' * depth + "{}" + "}" * depth
    if depth + (not arrays) <= MAX_DEPTH:
        loads(text)
    else:
        with pytest.raises(StrictJSONError, match="levels"):
            loads(text)


def test_canonical_sorts_keys_and_leaves_out_spaces() -> None:
    assert canonical({"b": [1, 2.5], "a": {"é": None}}) == '{"a":{"é":null},"b":[1,2.5]}'.encode()
