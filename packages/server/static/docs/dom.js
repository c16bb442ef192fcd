/**
 * Makes an element. Children are elements or text, never HTML: what the document or a server says is shown, not run.
 * @param {string} name
 * @param {Record<string, any>} [attributes] `onclick` and the like are listeners; null and false leave an attribute out
 * @param {...any} children
 */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Replaces what an element contains. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

/** Prose of the document: paragraphs, and `code` within them. */
export function prose(text) {
  return text
    .trim()
    .split(/\n\s*\n/)
    .map((paragraph) => h("p", {}, inline(paragraph)));
}

export const inline = (text) => text.split(/`([^`]+)`/).map((part, i) => (i % 2 === 1 ? h("code", {}, part) : part));

/** A button that puts what `read` answers on the clipboard, and says so. */
export function copyButton(label, read) {
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(read());
          button.textContent = "Copied";
        } catch {
          button.textContent = "The browser blocked copying";
        }
        setTimeout(() => (button.textContent = label), 1_500);
      },
    },
    label,
  );
  return button;
}

export const methodBadge = (method) => h("span", { class: `method ${method}` }, method.toUpperCase());
