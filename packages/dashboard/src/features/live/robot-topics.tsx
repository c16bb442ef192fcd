import { TopicRateMeter } from "@roamfleet/protocol/topic-rate";
import { Link, useSearch } from "@tanstack/react-router";
import { Suspense, useState } from "react";
import { useMay } from "../../api/session.ts";
import type { TopicSearch } from "../../search.ts";
import {
  Badge,
  BarSelect,
  Command,
  counted,
  cx,
  EmptyState,
  lazyPart,
  SearchInput,
  shellLine,
  Skeleton,
  Switch,
  Text,
  TextLine,
  useFilters,
} from "../../ui/index.ts";
import { useRobot } from "../robots/use-robot.ts";
import { LiveBadge, LiveNotice, NothingLive, OperatorsOnly, useIsVisible, useStream } from "./live-stream.tsx";
import { MessageTree } from "./message-tree.tsx";
import { createSeries } from "./topic-series.ts";

/** Messages per second: enough for reading, and few enough for slow connections. */
const DEFAULT_RATE = 5;
/** Maximum plotted fields: the number of colors. */
const PLOTTED_MAX = 6;

const plottedOf = ({ plot }: TopicSearch): string[] => (plot === undefined ? [] : plot.split(",").filter(Boolean).slice(0, PLOTTED_MAX));

/** Returns the `plot` parameter with a field added or removed. */
function togglePlot(search: TopicSearch, field: string): string | undefined {
  const plotted = plottedOf(search);
  const next = plotted.includes(field) ? plotted.filter((one) => one !== field) : [...plotted, field].slice(-PLOTTED_MAX);
  return next.length === 0 ? undefined : next.join(",");
}

interface Topic {
  name: string;
  type: string;
  /** Name of the adapter that found the topic. Older agents do not send it. */
  adapter?: string;
  /** Topics with the same name but other types. */
  others?: { type: string; adapter: string }[];
}

interface Topics {
  topics: Topic[];
  adapter: string | null;
  distro: string | null;
  /** The ROS adapters of the robot. Older agents do not send them. */
  adapters?: { name: string; state: string; distro?: string | null; reason?: string }[];
}
/** Maximum topics listed. A search finds the other topics. */
const TOPICS_SHOWN = 500;

/** The ROS topics tab of a robot. */
export function RobotTopics() {
  const robot = useRobot();
  if (!useMay("operator")) return <OperatorsOnly what="view a robot's topics" />;
  return robot && <TopicsOf id={robot.id} is_online={robot.status === "online"} />;
}

function TopicsOf({ id, is_online }: { id: string; is_online: boolean }) {
  const { search, change } = useFilters(useSearch({ from: "/app/robots/$id/topics" }));
  const [listed, setListed] = useState<Topics>();
  const { live, again } = useStream({
    name: "ros_echo",
    id,
    what: "this robot's topics",
    is_online,
    start: () => ({
      onFrame: (data) => {
        if (typeof data === "string") setListed(JSON.parse(data) as Topics);
      },
    }),
  });
  if (listed === undefined && live !== undefined && "why" in live) return <NothingLive why={live.why} onAgain={again} />;
  return (
    <>
      <LiveNotice live={live} onAgain={again} />
      <div className="grid gap-4 lg:grid-cols-[minmax(16rem,22rem)_minmax(0,1fr)]">
        <TopicList listed={listed} search={search} onSearch={change} id={id} />
        {search.topic === undefined ? (
          <div className={cx("max-lg:hidden", (listed?.topics.length ?? 0) === 0 && "hidden")}>
            <EmptyState title="Select a topic" command={`rf robots topics ${id} list`}>
              The latest message and the message rate of the topic appear here. Numbers in messages can be plotted over time.
            </EmptyState>
          </div>
        ) : (
          <TopicEcho
            key={`${search.topic} ${search.type ?? ""}`}
            robot_id={id}
            topic={search.topic}
            is_online={is_online}
            search={search}
            onSearch={change}
          />
        )}
      </div>
    </>
  );
}

