/* oxlint-disable no-underscore-dangle -- these are names of xterm's own */
import type { Terminal } from "@xterm/xterm";

/**
 * Opens a terminal in an element of a page whose policy allows no styles but those with its nonce. xterm gives its style elements
 * none, and writes colours of its own into style attributes; its option documentOverride reaches neither the style of the scrollbar
 * nor what its rows are made of. So both are mended here, and tests/dashboard sees that nothing is refused.
 */
export function openUnderPolicy(terminal: Terminal, holder: HTMLElement, nonce: string | undefined): void {
  const make = document.createElement.bind(document);
  document.createElement = (...args: Parameters<typeof make>): HTMLElement => {
    const element = make(...args);
    if (element instanceof HTMLStyleElement && nonce !== undefined) element.nonce = nonce;
    return element;
  };
  try {
    terminal.open(holder);
  } finally {
    // The own property goes, and the prototype's is there again.
    Reflect.deleteProperty(document, "createElement");
  }
  const rows = (terminal as unknown as Insides)._core?._renderService?._renderer?.value?._rowFactory;
  // Properties of an element's style are not a matter of the policy; its attribute is.
  if (rows !== undefined) rows._addStyle = (element, style) => void (element.style.cssText += style);
}

/** Where xterm 6 makes the spans of its rows. */
interface Insides {
  _core?: {
    _renderService?: { _renderer?: { value?: { _rowFactory?: { _addStyle: (element: HTMLElement, style: string) => void } } } };
  };
}
