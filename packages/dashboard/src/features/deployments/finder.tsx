import { type KeyboardEvent, type ReactNode, useId, useState } from "react";
import { cx, Text } from "../../ui/index.ts";

export interface Found {
  value: string;
  label: string;
  hint?: string | undefined;
  /** Beside its name. */
  mark?: ReactNode;
}

export interface FinderProps {
  label: string;
  /** Name of what is chosen; undefined: nothing is. */
  chosen: string | undefined;
  text: string;
  onText: (text: string) => void;
  found: readonly Found[];
  onChoose: (value: string) => void;
  is_looking: boolean;
  note?: ReactNode;
  error?: string | undefined;
  /** In a bar of filters: the label is read out only. */
  compact?: boolean;
}

/**
 * Text that finds one of many as it is typed. The list opens below; arrows move, Enter takes, Escape closes. What is chosen
 * stands in the field.
 */
export function Finder(props: FinderProps) {
  const { label, chosen, text, found, is_looking, note, error, compact = false } = props;
  const id = useId();
  const { is_open, at, setAt, setOpen, choose, type, press } = useFinder(props);
  const has_note = error !== undefined || note !== undefined;
  return (
    <div
      className={cx("relative", !compact && "mb-3")}
      onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && setOpen(false)}
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
        placeholder={chosen ?? (compact ? label : "Type to find")}
        value={is_open ? text : (chosen ?? "")}
        onFocus={() => setOpen(true)}
        onClick={() => setOpen(true)}
        onChange={(event) => type(event.target.value)}
        onKeyDown={press}
        className={cx(
          "h-8 rounded-md border border-line-strong bg-surface px-2.5 placeholder:text-muted aria-invalid:border-bad",
          compact ? "w-48" : "w-full",
        )}
      />
      {is_open && <FoundList id={id} label={label} found={found} at={at} is_looking={is_looking} onChoose={choose} onAt={setAt} />}
      {has_note && (
        <div
          id={`${id}-note`}
          className={cx("mt-1 text-xs", error === undefined ? "text-muted" : "text-bad")}
          role={error === undefined ? undefined : "alert"}
        >
          {error ?? note}
        </div>
      )}
    </div>
  );
}

/** Whether the list is open, which of it is marked, and what keys do with it. */
function useFinder({ found, onText, onChoose }: FinderProps) {
  const [is_open, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const choose = (value: string): void => {
    onChoose(value);
    setOpen(false);
    onText("");
  };
  const type = (text: string): void => {
    setOpen(true);
    setAt(0);
    onText(text);
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && found.length > 0) {
      event.preventDefault();
      setOpen(true);
      setAt((now) => (now + step + found.length) % found.length);
    } else if (event.key === "Enter" && is_open && found[at] !== undefined) {
      event.preventDefault();
      choose(found[at].value);
    } else if (event.key === "Escape") setOpen(false);
  };
  return { is_open, at, setAt, setOpen, choose, type, press };
}

function FoundList({
  id,
  label,
  found,
  at,
  is_looking,
  onChoose,
  onAt,
}: {
  id: string;
  label: string;
  found: readonly Found[];
  at: number;
  is_looking: boolean;
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
          // Before the field loses the focus, by which the list closes.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => onChoose(value)}
          onMouseMove={() => onAt(index)}
          className={cx("flex min-h-8 cursor-pointer items-center gap-2 rounded px-2", index === at && "bg-active")}
        >
          <Text line className="flex-1">
            {name}
          </Text>
          {mark}
          {hint !== undefined && <span className="max-w-[45%] shrink-0 truncate text-xs text-muted">{hint}</span>}
        </li>
      ))}
      {found.length === 0 && (
        <li role="option" aria-selected={false} aria-disabled className="px-2 py-3 text-center text-muted">
          {is_looking ? "Looking…" : "Nothing is called that"}
        </li>
      )}
    </ul>
  );
}
