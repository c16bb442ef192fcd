import { useEffect, useState } from "react";

/** The text of a finder. `onTyping` reports whether it contains text, which replaces the previous selection. */
export function useTyped(onTyping: (is_typing: boolean) => void): [string, (text: string) => void] {
  const [text, setText] = useState("");
  // The text of an unmounted field is discarded.
  useEffect(() => () => onTyping(false), [onTyping]);
  const type = (next: string): void => {
    setText(next);
    onTyping(next.trim() !== "");
  };
  return [text, type];
}
