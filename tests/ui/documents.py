"""Markdown documents, as models write them."""

from __future__ import annotations

from hypothesis import strategies as st

DOCUMENT = """# Heading one

A paragraph with **bold**, *italic*, `code`, a [link](https://example.com/path) and
<https://auto.link>. Generic `List<T>` and raw Map<String> tags.
日本語のテキストも正しく折り返されるべきです。そうでしょう？ An emoji 🎉 too.

## Steps

1. First do this:
   ```bash
   pip install something --with-a-long-option --that-exceeds --the-width --of-the --window yes
   ```
2. Then that
   - nested one
   - nested two
3. Done

```python
def hello(name: str) -> str:
    \"\"\"A docstring

    with a blank line.
    \"\"\"
\t# tab
    return f"hello {name}"
```

| name | value |
|------|------:|
| a    |     1 |
| 日本 |    22 |

> a quote
> going on

---

Last words.
"""

_BLOCKS = [
    "text\nand more",
    "# heading",
    "title\n=====",
    "- one\n- two\n  - three",
    "- loose\n\n  second paragraph",
    "1. a\n2. b\n10. c",
    "```\ncode\n\nmore\n```",
    "~~~js\nlet x = `a`\n~~~",
    "- item\n  ```sh\n  ls\n  ```\n- next",
    "> quote\nlazy",
    "> - deep\n>   > deeper",
    "| a | b |\n|---|:-:|\n| 1 | **2** |",
    "---",
    "* * *",
    "    indented code",
    "<div>\nhtml\n</div>",
    "![alt](http://x/y.png) and [![img](a)](b)",
    "text with\n```\nfence at once",
    "&#27;[2J &lt;b&gt; &amp;",
    "**open *and `unclosed",
    "\\* escaped\\\nhard break",
    "日本語、中国語。한국어",
    "[ref]: http://example.com",
    "- [ ] task\n- [x] done",
    "",
]

documents = st.lists(
    st.one_of(st.sampled_from(_BLOCKS), st.text(" -*#>`~|1.)\n\tab_[]()!<&;", max_size=30)),
    max_size=8,
).flatmap(
    lambda blocks: st.sampled_from(["\n", "\n\n", "\n\n\n"]).map(lambda gap: gap.join(blocks))
)
