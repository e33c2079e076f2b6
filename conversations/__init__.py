"""Chats: messages, turns and what people see of them. The browser chat stands here."""
