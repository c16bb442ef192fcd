import { ChartLine, ChevronDown, ChevronRight } from "lucide-react";
import { useState } from "react";
import { cx } from "../../ui/index.ts";
import { piecesOf } from "./log-text.ts";
import { childPath } from "./topic-series.ts";

/** Maximum children shown of a list or object. */
const CHILDREN_MAX = 100;
const TEXT_CHARACTERS_MAX = 2_000;
/** Depth to which the tree is expanded initially. */
const OPEN_DEPTH = 3;

interface MessageTreeProps {
  value: unknown;
  plotted: readonly string[];
  onPlot: (field: string) => void;
}

/** A message as a tree. A click on a number plots it. */
export function MessageTree({ value, plotted, onPlot }: MessageTreeProps) {
  return (
    <div className="overflow-hidden rounded-md border border-line bg-sunken p-2 font-mono text-xs" data-message>
      <Node name={undefined} value={value} path="" depth={0} plotted={plotted} onPlot={onPlot} />
    </div>
  );
}

interface NodeProps extends MessageTreeProps {
  name: string | undefined;
  path: string;
  depth: number;
}

function Node({ name, value, path, depth, plotted, onPlot }: NodeProps) {
  const [is_open, setOpen] = useState(depth < OPEN_DEPTH);
  if (typeof value !== "object" || value === null)
    return <Leaf name={name} value={value} path={path} is_plotted={plotted.includes(path)} onPlot={onPlot} />;
  const children: (readonly [string | number, unknown])[] = Array.isArray(value)
    ? value.slice(0, CHILDREN_MAX).map((child, index) => [index, child] as const)
    : Object.entries(value).slice(0, CHILDREN_MAX);
  const count = Array.isArray(value) ? value.length : Object.keys(value).length;
  const list = children.map(([key, child]) => (
    <li key={key}>
      <Node
        name={typeof key === "number" ? `[${key}]` : key}
        value={child}
        path={pathOf(path, key, value)}
        depth={depth + 1}
        plotted={plotted}
        onPlot={onPlot}
      />
    </li>
  ));
  const rest = count > CHILDREN_MAX && <li className="px-6 text-muted">and {(count - CHILDREN_MAX).toLocaleString("en")} more</li>;
  if (name === undefined)
    return (
      <ul>
        {list}
        {rest}
      </ul>
    );
  const Chevron = is_open ? ChevronDown : ChevronRight;
  return (
    <div>
      <button
        type="button"
        aria-expanded={is_open}
        onClick={() => setOpen(!is_open)}
        className="flex min-h-[24px] max-w-full items-center gap-1 rounded pr-1 text-left hover:bg-hover"
      >
        <Chevron size={14} aria-hidden className="shrink-0 text-muted" />
        <Name>{name}</Name>
        <span className="text-muted">{summaryOf(value, count)}</span>
      </button>
      {is_open && (
        <ul className="ml-1.5 border-l border-line pl-3">
          {list}
          {rest}
        </ul>
      )}
    </div>
  );
}

/** Returns the path of a child. Elements of a summarized list have the same paths as in the full list. */
function pathOf(path: string, key: string | number, holder: object): string {
  const is_summary = !Array.isArray(holder) && "length" in holder && "first" in holder;
  return is_summary && key === "first" ? path : childPath(path, key);
}

function summaryOf(value: object, count: number): string {
  if (Array.isArray(value)) return `[${count.toLocaleString("en")}]`;
  const { length } = value as { length?: unknown };
  return "first" in value && typeof length === "number" ? `[${length.toLocaleString("en")}, summarized]` : `{${count}}`;
}

const Name = ({ children }: { children: string }) => <bdi className="min-w-0 truncate text-info">{children}</bdi>;

function Leaf({
  name,
  value,
  path,
  is_plotted,
  onPlot,
}: {
  name: string | undefined;
  value: unknown;
  path: string;
  is_plotted: boolean;
  onPlot: (field: string) => void;
}) {
  const label = name === undefined ? null : <Name>{name}</Name>;
  if (typeof value === "number" || typeof value === "boolean")
    return (
      <button
        type="button"
        aria-pressed={is_plotted}
        onClick={() => onPlot(path)}
        className={cx(
          "group flex min-h-[24px] max-w-full items-center gap-2 rounded px-1 text-left hover:bg-hover sm:ml-3.5",
          is_plotted && "bg-accent-soft",
        )}
      >
        {label}
        <span className="tabular-nums">{String(value)}</span>
        <span className="sr-only">{`plot ${path} over time`}</span>
        <ChartLine
          size={12}
          aria-hidden
          className={cx(
            "shrink-0",
            is_plotted ? "text-accent" : "text-muted opacity-0 group-hover:opacity-100 group-focus-visible:opacity-100",
          )}
        />
      </button>
    );
  return (
    <div className="flex min-h-[24px] items-start gap-2 px-1 py-0.5 sm:ml-3.5">
      {label}
      <span dir="auto" className={cx("min-w-0 [overflow-wrap:anywhere] whitespace-pre-wrap", value === null && "text-muted")}>
        {typeof value === "string" ? textOf(value) : String(value)}
      </span>
    </div>
  );
}

const textOf = (text: string): string =>
  `${piecesOf(text.slice(0, TEXT_CHARACTERS_MAX))
    .map((piece) => piece.text)
    .join("")}${text.length > TEXT_CHARACTERS_MAX ? ` … ${text.length - TEXT_CHARACTERS_MAX} more characters` : ""}`;
