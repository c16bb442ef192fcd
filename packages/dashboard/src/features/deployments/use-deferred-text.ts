import { useEffect, useRef, useState } from "react";

const PAUSE_MS = 250;

/** The state of a text field, debounced: calls `onTell` when typing pauses. Follows external changes of `told`. */
export function useDeferredText(told: string, onTell: (text: string) => void): [string, (text: string) => void] {
  const [text, setText] = useState(told);
  const tell = useRef(onTell);
  tell.current = onTell;
  useEffect(() => setText(told), [told]);
  useEffect(() => {
    if (text === told) return undefined;
    const timer = setTimeout(() => tell.current(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, told]);
  return [text, setText];
}
