import { Suspense, lazy, useEffect, useRef, useState } from "react";
import { Badge, Command, Skeleton, Switch, Text, shellWord } from "../../ui/index.ts";
import { LiveBadge, LiveNotice } from "./live-notice.tsx";
import { type Following, followStream, type LiveState } from "./live-socket.ts";
import { MessageTree } from "./message-tree.tsx";
import { createSeries } from "./series.ts";
import { createRateMeter, type TopicRate } from "./topic-rate.ts";
import { DEFAULT_RATE, plottedOf, togglePlot, type TopicSearch } from "./topic-search.ts";
import { useIsVisible } from "./use-is-visible.ts";

/** Loaded on first use, because it contains uPlot. */
const FieldPlot = lazy(async () => ({ default: (await import("./field-plot.tsx")).FieldPlot }));

/** Minimum interval between renderings, independent of the message rate. */
const SHOW_MS = 200;
const RATES = [1, 2, DEFAULT_RATE, 10, 30, 100];

interface Echo {
  skipped?: number;
  type: string;
  at: string;
  message: unknown;
  note?: string;
}

export interface TopicEchoProps {
  robot_id: string;
  topic: string;
  is_online: boolean;
  search: TopicSearch;
  onSearch: (part: Partial<Record<keyof TopicSearch, unknown>>) => void;
}

/** The latest message of a topic, the message rate, and a plot of selected numbers. */
export function TopicEcho({ robot_id, topic, is_online, search, onSearch }: TopicEchoProps) {
  const { live, newest, rate, series, again } = useEcho(robot_id, topic, search, is_online);
  const plotted = plottedOf(search);
  const toggle = (field: string): void => onSearch({ plot: togglePlot(search, field) });
  return (
    <section aria-label={`Messages of ${topic}`} className="min-w-0 space-y-3">
      <header className="flex flex-wrap items-center gap-2">
        <h2 className="min-w-0 font-mono font-semibold">
          <Text>{topic}</Text>
        </h2>
        {newest !== undefined && (
          <Badge>
            <Text>{newest.type}</Text>
          </Badge>
        )}
        <LiveBadge live={live} />
        <Rate rate={rate} />
      </header>
      <div className="flex flex-wrap items-center gap-3">
        <RateSelect value={search.rate ?? DEFAULT_RATE} onValue={(rate) => onSearch({ rate: rate === DEFAULT_RATE ? undefined : rate })} />
        <div className="-mb-3">
          <Switch
            label="Full messages"
            hint="Shows long lists and strings completely, up to 512 KiB per message"
            checked={search.full === true}
            onChange={(on) => onSearch({ full: on ? true : undefined })}
          />
        </div>
      </div>
      <LiveNotice live={live} onAgain={again} />
      {newest?.note !== undefined && <p className="rounded-md bg-warn-soft px-3 py-2 text-warn [overflow-wrap:anywhere]">{newest.note}</p>}
      {plotted.length > 0 && (
        <Suspense fallback={<Skeleton rows={4} />}>
          <FieldPlot fields={plotted} series={series} newest={newest?.message} onRemove={toggle} />
        </Suspense>
      )}
      {newest === undefined ? (
        <p className="appear-late text-muted">
          {live?.is === "open" ? "No messages yet. Messages appear here when a node publishes them." : ""}
        </p>
      ) : (
        <MessageTree value={newest.message} plotted={plotted} onPlot={toggle} />
      )}
      {newest !== undefined && plotted.length === 0 && <p className="text-xs text-muted">Select a number above to plot it over time.</p>}
      <Command>{echoCommand(robot_id, topic, search)}</Command>
    </section>
  );
}

function echoCommand(robot_id: string, topic: string, { type, rate = DEFAULT_RATE, full }: TopicSearch): string {
  const of_type = type === undefined ? "" : ` --type ${shellWord(type)}`;
  return `rf robots topics ${robot_id} echo ${shellWord(topic)}${of_type} --rate ${rate}${full === true ? " --full" : ""}`;
}

function RateSelect({ value, onValue }: { value: number; onValue: (value: number) => void }) {
  return (
    <select
      aria-label="Rate"
      value={value}
      onChange={({ target }) => onValue(Number(target.value))}
      className="h-8 rounded-md border border-line-strong bg-surface px-2.5"
    >
      {[...new Set([...RATES, value])]
        .toSorted((a, b) => a - b)
        .map((rate) => (
          <option key={rate} value={rate}>
            up to {rate}/s
          </option>
        ))}
    </select>
  );
}

function Rate({ rate: { hz, skipped, messages } }: { rate: TopicRate }) {
  if (messages < 2) return null;
  return (
    <span className="text-xs text-muted tabular-nums" data-topic-rate>
      {hz >= 10 ? hz.toFixed(1) : hz.toFixed(2)} Hz · {messages.toLocaleString("en")} shown · {skipped.toLocaleString("en")} skipped
    </span>
  );
}

function useEcho(robot_id: string, topic: string, { type, rate: most, full }: TopicSearch, is_online: boolean) {
  const [live, setLive] = useState<LiveState>();
  const [shown, setShown] = useState<{ newest: Echo | undefined; rate: TopicRate }>({
    newest: undefined,
    rate: { hz: 0, skipped: 0, messages: 0 },
  });
  const [series] = useState(createSeries);
  const following = useRef<Following>(undefined);
  const is_visible = useIsVisible();
  useEffect(() => {
    if (!is_visible) return undefined;
    const meter = createRateMeter();
    let newest: Echo | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    series.clear();
    setShown({ newest: undefined, rate: meter.read() });
    const stream = followStream({
      name: "ros_echo",
      id: robot_id,
      what: "this robot's topics",
      query: () => ({
        topic,
        rate: most ?? DEFAULT_RATE,
        ...(type === undefined ? {} : { type }),
        ...(full === true ? { full: "true" } : {}),
      }),
      onState: setLive,
      onFrame: (data) => {
        if (typeof data !== "string") return;
        newest = JSON.parse(data) as Echo;
        meter.add(newest.at, newest.skipped ?? 0);
        series.add(newest.at, newest.message);
        timer ??= setTimeout(() => {
          timer = undefined;
          setShown({ newest, rate: meter.read() });
        }, SHOW_MS);
      },
    });
    following.current = stream;
    return () => {
      clearTimeout(timer);
      stream.close();
    };
  }, [robot_id, topic, type, most, full, is_visible, series]);
  useEffect(() => {
    if (is_online && live?.is === "offline") following.current?.again();
  }, [is_online, live]);
  return { live, ...shown, series, again: () => following.current?.again() };
}
