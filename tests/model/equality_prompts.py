"""Fifty prompts of all kinds for proofs that batching and caching change nothing that is said."""

from __future__ import annotations

RULES = (
    "You are the assistant of a small public library. Answer in complete sentences, name the shelf "
    "where a book stands, and say so when you do not know something. The library opens at nine "
    "and closes at six, on Saturdays at one. Books may be kept for four weeks, films for one. "
    "A reader may renew twice unless somebody else waits for the book. Lost books are paid for at "
    "the price of a new copy. Children under twelve need the card of a parent. The reading room "
    "on the second floor is quiet; the garden is not. Printing costs ten cents a page.\n\n"
)
STORY = (
    "The ferry left the harbour before sunrise. On deck stood a woman with a wooden box, a boy who "
    "counted gulls, and an old man who had forgotten his hat. Nobody spoke. The island lay under "
    "fog, and only its lighthouse could be seen, which turned as it had for ninety years. When the "
    "engine stopped, the boy had counted forty-one gulls and the old man had fallen asleep. "
)
LOG = "".join(
    f"2031-04-{day:02} 06:{day:02}:17 sensor {day % 5} level {40 + day * 3 % 17} cm, pump "
    f"{'on' if day % 3 else 'off'}\n"
    for day in range(1, 13)
)
CODE = '''def merge(left, right):
    """Merge two sorted lists."""
    out = []
    while left and right:
        out.append((left if left[0] <= right[0] else right).pop(0))
    return out + left + right


'''
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"

TINY = ("a", " ", "\n", "7", "The", "?")
SHORT = (
    "The capital of France is",
    "Once upon a time there was a miller who",
    "1, 2, 3, 5, 8, 13,",
    "Water boils at",
    "Dear Sir or Madam,\n\n",
    "To be, or not to be:",
    "The opposite of hot is",
    "My three favourite colours are red,",
)
UNICODE = (
    "Größenwahn und Übermut führen",
    "Le cœur de l'été était déjà",
    "Каждое утро старик выходил",
    "春眠不覚暁、",
    "한국어로 인사를",
    "مرحبا بالعالم،",
    "😺 + 🐟 = 💛, 🐶 + 🦴 =",
    "Zero\u200bwidth, e\u0301 and \u00e9, ﬁne \u2028 lines",
    "θ ≈ ∑ xᵢ² / √n, so that ∂θ/∂x",
)
SOURCE = (
    CODE + "def sort(items):\n",
    CODE + "class Stack:\n    def __init__(self):\n",
    "#include <stdio.h>\n\nint main(void) {\n    for (int i = 0;",
    "SELECT name, COUNT(*) FROM loans\nWHERE",
    '{"name": "alice", "age": 31, "tags": ["reader",',
    "<ul>\n  <li>apples</li>\n  <li>",
    "fn main() {\n\tlet mut total: u64 = 0;\n\tfor",
)
REPEATED = (
    "ha" * 60,
    "the same words again and " * 24,
    "a b c d " * 40,
    "\n".join(["yes", "no"] * 30),
    "0" * 120,
)
LONG = (
    STORY * 3 + "Then the fog lifted and",
    STORY * 4 + "The woman opened the box. In it was",
    LOG + "2031-04-13 06:13:17 sensor",
    LOG + LOG + "Summary: the pump was",
    STORY + LOG + CODE + "In short,",
)
SHARED = tuple(
    RULES + question
    for question in (
        CHAT.format("May my daughter borrow a film?"),
        CHAT.format("May my daughter borrow three films?"),
        CHAT.format("When do you open?"),
        CHAT.format("What does a lost book cost?"),
        CHAT.format("Where can I talk?"),
        "Reader: May I print a page?\nLibrarian:",
        "Reader: May I print ten pages?\nLibrarian:",
        "",
    )
)
CHATS = (
    CHAT.format("Write a haiku about rain."),
    CHAT.format("What is 12 times 12?"),
)

# The shared ones first: under load they meet while the first of them is computed.
PROMPTS: tuple[str, ...] = (
    *SHARED,
    *TINY,
    *SHORT,
    *UNICODE,
    *SOURCE,
    *REPEATED,
    *LONG,
    *CHATS,
)
# Of each kind something.
FEW: tuple[str, ...] = (
    *SHARED[:2],
    SHARED[5],
    TINY[1],
    SHORT[0],
    SHORT[4],
    UNICODE[3],
    UNICODE[6],
    *SOURCE[:2],
    REPEATED[1],
    LONG[0],
)
