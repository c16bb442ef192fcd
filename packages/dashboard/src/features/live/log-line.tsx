import type { LogRecord } from "@roamfleet/protocol/routes";
import { ChevronDown, ChevronRight, TriangleAlert } from "lucide-react";
import { memo } from "react";
import { Bytes, cx, Json, KeyValue, Text, Time } from "../../ui/index.ts";
import type { Level } from "./log-search.ts";
import { beginningOf, piecesOf } from "./log-text.ts";
import { robotColour } from "./robot-colour.ts";

const LEVEL_LOOKS: Record<Level, string> = {
  trace: "text-muted",
  debug: "text-muted",
  info: "text-info",
  warn: "text-warn bg-warn-soft",
  error: "text-bad bg-bad-soft",
  fatal: "text-bad bg-bad-soft font-bold underline",
};
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const DAY = new Intl.DateTimeFormat("en-CA", { month: "2-digit", day: "2-digit" });

/** Returns the local time to the second and its fraction; with the date if it is not today. */
function clockParts(at: string): [string, string] {
  const date = new Date(at);
  const [seconds = "", milliseconds = ""] = CLOCK.format(date).split(".");
  return [date.toDateString() === new Date().toDateString() ? seconds : `${DAY.format(date)} ${seconds}`, `.${milliseconds}`];
}

export interface LogLineProps {
  record: LogRecord;
  /** In a fleet's log: the name of the robot. */
  robot_name?: string | undefined;
  wanted: string;
  wrap: boolean;
  is_open: boolean;
  onToggle: () => void;
}

/** A log record: one line, or all fields when opened. */
export const LogLine = memo(function LogLine({ record, robot_name, wanted, wrap, is_open, onToggle }: LogLineProps) {
  const { at, level, source, message } = record;
  const { text, left_out } = beginningOf(message);
  const [clock, milliseconds] = clockParts(at);
  const is_gap = source === "roamfleet" && record.fields["gap"] !== undefined;
  const Chevron = is_open ? ChevronDown : ChevronRight;
  return (
    <div className={cx("border-b border-line/60 hover:bg-hover", is_gap && "bg-warn-soft", is_open && "bg-active")} data-log-line>
      <div className={cx("flex min-h-[24px] gap-2 px-1 font-mono text-xs leading-[24px]", !wrap && "overflow-hidden")}>
        <button
          type="button"
          aria-expanded={is_open}
          aria-label={`${is_open ? "Close" : "Open"} record of ${clock}`}
          onClick={onToggle}
          className="flex size-[24px] shrink-0 items-center justify-center rounded text-muted hover:text-ink"
        >
          <Chevron size={14} aria-hidden />
        </button>
        <time dateTime={at} title={at} className="shrink-0 text-muted tabular-nums">
          {clock}
          <span className="max-sm:hidden">{milliseconds}</span>
        </time>
        <span className="w-12 shrink-0">
          <span className={cx("rounded px-1 uppercase", LEVEL_LOOKS[level])}>{level}</span>
        </span>
        {robot_name !== undefined && (
          <span className="w-20 shrink-0 truncate font-medium sm:w-32" style={{ color: robotColour(record.robot_id) }} title={robot_name}>
            <bdi>{robot_name}</bdi>
          </span>
        )}
        <span className="w-28 shrink-0 truncate text-muted max-md:hidden" title={source}>
          <bdi>{source}</bdi>
        </span>
        <span
          dir="auto"
          className={cx("min-w-0 flex-1 text-left", wrap ? "[overflow-wrap:anywhere] whitespace-pre-wrap" : "truncate whitespace-pre")}
        >
          {is_gap && <TriangleAlert size={12} aria-hidden className="mr-1 inline text-warn" />}
          <Message text={text} wanted={wanted} lines={wrap} />
          {left_out > 0 && <span className="text-muted"> … {left_out.toLocaleString("en")} more characters</span>}
        </span>
      </div>
      {is_open && <Details record={record} robot_name={robot_name} wanted={wanted} />}
    </div>
  );
});

function Message({ text, wanted, lines }: { text: string; wanted: string; lines: boolean }) {
  return piecesOf(text, { wanted, lines }).map(({ text: part, kind }, index) =>
    kind === "plain" ? (
      part
    ) : kind === "hit" ? (
      <mark key={index} className="rounded-sm bg-accent px-0.5 text-accent-ink">
        {part}
      </mark>
    ) : (
      <span key={index} className="text-muted">
        {part}
      </span>
    ),
  );
}

function Details({ record, robot_name, wanted }: Pick<LogLineProps, "record" | "robot_name" | "wanted">) {
  const { at, received_at, level, source, message, fields, seq } = record;
  return (
    <div className="space-y-2 border-t border-line px-8 py-2 max-sm:px-3">
      <KeyValue
        items={[
          ["Time", <Time key="at" at={at} exact />],
          ["Received", <Time key="received" at={received_at} exact />],
          ["Level", level],
          ["Source", <Text key="source">{source}</Text>],
          robot_name !== undefined && ["Robot", <Text key="robot">{robot_name}</Text>],
          ["Sequence number", seq],
          message.length > 1_000 && ["Length", <Bytes key="length" count={message.length} />],
        ]}
      />
      <pre
        dir="auto"
        tabIndex={0}
        aria-label="Message"
        className="max-h-80 overflow-auto rounded-md border border-line bg-sunken p-2 font-mono text-xs [overflow-wrap:anywhere] whitespace-pre-wrap"
      >
        <Message text={message} wanted={wanted} lines />
      </pre>
      {Object.keys(fields).length > 0 && <Json value={fields} />}
    </div>
  );
}
