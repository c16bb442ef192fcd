import { Dialog } from "../ui/index.ts";
import { PLACES } from "./places.ts";

const GENERAL: readonly (readonly [string, string])[] = [
  ["Ctrl K", "Search or run a command"],
  ["/", "Search on this page"],
  ["j  k", "Next and previous row"],
  ["Enter", "Open row"],
  ["x", "Select row"],
  ["Esc", "Close dialog or menu"],
  ["?", "Show this help"],
];

export function ShortcutHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  const places = PLACES.flatMap((group) => group.places);
  return (
    <Dialog open={open} onClose={onClose} title="Keyboard shortcuts" wide>
      <div className="grid gap-6 sm:grid-cols-2">
        <Keys keys={GENERAL} />
        <Keys keys={places.map(({ key, label }) => [`g ${key}`, `Go to ${label}`] as const)} />
      </div>
      <p className="mt-4 border-t border-line pt-3 text-muted">
        Everything in the dashboard is also available in the API and in <code className="font-mono">rf</code>:{" "}
        <a href="/docs" className="text-accent underline">
          API reference
        </a>
        .
      </p>
    </Dialog>
  );
}

function Keys({ keys }: { keys: readonly (readonly [string, string])[] }) {
  return (
    <dl className="grid grid-cols-[5rem_1fr] gap-y-1.5">
      {keys.map(([key, text]) => (
        <div key={key} className="contents">
          <dt>
            <kbd className="rounded border border-line bg-sunken px-1.5 py-0.5 font-mono text-xs">{key}</kbd>
          </dt>
          <dd className="text-muted">{text}</dd>
        </div>
      ))}
    </dl>
  );
}
