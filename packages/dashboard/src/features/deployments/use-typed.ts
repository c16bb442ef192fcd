import { useEffect, useState } from "react";

/** Text of a finder. `onTyping` reports whether there is any: what was chosen before is then no longer meant. */
export function useTyped(onTyping: (is_typing: boolean) => void): [string, (text: string) => void] {
  const [text, setText] = useState("");
  // A field that goes away takes its text along.
  useEffect(() => () => onTyping(false), [onTyping]);
  const type = (next: string): void => {
    setText(next);
    onTyping(next.trim() !== "");
  };
  return [text, type];
}
