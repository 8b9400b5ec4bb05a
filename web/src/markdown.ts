// Model text -> safe HTML. Raw HTML in the text is shown as text; links can only be http(s) or
// mailto; remote pictures become links.
import DOMPurify from "dompurify";
import { Marked } from "marked";

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escapeHtml(text),
    image: ({ href, text }) =>
      `<a href="${escapeHtml(href)}" rel="noopener noreferrer">${escapeHtml(text || href)}</a>`,
  },
});

export function renderMarkdown(text: string): string {
  return DOMPurify.sanitize(marked.parse(text, { async: false }), {
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#)/i,
    FORBID_TAGS: ["style", "form", "input", "img", "svg", "math", "iframe"],
    FORBID_ATTR: ["style", "id", "name"],
  });
}
