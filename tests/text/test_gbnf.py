"""Grammars are read with llama.cpp's rules, and what it can't survive is refused."""

from __future__ import annotations

import pytest

from inference.text.gbnf import MAX_ELEMENTS, MAX_GRAMMAR_CHARS, MAX_REPEATS, parse_gbnf
from inference.text.gbnf_tree import ANY_CHAR, MAX_NESTING, Chars, Group, Ref, TokenRef
from llamaweb.lib.errors import InvalidError
from tests.text.grammars import BAD, GOOD


def is_token(text: str) -> bool:
    return text == "<think>"


def char(code: str) -> Chars:
    return Chars(((ord(code), ord(code)),))


@pytest.mark.parametrize("text", GOOD)
def test_grammars_are_read(text: str) -> None:
    assert "root" in parse_gbnf(text, is_token)


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_grammar_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="the grammar") as caught:
        parse_gbnf(text, is_token)
    assert caught.value.param == "grammar"


def test_what_a_grammar_says() -> None:
    rules = parse_gbnf('root ::= "a" b{2,} | [^x-z\\n] !<[7]> . <think>\nb ::= "" "c"', is_token)
    assert rules["root"] == (
        (Group(((char("a"),),)), Group(((Ref("b"),),), 2, None)),
        (
            Chars(((ord("x"), ord("z")), (10, 10)), negated=True),
            TokenRef(7, negated=True),
            ANY_CHAR,
            TokenRef("<think>"),
        ),
    )
    assert rules["b"] == ((Group(((),)), Group(((char("c"),),))),)


def test_the_message_names_the_line_and_never_the_text() -> None:
    with pytest.raises(InvalidError, match="line 2") as caught:
        parse_gbnf('root ::= secret\nsecret ::= "hidden', is_token)
    assert "hidden" not in str(caught.value)


CHAIN = "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1}\n" for i in range(999)) + 'a999 ::= "x"'


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("root ::= " + "x" * MAX_GRAMMAR_CHARS, MAX_GRAMMAR_CHARS),
        ("root ::= " + "(" * 9999 + '"a"' + ")" * 9999, MAX_NESTING),
        ('root ::= "a"{2001}', MAX_REPEATS),
        ('root ::= (("a"){50}){50}', MAX_REPEATS),
        ('root ::= "a"{3}{999}', MAX_REPEATS),
        (f'root ::= ("{"a" * 60}"){{2000}}', MAX_ELEMENTS),
        (
            "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1}\n" for i in range(999)) + 'a999 ::= "x"',
            64,
        ),
    ],
)
def test_everything_is_bounded(text: str, limit: int) -> None:
    with pytest.raises(InvalidError, match=str(limit)):
        parse_gbnf(text, is_token)


@pytest.mark.parametrize(
    "text",
    [
        "root ::= root",
        'root ::= root "a"',
        'root ::= a\na ::= b "x"\nb ::= a "y"',
        # llama.cpp looks one rule deep for what may be nothing, and then never returns
        'root ::= a root "x"\na ::= b\nb ::= c\nc ::= ""',
        'root ::= "a"? root',
        'root ::= ("a" | "b")* root "c"',
        'root ::= ("a"?)*',
        "root ::= ((([a-z]*){0,12}){0,12}){0,12}",
        'root ::= ("a"?){2}',
        'root ::= "x" (a){1,}\na ::= "" | "b"',
    ],
)
def test_what_would_never_end_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match=r"begins with itself|may be nothing"):
        parse_gbnf(text, is_token)
