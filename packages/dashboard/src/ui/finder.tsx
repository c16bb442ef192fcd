import { type KeyboardEvent, type ReactNode, useEffect, useId, useState } from "react";
import { FieldNote } from "./field.tsx";
import { cx, TextLine } from "./text.tsx";

interface Found {
  value: string;
  label: string;
  hint?: string | undefined;
  /** Shown beside the name. */
  mark?: ReactNode;
}

export interface FinderProps {
  label: string;
  /** The name of the selected item; undefined if none is selected. */
  chosen: string | undefined;
  text: string;
  onText: (text: string) => void;
  found: readonly Found[];
  onChoose: (value: string) => void;
  is_looking: boolean;
  note?: ReactNode;
  error?: string | undefined;
  /** For filter bars: only screen readers get the label, and leaving the field discards the typed text. */
  compact?: boolean;
  /** Whether the user can select the typed text even if it is not in the list. */
  free?: boolean;
  placeholder?: string;
  /** Shown in place of the suggestions if they could not be loaded. */
  failure?: string | undefined;
  /** The width of the field. */
  className?: string;
}

/**
 * A combobox that searches while the user types. Escape discards the text. Enter selects the entry highlighted with the arrow keys, or else
 * the entry with exactly the typed name, or else with `free` the typed text, or else the first suggestion. Leaving the field selects only
 * an exact match or, with `free`, the typed text.
 */
export function Finder(props: FinderProps) {
  const { label, chosen, text, found, is_looking, note, compact = false } = props;
  const id = useId();
  const { is_open, is_left, at, setAt, setOpen, choose, type, press, leave } = useFinder(props);
  const error = is_left && !is_looking ? `No ${label.toLowerCase()} named ${text.trim()}. Choose one from the list.` : props.error;
  const has_note = error !== undefined || note !== undefined;
  return (
    <div
      className={cx("relative", !compact && "mb-3", props.className ?? (compact ? "w-48" : "w-full"))}
      onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && leave()}
    >
      <label htmlFor={id} className={compact ? "sr-only" : "mb-1 block font-medium"}>
        {label}
      </label>
      <input
        id={id}
        role="combobox"
        autoComplete="off"
        aria-expanded={is_open}
        aria-controls={`${id}-list`}
        aria-invalid={error !== undefined}
        aria-describedby={has_note ? `${id}-note` : undefined}
        aria-activedescendant={is_open && found[at] !== undefined ? `${id}-${at}` : undefined}
        placeholder={chosen ?? props.placeholder ?? (compact ? label : "Type to search")}
        value={is_open || is_left ? text : (chosen ?? "")}
        onFocus={() => setOpen(true)}
        onClick={() => setOpen(true)}
        onChange={({ target }) => type(target.value)}
        onKeyDown={press}
        className="h-8 w-full rounded-md border border-line-strong bg-surface px-2.5 placeholder:text-muted aria-invalid:border-bad"
      />
      {is_open && (
        <FoundList
          id={id}
          label={label}
          found={found}
          none={props.failure ?? (is_looking ? "Searching…" : text.trim() === "" ? "None yet" : "No matches")}
          at={at}
          onChoose={choose}
          onAt={setAt}
        />
      )}
      {has_note && <FieldNote id={id} error={error} hint={note} />}
    </div>
  );
}

/** The state and key handling of the list. */
function useFinder({ found, text, compact = false, free = false, onText, onChoose }: FinderProps) {
  const [is_open, setOpen] = useState(false);
  const [is_left, setLeft] = useState(false);
  const first = free ? -1 : 0;
  const [at, setAt] = useState(first);
  /** Whether the entry was highlighted by arrow keys, not by the pointer. */
  const [is_moved, setMoved] = useState(false);
  const typed = text.trim();
  const exact = typed === "" ? undefined : found.find(({ label, value }) => label === typed || value === typed);
  const reset = (): void => {
    setOpen(false);
    setLeft(false);
    setMoved(false);
    setAt(first);
    onText("");
  };
  const choose = (value: string): void => {
    onChoose(value);
    reset();
  };
  const type = (next: string): void => {
    setOpen(true);
    setLeft(false);
    setMoved(false);
    setAt(first);
    onText(next);
  };
  const leave = (): void => {
    if (typed === "" || compact) return reset();
    const own = exact?.value ?? (free ? typed : undefined);
    if (own !== undefined) return choose(own);
    setOpen(false);
    setLeft(true);
  };
  // If the user left the field before the list was loaded, select the exact match now.
  useEffect(() => {
    if (is_left && exact !== undefined) choose(exact.value);
  });
  const enter = (): string | undefined => {
    const marked = found[at]?.value;
    if (is_moved) return marked;
    return exact?.value ?? (free && typed !== "" ? typed : marked);
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      setOpen(true);
      setMoved(true);
      setAt((now) => (Math.max(now, step > 0 ? -1 : 0) + step + found.length) % found.length);
    } else if (event.key === "Enter" && is_open) {
      event.preventDefault();
      const value = enter();
      if (value !== undefined) choose(value);
    } else if (event.key === "Escape") reset();
  };
  return { is_open, is_left, at, setAt, setOpen, choose, type, press, leave };
}

function FoundList({
  id,
  label,
  found,
  none,
  at,
  onChoose,
  onAt,
}: {
  id: string;
  label: string;
  found: readonly Found[];
  /** Shown if nothing was found. */
  none: string;
  at: number;
  onChoose: (value: string) => void;
  onAt: (at: number) => void;
}) {
  return (
    <ul
      id={`${id}-list`}
      role="listbox"
      aria-label={label}
      className="absolute z-30 mt-1 max-h-72 w-full min-w-64 overflow-y-auto rounded-md border border-line bg-raised p-1 shadow-raised"
    >
      {found.map(({ value, label: name, hint, mark }, index) => (
        <li
          key={value}
          id={`${id}-${index}`}
          role="option"
          aria-selected={index === at}
          // Keep the focus in the field: the list closes on blur, before the click arrives.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(value)}
          onMouseMove={() => onAt(index)}
          className={cx("flex min-h-8 cursor-pointer items-center gap-2 rounded px-2", index === at && "bg-active")}
        >
          <TextLine className="flex-1">{name}</TextLine>
          {mark}
          {hint !== undefined && <span className="max-w-[45%] shrink-0 truncate text-xs text-muted">{hint}</span>}
        </li>
      ))}
      {found.length === 0 && (
        <li role="option" aria-selected={false} aria-disabled className="px-2 py-3 text-center text-muted">
          {none}
        </li>
      )}
    </ul>
  );
}