interface TopicListProps {
  id: string;
  listed: Topics | undefined;
  search: TopicSearch;
  onSearch: (part: TopicSearch) => void;
}

function TopicList({ id, listed, search, onSearch }: TopicListProps) {
  if (listed === undefined) return <Skeleton rows={8} />;
  const wanted = (search.q ?? "").toLowerCase();
  const all = listed.topics.flatMap(rowsOf);
  const has_several = new Set(all.map(({ adapter }) => adapter)).size > 1;
  const found = all.filter(({ name, type, adapter }) => `${name} ${type} ${adapter ?? ""}`.toLowerCase().includes(wanted));
  return (
    <section aria-label="Topics" className="min-w-0">
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <SearchInput label="Search topics" defaultValue={search.q ?? ""} onValue={(q) => onSearch({ q: q || undefined })} />
        <Adapters listed={listed} />
      </div>
      {listed.topics.length === 0 && (
        <EmptyState title="No topics" command={`rf robots inspect ${id}`}>
          {listed.adapter === null ? "The agent has not found ROS on this robot and keeps checking." : "No node publishes a topic."}
        </EmptyState>
      )}
      <ul
        className={cx(
          "max-h-[60dvh] overflow-y-auto rounded-lg border border-line max-lg:max-h-64",
          listed.topics.length === 0 && "hidden",
        )}
      >
        {found.slice(0, TOPICS_SHOWN).map(({ name, type, adapter, is_other }) => (
          <li key={`${name} ${type}`} className="border-b border-line last:border-0">
            <Link
              to="/robots/$id/topics"
              params={{ id }}
              search={{ ...withoutPlot(search), topic: name, ...(is_other ? { type } : {}) }}
              aria-current={isShown(search, name, type, is_other) ? "true" : undefined}
              className={cx(
                "block px-3 py-1.5 -outline-offset-2 hover:bg-hover",
                isShown(search, name, type, is_other) && "bg-accent-soft",
              )}
            >
              <TextLine className="font-mono text-xs">{name}</TextLine>
              <TextLine className="text-xs text-muted">{has_several && adapter !== undefined ? `${type} · ${adapter}` : type}</TextLine>
            </Link>
          </li>
        ))}
        {found.length === 0 && listed.topics.length > 0 && <li className="p-3 text-center text-muted">No matching topics</li>}
        {found.length > TOPICS_SHOWN && (
          <li className="p-2 text-center text-xs text-muted">and {found.length - TOPICS_SHOWN} more: refine the search</li>
        )}
      </ul>
    </section>
  );
}

interface Row extends Topic {
  /** Whether the URL must contain the type, because another topic has the same name. */
  is_other: boolean;
}

/** Returns the rows of a topic: the topic itself, and the topics with the same name but other types. */
const rowsOf = ({ others = [], ...topic }: Topic): Row[] => [
  { ...topic, is_other: false },
  ...others.map((other) => ({ name: topic.name, ...other, is_other: true })),
];

const isShown = (search: TopicSearch, name: string, type: string, is_other: boolean): boolean =>
  search.topic === name && (search.type === undefined ? !is_other : search.type === type);

/** Lists the connected ROS adapters, and those that failed or were lost with the reason. */
function Adapters({ listed: { topics, adapter, distro, adapters } }: { listed: Topics }) {
  const connected = adapters?.filter(({ state }) => state === "connected") ?? (adapter === null ? [] : [{ name: adapter, distro }]);
  const broken = adapters?.filter(({ state }) => state === "failed" || state === "lost") ?? [];
  return (
    <>
      <span className="text-xs text-muted">
        {counted(topics.length, "topic")}, {connected.length === 0 ? <Badge>no adapter connected</Badge> : "found by "}
        {connected.map((one) => (
          <span key={one.name} className="mr-1 inline-block">
            <Badge>
              <Text>{one.name}</Text>
            </Badge>{" "}
            {one.distro != null && <Text>{`(${one.distro})`}</Text>}
          </span>
        ))}
      </span>
      {broken.map(({ name, state, reason }) => (
        <Text key={name} className="text-xs text-warn [overflow-wrap:anywhere]">
          {`${name} ${state === "lost" ? "connection lost" : state}: ${reason ?? "unknown reason"}`}
        </Text>
      ))}
    </>
  );
}

