import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Bot, Boxes, Package, Plus, Rocket } from "lucide-react";
import { type KeyboardEvent, useDeferredValue, useState } from "react";
import { query } from "../api/queries.ts";
import { useMay } from "../api/session.ts";
import { cx, Text } from "../ui/index.ts";
import { type Entry, useEntryOf } from "./palette-ids.tsx";
import { ADMIN_PLACE, PLACES } from "./places.ts";

const FOUND_MAX = 6;
const ICON = { size: 16, "aria-hidden": true } as const;

/** The command palette (Ctrl-K): pages, actions, and robots, fleets and releases by name. */
export function Palette({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-overlay" />
        <Dialog.Popup className="fixed top-[12dvh] left-1/2 z-40 flex max-h-[70dvh] w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 flex-col overflow-hidden rounded-lg border border-line bg-raised shadow-raised">
          <Dialog.Title className="sr-only">Search or run a command</Dialog.Title>
          <Finder onClose={onClose} />
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Finder({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const entries = useEntries(useDeferredValue(text.trim()));
  const chosen = Math.min(at, entries.length - 1);
  const open = (entry: Entry | undefined): void => {
    if (entry === undefined) return;
    onClose();
    void navigate({ to: entry.to });
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      setAt((chosen + step + entries.length) % Math.max(1, entries.length));
    } else if (event.key === "Enter") open(entries[chosen]);
  };
  return (
    <>
      <input
        role="combobox"
        aria-label="Search robots, fleets, releases and pages"
        aria-expanded
        aria-controls="palette-list"
        aria-activedescendant={chosen >= 0 ? `palette-${chosen}` : undefined}
        placeholder="Search robots, fleets, releases and pages…"
        className="h-12 w-full border-b border-line bg-transparent px-4 outline-none placeholder:text-muted"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <ul id="palette-list" role="listbox" aria-label="Results" className="min-h-0 flex-1 overflow-y-auto p-1">
        {entries.map((entry, index) => (
          <li
            key={entry.key}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === chosen}
            ref={(element) => {
              if (index === chosen) element?.scrollIntoView({ block: "nearest" });
            }}
            onClick={() => open(entry)}
            onMouseMove={() => setAt(index)}
            className={cx("flex h-9 cursor-pointer items-center gap-3 rounded px-3", index === chosen && "bg-active")}
          >
            <span className="text-muted">{entry.icon}</span>
            <Text line className="flex-1">
              {entry.label}
            </Text>
            <span className="shrink-0 text-xs text-muted">{entry.hint}</span>
          </li>
        ))}
        {entries.length === 0 && <li className="p-4 text-center text-muted">No matches</li>}
      </ul>
    </>
  );
}

function useEntries(text: string): Entry[] {
  const is_operator = useMay("operator");
  const is_admin = useMay("admin");
  const asked = { enabled: text !== "" };
  const robots = useQuery({ ...query("listRobots", { query: { q: text, limit: FOUND_MAX } }), ...asked });
  const fleets = useQuery({ ...query("listFleets", { query: { q: text, limit: FOUND_MAX } }), ...asked });
  const releases = useQuery({ ...query("listReleases", { query: { q: text, limit: FOUND_MAX } }), ...asked });
  const by_id = useEntryOf(text);
  const places = [...PLACES.flatMap((group) => group.places), ADMIN_PLACE]
    .filter(({ role }) => role === undefined || is_admin)
    .map(({ label, to, icon: Icon }) => ({ key: to, label, hint: "page", icon: <Icon {...ICON} />, to }));
  const actions: Entry[] = is_operator
    ? [
        { key: "deploy", label: "Deploy a release", hint: "action", icon: <Rocket {...ICON} />, to: "/deployments/new" },
        { key: "enroll", label: "Enroll robots", hint: "action", icon: <Plus {...ICON} />, to: "/enrollment" },
        { key: "push", label: "Push a release", hint: "action", icon: <Plus {...ICON} />, to: "/releases" },
      ]
    : [];
  const lower = text.toLowerCase();
  return [
    ...(by_id === undefined ? [] : [by_id]),
    ...(text === "" ? [] : (robots.data?.items ?? [])).map(({ id, name }) => ({
      key: id,
      label: name,
      hint: "robot",
      icon: <Bot {...ICON} />,
      to: `/robots/${id}`,
    })),
    ...(text === "" ? [] : (fleets.data?.items ?? [])).map(({ id, name }) => ({
      key: id,
      label: name,
      hint: "fleet",
      icon: <Boxes {...ICON} />,
      to: `/fleets/${id}`,
    })),
    ...(text === "" ? [] : (releases.data?.items ?? [])).map(({ id, tag }) => ({
      key: id,
      label: tag,
      hint: "release",
      icon: <Package {...ICON} />,
      to: `/releases/${id}`,
    })),
    ...[...places, ...actions].filter(({ label }) => label.toLowerCase().includes(lower)),
  ];
}
