/* oxlint-disable no-underscore-dangle -- these are names of xterm's own */
import type { Terminal } from "@xterm/xterm";

/**
 * Opens a terminal on a page whose content security policy allows only styles with its nonce. xterm creates style elements without a
 * nonce and writes colors into style attributes. Its option documentOverride covers neither the scrollbar's style nor the rows, so both
 * are patched here. tests/dashboard checks that the policy blocks nothing.
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
    // Delete the override, so that the prototype's method applies again.
    Reflect.deleteProperty(document, "createElement");
  }
  const rows = (terminal as unknown as Insides)._core?._renderService?._renderer?.value?._rowFactory;
  // The policy covers the style attribute but not the properties of `style`.
  if (rows !== undefined) rows._addStyle = (element, style) => void (element.style.cssText += style);
}

/** Internals of xterm 6 that create the spans of rows. */
interface Insides {
  _core?: {
    _renderService?: { _renderer?: { value?: { _rowFactory?: { _addStyle: (element: HTMLElement, style: string) => void } } } };
  };
}
