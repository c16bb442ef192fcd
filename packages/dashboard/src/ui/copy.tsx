import { Check, Copy } from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { Button, IconButton } from "./button.tsx";

const SHOWN_MS = 1_500;

/** Copies text to the clipboard. Pages served over plain HTTP from another machine have no clipboard API: uses `execCommand` there. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (!done) throw new Error("The browser does not allow this page to copy. Select the text and copy it manually.");
}

/** Returns whether the text was copied within the last `SHOWN_MS`, and a function that copies it. */
function useCopy(text: string): [boolean, () => void] {
  const [is_copied, setCopied] = useState(false);
  useEffect(() => {
    if (!is_copied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [is_copied]);
  return [
    is_copied,
    () =>
      void copy(text).then(
        () => setCopied(true),
        () => {},
      ),
  ];
}

/** An icon button that copies `text`. */
function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [is_copied, act] = useCopy(text);
  return <IconButton label={is_copied ? "Copied" : label} icon={is_copied ? Check : Copy} onClick={act} />;
}

/** A short text, such as an ID, which is copied on click. */
export function CopyText({ text, label }: { text: string; label: string }) {
  const [is_copied, act] = useCopy(text);
  return (
    <button
      type="button"
      onClick={act}
      aria-label={`Copy ${label} ${text}`}
      title={text}
      className="-mx-1 inline-flex min-h-6 max-w-full items-center gap-1 rounded px-1 font-mono text-xs text-muted hover:bg-hover hover:text-ink"
    >
      <span className="truncate">{text}</span>
      {is_copied ? <Check size={12} aria-hidden className="shrink-0" /> : <Copy size={12} aria-hidden className="shrink-0" />}
    </button>
  );
}

/** A line for the terminal, with a button that copies it. */
export function Command({ children }: { children: string }) {
  return (
    <div className="flex items-start gap-1 rounded-md border border-line bg-sunken py-0.5 pr-0.5 pl-2.5">
      <code className="min-w-0 flex-1 py-1.5 font-mono text-xs [overflow-wrap:anywhere] whitespace-pre-wrap">
        {children.split(/(\s+)/).map((part, at) =>
          /^\S/.test(part) ? (
            // Keep options on one line: browsers break a line after a hyphen, and a broken `--follow` reads like two words.
            <span key={at} className="inline-block max-w-full">
              {part}
            </span>
          ) : (
            part
          ),
        )}
      </code>
      <CopyButton text={children} label="Copy command" />
    </div>
  );
}

/** A secret that is shown only once, with a copy button. */
export function SecretOnce({ secret, children }: { secret: string; children?: ReactNode }) {
  const [is_copied, act] = useCopy(secret);
  return (
    <div className="rounded-md border border-warn bg-warn-soft p-3">
      <p className="mb-2">{children ?? "Copy the secret now. It is shown only once and not stored in readable form."}</p>
      <div className="flex flex-wrap items-center gap-2">
        <code className="min-w-0 flex-1 rounded bg-surface px-2 py-1.5 font-mono text-xs [overflow-wrap:anywhere]" data-secret>
          {secret}
        </code>
        <Button onClick={act} icon={is_copied ? Check : Copy}>
          {is_copied ? "Copied" : "Copy"}
        </Button>
      </div>
    </div>
  );
}
