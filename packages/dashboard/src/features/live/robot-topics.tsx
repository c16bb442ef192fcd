import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import { query } from "../../api/queries.ts";
import { useMay } from "../../api/session.ts";
import { Badge, cx, EmptyState, QueryState, SearchInput, Skeleton, Text } from "../../ui/index.ts";
import { LiveNotice, NothingLive } from "./live-notice.tsx";
import { type Following, followStream, type LiveState } from "./live-socket.ts";
import { OperatorsOnly } from "./operators-only.tsx";
import { TopicEcho } from "./topic-echo.tsx";
import type { TopicSearch } from "./topic-search.ts";

interface Topic {
  name: string;
  type: string;
  /** Older agents do not send it. */
  adapter?: string;
  /** Topics with the same name but other types. */
  others?: { type: string; adapter: string }[];
}

interface Topics {
  topics: Topic[];
  adapter: string | null;
  distro: string | null;
  /** Older agents do not send it. */
  adapters?: { name: string; state: string; distro?: string | null; reason?: string }[];
}
/** Maximum rows; a search finds the others. */
const TOPICS_SHOWN = 500;

/** The ROS topics tab of a robot. */
export function RobotTopics() {
  const { id } = useParams({ from: "/app/robots/$id/topics" });
  const robot = useQuery(query("getRobot", { params: { id } }));
  if (!useMay("operator")) return <OperatorsOnly what="view a robot's topics" />;
  return <QueryState query={robot}>{({ data }) => <TopicsOf id={id} is_online={data.status === "online"} />}</QueryState>;
}

function TopicsOf({ id, is_online }: { id: string; is_online: boolean }) {
  const search = useSearch({ from: "/app/robots/$id/topics" });
  const navigate = useNavigate({ from: "/robots/$id/topics" });
  const { told, live, again } = useTopics(id, is_online);
  const change = (part: Partial<Record<keyof TopicSearch, unknown>>): void =>
    void navigate({ search: (old) => JSON.parse(JSON.stringify({ ...old, ...part })) as TopicSearch, replace: true });
  if (told === undefined && live !== undefined && "why" in live)
    return <NothingLive why={live.why} command={`rf robots topics ${id} list`} onAgain={again} />;
  return (
    <>
      <LiveNotice live={live} onAgain={again} />
      <div className="grid gap-4 lg:grid-cols-[minmax(16rem,22rem)_minmax(0,1fr)]">
        <TopicList told={told} search={search} onSearch={change} id={id} />
        {search.topic === undefined ? (
          <div className={cx("max-lg:hidden", (told?.topics.length ?? 0) === 0 && "hidden")}>
            <EmptyState title="Select a topic" command={`rf robots topics ${id} list`}>
              Its latest message and message rate appear here. Numbers in messages can be plotted over time.
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
  told: Topics | undefined;
  search: TopicSearch;
  onSearch: (part: Partial<Record<keyof TopicSearch, unknown>>) => void;
}

function TopicList({ id, told, search, onSearch }: TopicListProps) {
  if (told === undefined) return <Skeleton rows={8} />;
  const wanted = (search.q ?? "").toLowerCase();
  const all = told.topics.flatMap(rowsOf);
  const has_several = new Set(all.map(({ adapter }) => adapter)).size > 1;
  const found = all.filter(({ name, type, adapter }) => `${name} ${type} ${adapter ?? ""}`.toLowerCase().includes(wanted));
  return (
    <section aria-label="Topics" className="min-w-0">
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <SearchInput
          label="Search topics"
          defaultValue={search.q ?? ""}
          onChange={({ target }) => onSearch({ q: target.value === "" ? undefined : target.value })}
        />
        <Adapters told={told} />
      </div>
      {told.topics.length === 0 && (
        <EmptyState title="No topics" command={`rf robots inspect ${id}`}>
          {told.adapter === null ? "The agent has not found ROS on this robot and keeps checking." : "No node publishes a topic."}
        </EmptyState>
      )}
      <ul
        className={cx("max-h-[60dvh] overflow-y-auto rounded-lg border border-line max-lg:max-h-64", told.topics.length === 0 && "hidden")}
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
              <Text line className="font-mono text-xs">
                {name}
              </Text>
              <Text line className="text-xs text-muted">
                {has_several && adapter !== undefined ? `${type} · ${adapter}` : type}
              </Text>
            </Link>
          </li>
        ))}
        {found.length === 0 && told.topics.length > 0 && <li className="p-3 text-center text-muted">No matching topics</li>}
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

/** Returns a topic and the topics with the same name but other types. */
const rowsOf = ({ others = [], ...topic }: Topic): Row[] => [
  { ...topic, is_other: false },
  ...others.map((other) => ({ name: topic.name, ...other, is_other: true })),
];

const isShown = (search: TopicSearch, name: string, type: string, is_other: boolean): boolean =>
  search.topic === name && (search.type === undefined ? !is_other : search.type === type);

/** The connected adapters, and failed or lost ones with the reason. */
function Adapters({ told: { topics, adapter, distro, adapters } }: { told: Topics }) {
  const connected = adapters?.filter(({ state }) => state === "connected") ?? (adapter === null ? [] : [{ name: adapter, distro }]);
  const broken = adapters?.filter(({ state }) => state === "failed" || state === "lost") ?? [];
  return (
    <>
      <span className="text-xs text-muted">
        {topics.length} topics, found by {connected.length === 0 && <Badge>no adapter</Badge>}
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
          {`${name} ${state}: ${reason ?? "unknown reason"}`}
        </Text>
      ))}
    </>
  );
}

/** The topics of a robot, updated live. */
function useTopics(robot_id: string, is_online: boolean) {
  const [told, setTold] = useState<Topics>();
  const [live, setLive] = useState<LiveState>();
  const following = useRef<Following>(undefined);
  useEffect(() => {
    const stream = followStream({
      name: "ros_echo",
      id: robot_id,
      what: "this robot's topics",
      query: () => ({}),
      onState: setLive,
      onFrame: (data) => {
        if (typeof data === "string") setTold(JSON.parse(data) as Topics);
      },
    });
    following.current = stream;
    return () => stream.close();
  }, [robot_id]);
  useEffect(() => {
    if (is_online && live?.is === "offline") following.current?.again();
  }, [is_online, live]);
  return { told, live, again: () => following.current?.again() };
}

/** Removes the plotted fields, which another topic does not have. */
const withoutPlot = ({ plot: _, type: __, ...rest }: TopicSearch): TopicSearch => rest;
