import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useDeferredValue, useId, useState } from "react";
import { query } from "../../api/queries.ts";
import { cx, Text } from "../../ui/index.ts";

const FOUND_MAX = 12;
type Kind = "site" | "fleet" | "robot";

/** Selects a site, fleet or robot by name. Searches on the server, so that the number of objects does not matter. */
export function PlacePicker({ kind, chosen, onChoose }: { kind: Kind; chosen: string | undefined; onChoose: (id: string) => void }) {
  const id = useId();
  const [text, setText] = useState<string>();
  const [at, setAt] = useState(0);
  const is_open = text !== undefined;
  const found = useFound(kind, useDeferredValue(text ?? "").trim(), is_open);
  const marked = Math.min(at, found.length - 1);
  const choose = (one: { id: string } | undefined): void => {
    if (one === undefined) return;
    setText(undefined);
    onChoose(one.id);
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setText(text ?? "");
      setAt((marked + step + found.length) % Math.max(1, found.length));
    } else if (event.key === "Enter" && is_open) choose(found[marked]);
    else if (event.key === "Escape") setText(undefined);
  };
  return (
    <div className="relative w-full max-w-72">
      <input
        role="combobox"
        aria-label={`Select ${kind}`}
        aria-expanded={is_open}
        aria-controls={`${id}-found`}
        aria-autocomplete="list"
        aria-activedescendant={is_open && marked >= 0 ? `${id}-${marked}` : undefined}
        placeholder={`Search ${kind}s…`}
        autoComplete="off"
        className="h-8 w-full rounded-md border border-line-strong bg-surface px-2.5 placeholder:text-muted"
        value={text ?? chosen ?? ""}
        onFocus={(event) => event.target.select()}
        onClick={() => setText((before) => before ?? "")}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onBlur={() => setText(undefined)}
        onKeyDown={press}
      />
      <Found id={id} kind={kind} found={found} marked={marked} is_open={is_open} onMark={setAt} onChoose={choose} />
    </div>
  );
}

interface FoundProps {
  id: string;
  kind: Kind;
  found: readonly { id: string; name: string }[];
  marked: number;
  is_open: boolean;
  onMark: (at: number) => void;
  onChoose: (one: { id: string }) => void;
}

function Found({ id, kind, found, marked, is_open, onMark, onChoose }: FoundProps) {
  return (
    <ul
      id={`${id}-found`}
      role="listbox"
      aria-label={`Matching ${kind}s`}
      hidden={!is_open}
      className="absolute inset-x-0 top-full z-30 mt-1 max-h-80 overflow-y-auto rounded-md border border-line bg-raised p-1 shadow-raised"
    >
      {found.map(({ id: key, name }, index) => (
        <li
          key={key}
          id={`${id}-${index}`}
          role="option"
          aria-selected={index === marked}
          // On mousedown, because the list closes when the field loses the focus.
          onMouseDown={(event) => {
            event.preventDefault();
            onChoose({ id: key });
          }}
          onMouseMove={() => onMark(index)}
          className={cx("flex min-h-8 cursor-pointer items-center rounded px-2", index === marked && "bg-active")}
        >
          <Text line>{name}</Text>
        </li>
      ))}
      {found.length === 0 && (
        <li role="option" aria-selected={false} aria-disabled className="px-2 py-1.5 text-muted">
          No matching {kind}s
        </li>
      )}
    </ul>
  );
}

function useFound(kind: Kind, q: string, is_open: boolean): readonly { id: string; name: string }[] {
  const asked = { query: { limit: FOUND_MAX, ...(q === "" ? {} : { q }) } };
  const sites = useQuery({ ...query("listSites", asked), enabled: is_open && kind === "site" });
  const fleets = useQuery({ ...query("listFleets", asked), enabled: is_open && kind === "fleet" });
  const robots = useQuery({ ...query("listRobots", asked), enabled: is_open && kind === "robot" });
  return { site: sites.data?.items, fleet: fleets.data?.items, robot: robots.data?.items }[kind] ?? [];
}
