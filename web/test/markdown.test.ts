// @vitest-environment jsdom
import { expect, test } from "vitest";
import { renderMarkdown } from "../src/markdown";

const hostile = [
  "<script>window.hit = 1</script>",
  '<img src=x onerror="window.hit = 1">',
  "[x](javascript:window.hit=1)",
  "[x](JaVaScRiPt&colon;window.hit=1)",
  "[x](data:text/html,<script>window.hit=1</script>)",
  "![x](javascript:window.hit=1)",
  '<a href="javascript:window.hit=1">x</a>',
  '<svg onload="window.hit=1"></svg>',
  "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
  '<form action="http://example.org"><input name="q"></form>',
  "`</code><script>window.hit=1</script>`",
  "```\n</code></pre><script>window.hit=1</script>\n```",
  '<div style="position:fixed;inset:0">cover</div>',
];

test.each(hostile)("nothing active comes out of %s", (text) => {
  for (let cut = 0; cut <= text.length; cut++) {
    const box = document.createElement("div");
    box.innerHTML = renderMarkdown(text.slice(0, cut));
    expect(box.querySelector("script,img,svg,iframe,form,input,style")).toBeNull();
    for (const element of box.querySelectorAll("*")) {
      for (const attribute of element.attributes) {
        expect(attribute.name.startsWith("on")).toBe(false);
        expect(attribute.value).not.toMatch(/^\s*(javascript|data|vbscript):/i);
      }
    }
  }
  expect((window as any).hit).toBeUndefined();
});

test("ordinary markdown survives", () => {
  const html = renderMarkdown("# Title\n\n- *a*\n- `b`\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n<b>raw</b>");
  expect(html).toContain("<h1>Title</h1>");
  expect(html).toContain("<code>b</code>");
  expect(html).toContain("<td>1</td>");
  expect(html).toContain("&lt;b&gt;raw");
});
