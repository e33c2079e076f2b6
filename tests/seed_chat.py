"""A long conversation, written straight into an instance's database.

`python -m tests.seed_chat USERNAME COUNT [TITLE]` with the instance's variables prints its id.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import django

TEXT = """Answer {number}: a paragraph with *emphasis*, `code` and a [link](https://example.org).

- one
- two

```python
def double(number: int) -> int:
    return 2 * number
```
"""


def main(username: str, count: int, title: str) -> str:
    """Make it; `count` messages, one after the other. Returns the conversation's id."""
    from django.contrib.auth import get_user_model
    from django.db import transaction
    from django.utils import timezone

    from conversations.models import Conversation, Message

    now = timezone.now()
    with transaction.atomic():
        conversation = Conversation.objects.create(
            owner=get_user_model().objects.get(username=username),
            title=title,
            title_is_custom=True,
            created_at=now,
            updated_at=now,
            last_number=count,
            revision=count + 1,
        )
        messages: list[Message] = []
        for number in range(1, count + 1):
            is_user = number % 2 == 1
            text = f"Question {number}?" if is_user else TEXT.format(number=number)
            messages.append(
                Message(
                    conversation=conversation,
                    parent=messages[-1] if messages else None,
                    number=number,
                    role="user" if is_user else "assistant",
                    parts=[{"type": "text", "text": text}],
                    revision=number + 1,
                    model_name="" if is_user else "mock",
                    created_at=now + timedelta(milliseconds=number),
                )
            )
        Message.objects.bulk_create(messages, batch_size=200)
        conversation.current_leaf = messages[-1]
        conversation.save(update_fields=["current_leaf"])
    return conversation.id


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "llamaweb.settings")
    django.setup()
    print(main(sys.argv[1], int(sys.argv[2]), " ".join(sys.argv[3:]) or "A long chat"))
