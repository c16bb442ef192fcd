import type { LogRecord } from "@roamfleet/protocol/routes";
import { Link } from "@tanstack/react-router";
import { ChevronDown, ChevronRight, TriangleAlert } from "lucide-react";
import { memo } from "react";
import { Bytes, cx, Json, KeyValue, Text, Time } from "../../ui/index.ts";
import { beginningOf, type Level, piecesOf } from "./log-text.ts";

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

interface LogLineProps {
  record: LogRecord;
  /** Name of the robot; only in a fleet's log. */
  robot_name?: string | undefined;
  /** Whether the robot's name is a link to its log at the time of the record. */
  is_linked?: boolean;
  wanted: string;
  wrap: boolean;
  is_open: boolean;
  /** Passed to `onToggle`, which can then be the same function for all lines. */
  id: string;
  onToggle: (id: string) => void;
}

/** A log record: one line, or all fields when opened. */
export const LogLine = memo(function LogLine({ record, robot_name, is_linked, wanted, wrap, is_open, id, onToggle }: LogLineProps) {
  const { at, level, source, message } = record;
  const { text, left_out } = beginningOf(message);
  const [clock, milliseconds] = clockParts(at);
  const is_gap = source === "roamfleet" && record.fields["gap"] !== undefined;
  const Chevron = is_open ? ChevronDown : ChevronRight;
  return (
    <div className={cx("border-b border-line/60 hover:bg-hover", is_gap && "bg-warn-soft", is_open && "bg-active")} data-log-line>
      {/* Beside the robot's name, a message would have room for twelve characters on a narrow screen: put it on its own line. */}
      <div
        className={cx(
          "flex min-h-[24px] gap-x-2 px-1 font-mono text-xs leading-[24px]",
          !wrap && "overflow-hidden",
          robot_name !== undefined && "max-sm:flex-wrap",
        )}
      >
        <button
          type="button"
          aria-expanded={is_open}
          aria-label={`${is_open ? "Close" : "Open"} record of ${clock}`}
          onClick={() => onToggle(id)}
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
          <span
            className="w-20 shrink-0 truncate font-medium max-sm:flex-1 sm:w-32"
            style={{ color: robotColor(record.robot_id) }}
            title={robot_name}
          >
            {is_linked === true ? <RobotLogLink record={record} name={robot_name} /> : <bdi>{robot_name}</bdi>}
          </span>
        )}
        <span className="w-28 shrink-0 truncate text-muted max-md:hidden" title={source}>
          <bdi>{source}</bdi>
        </span>
        <span
          dir="auto"
          className={cx(
            "min-w-0 flex-1 text-left",
            robot_name !== undefined && "max-sm:basis-full max-sm:pl-1",
            wrap ? "[overflow-wrap:anywhere] whitespace-pre-wrap" : "truncate whitespace-pre",
          )}
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

/** The log of the robot is opened from this long before the record until as long after it. */
const AROUND_MS = 5 * 60_000;

function RobotLogLink({ record: { robot_id, at }, name }: { record: LogRecord; name: string }) {
  const timeAt = (offset_ms: number): string => new Date(Date.parse(at) + offset_ms).toISOString();
  return (
    <Link
      to="/robots/$id/logs"
      params={{ id: robot_id }}
      search={{ since: timeAt(-AROUND_MS), until: timeAt(AROUND_MS) }}
      className="underline"
      title={`Log of ${name} at this time`}
    >
      <bdi>{name}</bdi>
    </Link>
  );
}

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
        items={{
          Time: <Time at={at} exact />,
          Received: <Time at={received_at} exact />,
          Level: level,
          Source: <Text>{source}</Text>,
          Robot: robot_name !== undefined && <Text>{robot_name}</Text>,
          "Sequence number": seq,
          Length: message.length > 1_000 && <Bytes count={message.length} />,
        }}
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

const HUES = [25, 60, 110, 150, 195, 240, 285, 330] as const;

/** Returns a color for a robot's log lines, derived from its ID. All colors have the same lightness for contrast. */
function robotColor(robot_id: string): string {
  let hash = 0;
  for (const character of robot_id) hash = (Math.imul(hash, 31) + character.charCodeAt(0)) | 0;
  const hue = HUES[Math.abs(hash) % HUES.length];
  return `light-dark(oklch(0.45 0.13 ${hue}), oklch(0.82 0.11 ${hue}))`;
}
