import { type Ref, Suspense, useId } from "react";
import { Button } from "./button.tsx";
import { jsonText, readJson } from "./format.ts";
import { lazyPart } from "./lazy-part.ts";
import { cx } from "./text.tsx";

/** Shows a JSON value as read-only, indented text. */
export function Json({ value }: { value: unknown }) {
  return (
    <pre
      className="max-h-96 overflow-auto rounded-md border border-line bg-sunken p-2.5 font-mono text-xs [overflow-wrap:anywhere] whitespace-pre-wrap"
      tabIndex={0}
    >
      {JSON.stringify(value, null, 2) ?? "—"}
    </pre>
  );
}

interface JsonInputProps {
  label: string;
  value: string;
  onChange: (text: string) => void;
  hint?: string | undefined;
  /** An error that was not found by the syntax check, such as one of the server's validation. */
  error?: string | undefined;
  rows?: number;
  /** Whether an empty input is valid. */
  optional?: boolean;
  /** Whether to offer a button that converts input that is not JSON to a JSON string. */
  offer_text?: boolean;
  input?: Ref<HTMLTextAreaElement>;
}

/** A JSON editor. Checks the syntax while typing; the server validates the content. */
export function JsonInput({ label, value, onChange, hint, error, rows = 8, optional = false, offer_text = false, input }: JsonInputProps) {
  const id = useId();
  const read = optional && value.trim() === "" ? undefined : readJson(value);
  const problem = read !== undefined && "problem" in read && value.trim() !== "" ? read.problem : undefined;
  const said = problem ?? error;
  const is_plain = read !== undefined && "value" in read && jsonText(read.value) !== value.trim();
  return (
    <div className="mb-3">
      <div className="mb-1 flex min-h-6 items-end justify-between gap-2">
        <label htmlFor={id} className="font-medium">
          {label}
        </label>
        {is_plain && (
          <Button look="quiet" className="!h-6 !px-1.5 text-xs" onClick={() => onChange(jsonText(read.value))}>
            Format
          </Button>
        )}
        {problem !== undefined && offer_text && (
          <Button look="quiet" className="!h-6 !px-1.5 text-xs" onClick={() => onChange(JSON.stringify(value))}>
            Use as string
          </Button>
        )}
      </div>
      <textarea
        id={id}
        ref={input}
        rows={rows}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        value={value}
        onChange={(event) => onChange(event.target.value)}
        aria-invalid={said !== undefined}
        aria-describedby={`${id}-note`}
        className={cx(
          "w-full rounded-md border border-line-strong bg-surface px-2.5 py-1.5 font-mono text-xs text-ink aria-invalid:border-bad",
        )}
      />
      <p
        id={`${id}-note`}
        role={error !== undefined && problem === undefined ? "alert" : undefined}
        className={cx("mt-1 min-h-4 text-xs [overflow-wrap:anywhere]", said === undefined ? "text-muted" : "text-bad")}
      >
        {said ?? hint ?? ""}
      </p>
    </div>
  );
}

const Lines = lazyPart(async () => (await import("./diff-lines.tsx")).DiffLines);

/** Shows the differences between two texts, line by line. The diff library is loaded on first use. */
export function Diff({ before, after, label }: { before: string; after: string; label: string }) {
  return (
    <Suspense fallback={<div className="h-16 rounded-md border border-line bg-sunken" />}>
      <Lines before={before} after={after} label={label} />
    </Suspense>
  );
}