/** Removes the topic's type and the plotted fields from the URL parameters, because they belong to the previous topic. */
const withoutPlot = ({ plot: _, type: __, ...rest }: TopicSearch): TopicSearch => rest;

/** Loaded on first use, because it contains uPlot. */
const FieldPlot = lazyPart(async () => (await import("./field-plot.tsx")).FieldPlot);

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

interface TopicEchoProps {
  robot_id: string;
  topic: string;
  is_online: boolean;
  search: TopicSearch;
  onSearch: (part: TopicSearch) => void;
}

/** The latest message of a topic, the message rate, and a plot of selected numbers. */
function TopicEcho({ robot_id, topic, is_online, search, onSearch }: TopicEchoProps) {
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
        {live?.is === "open" && <Rate rate={rate} />}
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

const echoCommand = (robot_id: string, topic: string, { type, rate = DEFAULT_RATE, full }: TopicSearch): string =>
  shellLine("rf", "robots", "topics", robot_id, "echo", topic, { type, rate, full });

function RateSelect({ value, onValue }: { value: number; onValue: (value: number) => void }) {
  const rates = [...new Set([...RATES, value])].toSorted((a, b) => a - b);
  return (
    <BarSelect
      label="Rate"
      value={value}
      options={rates.map((rate) => ({ value: String(rate), label: `up to ${rate}/s` }))}
      onValue={(rate) => onValue(Number(rate))}
    />
  );
}

/** Maximum number of intervals from which the message rate is computed. */
const INTERVALS_MAX = 500;

interface EchoRate {
  /** Messages per second, including skipped ones. */
  hz: number;
  /** Messages skipped since the stream opened. */
  skipped: number;
  messages: number;
}

const NO_RATE: EchoRate = { hz: 0, skipped: 0, messages: 0 };

function Rate({ rate: { hz, skipped, messages } }: { rate: EchoRate }) {
  if (messages < 2) return null;
  return (
    <span className="text-xs text-muted tabular-nums" data-topic-rate>
      {hz >= 10 ? hz.toFixed(1) : hz.toFixed(2)} Hz · {counted(messages, "message")} shown · {skipped.toLocaleString("en")} skipped
    </span>
  );
}

function useEcho(robot_id: string, topic: string, { type, rate: most, full }: TopicSearch, is_online: boolean) {
  const [shown, setShown] = useState<{ newest: Echo | undefined; rate: EchoRate }>({ newest: undefined, rate: NO_RATE });
  const [series] = useState(createSeries);
  const { live, again } = useStream({
    name: "ros_echo",
    id: robot_id,
    what: "this robot's topics",
    query: { topic, rate: most ?? DEFAULT_RATE, type, full: full === true ? "true" : undefined },
    is_online,
    is_wanted: useIsVisible(),
    start: () => {
      const meter = new TopicRateMeter(INTERVALS_MAX);
      let newest: Echo | undefined;
      let rate = NO_RATE;
      let timer: ReturnType<typeof setTimeout> | undefined;
      series.clear();
      setShown({ newest: undefined, rate });
      return {
        onFrame: (data) => {
          if (typeof data !== "string") return;
          newest = JSON.parse(data) as Echo;
          const { skipped = 0 } = newest;
          meter.add(Date.parse(newest.at), skipped);
          rate = { ...rate, skipped: rate.skipped + skipped, messages: rate.messages + 1 };
          series.add(newest.at, newest.message);
          timer ??= setTimeout(() => {
            timer = undefined;
            setShown({ newest, rate: { ...rate, hz: meter.read()?.rate ?? 0 } });
          }, SHOW_MS);
        },
        stop: () => clearTimeout(timer),
      };
    },
  });
  return { live, ...shown, series, again };
}
