"""Chat templates of several kinds, written for the tests."""

# Default system prompt, Hugging Face style tool calls with object arguments.
RICH = """{%- if messages[0].role != 'system' -%}
<|im_start|>system
You are a helpful assistant.<|im_end|>
{% endif -%}
{%- for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content }}
{%- for call in m.tool_calls or [] -%}
<call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson -}}
}</call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}"""

# No system role, strict turns, no tools, writes the beginning-of-text token, trims.
STRICT = """{{ bos_token }}{% for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('Conversation roles must alternate user/assistant') }}
{%- endif -%}
{%- if m.role not in ['user', 'assistant'] -%}
{{ raise_exception('Only user and assistant roles are supported') }}
{%- endif -%}
<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>
{%- endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""

# Content must be a list of parts.
TYPED = """{% for m in messages %}<{{ m.role }}>
{%- for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor -%}
</{{ m.role }}>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""

# Arguments are text; a system message elsewhere than first is left out.
TEXT_ARGUMENTS = """{% for m in messages %}
{%- if m.role != 'system' or loop.first -%}
[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}!{{ c.function.name }}
{{- '' + c.function.arguments }}{% endfor %}
{%- endif -%}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"""
