import {
  APPS_MAX,
  CHUNK_BYTES_MAX,
  LOG_BATCH_RECORDS_MAX,
  LOG_MESSAGE_CHARACTERS_MAX,
  SAMPLES_PER_CHUNK_MAX,
  SERIES_PER_CHUNK_MAX,
} from "@roamfleet/protocol/link";
import {
  CHANNEL_WINDOW_BYTES,
  CHANNELS_MAX,
  FRAME_PAYLOAD_BYTES_MAX,
  ITEM_OVERHEAD_BYTES,
  LINK_RECEIVE_BYTES_MAX,
  MESSAGE_BYTES_MAX,
  MESSAGE_PARTS_MAX,
  PING_PAYLOAD_BYTES_MAX,
} from "@roamfleet/protocol/link";
import { LIMIT_DEFAULTS } from "../packages/server/src/config.ts";
import { FIELDS_DEPTH_MAX } from "../packages/server/src/features/logs/codec.ts";
import { CHUNK_RATE } from "../packages/server/src/features/metrics/ingest.ts";
import { BODY_BYTES_MAX, BODY_DEPTH_MAX, BODY_FIELDS_MAX, BOUNDED_BODY_BYTES_MAX } from "../packages/server/src/kernel/body.ts";
import { LIST_ROWS_MAX, PAGE_ROWS_MAX } from "../packages/server/src/kernel/page.ts";
import {
  LINK_OPEN_COST,
  LINK_FRAMES,
  ORG_FRAMES,
  WAITING_BYTES_MAX,
  WAITING_MAX,
  WORK_BYTES_MAX,
} from "../packages/server/src/link/read-limits.ts";
import { BUCKETS_MAX } from "../packages/server/src/kernel/rate-limit.ts";
import { MESSAGE_VALUES_MAX } from "../packages/server/src/link/inbound.ts";
import { ROBOT_LOG_BYTES_MAX, ROBOT_MESSAGE_BYTES_MAX } from "../packages/server/src/link/live-session.ts";
import { RECEIVE_BYTES_MAX } from "../packages/server/src/link/receive-budget.ts";

/** One input that a client can make larger: its bound, the behavior beyond it, and the test that proves it. */
export interface Input {
  input: string;
  bound: string;
  beyond: string;
  /** Path of the test, from the root. */
  test: string;
}

const bytes = (count: number): string =>
  count >= 1024 ** 3
    ? `${count / 1024 ** 3} GiB`
    : count >= 1024 ** 2
      ? `${count / 1024 ** 2} MiB`
      : count >= 1024
        ? `${count / 1024} KiB`
        : `${count} bytes`;
const count = (value: number): string => value.toLocaleString("en-US");

const FRAMES = "tests/hostile/frames.test.ts";
const CODEC = "packages/protocol/src/link/codec.test.ts";
const limits = LIMIT_DEFAULTS;

export const ROBOT_INPUTS: readonly Input[] = [
  { input: "payload of a frame", bound: bytes(FRAME_PAYLOAD_BYTES_MAX), beyond: "the link ends with 1002", test: CODEC },
  { input: "payload of a PING", bound: bytes(PING_PAYLOAD_BYTES_MAX), beyond: "the link ends with 1002", test: CODEC },
  { input: "WebSocket fragments of one frame", bound: "16, in 4,096 pieces", beyond: "the link ends with 1008", test: FRAMES },
  {
    input: "a compressed message",
    bound: "as one message and its values, decompressed; each KiB of it counts as a unit of the frame rate",
    beyond: "decompression ends at the bound, and the link with 1002",
    test: FRAMES,
  },
  { input: "parts of one message", bound: `${count(MESSAGE_PARTS_MAX)}, none empty`, beyond: "the link ends with 1002", test: CODEC },
  {
    input: "one message",
    bound: `control ${bytes(ROBOT_MESSAGE_BYTES_MAX)}, log ${bytes(ROBOT_LOG_BYTES_MAX)}, streams ${bytes(MESSAGE_BYTES_MAX)}`,
    beyond: "the link ends with 1002",
    test: FRAMES,
  },
  {
    input: "values in one message of 64 KiB or more",
    bound: count(MESSAGE_VALUES_MAX),
    beyond: "the link ends with 1008, before the message is parsed",
    test: FRAMES,
  },
  {
    input: "incomplete and unread messages of a link",
    bound: `${bytes(LINK_RECEIVE_BYTES_MAX)}; each costs ${bytes(ITEM_OVERHEAD_BYTES)} besides its own`,
    beyond: "the stream is reset with 4429; on control and log the link ends with 1002",
    test: "packages/protocol/src/link/channel-table.test.ts",
  },
  {
    input: "incomplete and unread messages of all links of a node",
    bound: bytes(RECEIVE_BYTES_MAX),
    beyond: "the largest link of the org that takes most ends",
    test: "packages/server/src/link/receive-budget.test.ts",
  },
  {
    input: "bytes of a stream that are not read yet",
    bound: bytes(CHANNEL_WINDOW_BYTES),
    beyond: "the link ends with 1002",
    test: "packages/protocol/src/link/channel-table.test.ts",
  },
  {
    input: "streams of a link",
    bound: count(CHANNELS_MAX),
    beyond: "refused with 4429; a robot opens none",
    test: "packages/protocol/src/link/channel-table.test.ts",
  },
  {
    input: "answers that wait because the robot does not read",
    bound: `8 MiB; each costs ${bytes(ITEM_OVERHEAD_BYTES)} besides its own`,
    beyond: "the link ends",
    test: FRAMES,
  },
  {
    input: "frames and messages a second",
    bound: `${count(LINK_FRAMES.per_minute / 60)} units of a robot, ${count(ORG_FRAMES.per_minute / 60)} of an org: one for a frame, one for a KiB that is not stream data. A new link does not reset them, until ${count(BUCKETS_MAX)} other robots (twice \`robots_max\` if that is more) have opened links to the node`,
    beyond: "the link is not read until it has paid",
    test: "packages/server/src/link/read-limits.test.ts",
  },
  {
    input: "samples of metrics in one chunk",
    bound: `${count(SAMPLES_PER_CHUNK_MAX)} samples of ${count(SERIES_PER_CHUNK_MAX)} series, ${count(CHUNK_BYTES_MAX)} bytes`,
    beyond: "the chunk is counted as damaged, and not stored",
    test: "packages/server/src/features/metrics/metrics.test.ts",
  },
  {
    input: "chunks of samples of a robot",
    bound: `${count(CHUNK_RATE.per_minute)} bytes a minute after a burst of ${bytes(CHUNK_RATE.burst)}; each chunk costs 1 KiB besides its own`,
    beyond: "the link is read more slowly",
    test: "packages/server/src/features/metrics/metrics.test.ts",
  },
  {
    input: "links that a robot opens a second",
    bound: `${count(LINK_FRAMES.per_minute / 60 / LINK_OPEN_COST)}: each costs ${count(LINK_OPEN_COST)} of the robot's units`,
    beyond: "`refused` with code `busy` and the time to wait",
    test: FRAMES,
  },
  {
    input: "messages of a link that wait for the database",
    bound: `${count(WAITING_MAX)}, or ${bytes(WAITING_BYTES_MAX)}`,
    beyond: "the link is not read until a quarter is left",
    test: "packages/server/src/link/read-limits.test.ts",
  },
  {
    input: "messages of an org that wait for the database",
    bound: `what is free of ${bytes(WORK_BYTES_MAX)} of a node`,
    beyond: "links of the org are not read until half of that is free",
    test: "packages/server/src/link/read-limits.test.ts",
  },
  {
    input: "before the welcome",
    bound: "one hello of one frame, within 10 s",
    beyond: "the link ends",
    test: FRAMES,
  },
  {
    input: "links without hello",
    bound: `${count(limits.unauthenticated_links_max)} of a node; of an address or IPv6 /64 as many as are free`,
    beyond: "503 with Retry-After",
    test: "tests/hostile/guesses.test.ts",
  },
  {
    input: "wrong signatures",
    bound: `${count(limits.unknown_requests_per_minute)} a minute of an address or IPv6 /64`,
    beyond: "429; `busy` on the link",
    test: "tests/hostile/guesses.test.ts",
  },
  {
    input: "log records of a flush, and characters of one",
    bound: `${count(LOG_BATCH_RECORDS_MAX)}, ${count(LOG_MESSAGE_CHARACTERS_MAX)}`,
    beyond: "the link ends with 1008",
    test: "tests/promises/27-hostile-robot.test.ts",
  },
  {
    input: "levels of a record's fields",
    bound: count(FIELDS_DEPTH_MAX),
    beyond: "the fields are replaced and counted; the other records are kept",
    test: "tests/hostile/deep-record.test.ts",
  },
  {
    input: "log bytes a second",
    bound: `${bytes(limits.log_bytes_per_robot_per_second)}, bursts of ${bytes(limits.log_burst_bytes_per_robot)}`,
    beyond: "acknowledgments wait, and the records in the robot's spool; beyond 4 MiB unpaid the link is not read for a while",
    test: "tests/engine/log-pace.test.ts",
  },
  {
    input: "apps of a robot",
    bound: count(APPS_MAX),
    beyond: "a reported one is left out; a deployment is 409",
    test: "tests/hostile/apps.test.ts",
  },
  {
    input: "health: disks and networks, workloads and checks, nodes, topics, metrics",
    bound: "64, 256, 1,000, 5,000, 1,000; names of 255 characters",
    beyond: "the link ends with 1008",
    test: "tests/promises/27-hostile-robot.test.ts",
  },
];

export const CLIENT_INPUTS: readonly Input[] = [
  {
    input: "JSON body",
    bound: `${bytes(BOUNDED_BODY_BYTES_MAX)}, ${bytes(BODY_BYTES_MAX)} where a field takes any JSON`,
    beyond: "413",
    test: "tests/promises/9-hostile-bodies.test.ts",
  },
  {
    input: "levels and fields of a body",
    bound: `${count(BODY_DEPTH_MAX)}, ${count(BODY_FIELDS_MAX)}`,
    beyond: "400 before it is parsed",
    test: "packages/server/src/kernel/body.test.ts",
  },
  { input: "URL", bound: "8,192 characters", beyond: "414", test: "tests/spec/conventions.test.ts" },
  { input: "headers", bound: "16 KiB, one Host", beyond: "431; 400 for two Host headers", test: "tests/spec/host-header.test.ts" },
  {
    input: "requests of a token",
    bound: `${count(limits.token_requests_per_minute)} a minute, bursts of ${count(limits.token_burst)}`,
    beyond: "429",
    test: "tests/spec/conventions.test.ts",
  },
  {
    input: "unknown tokens and keys; wrong admin tokens",
    bound: `${count(limits.unknown_requests_per_minute)} a minute of an address or IPv6 /64, each`,
    beyond: "429",
    test: "tests/spec/conventions-admin.test.ts",
  },
  {
    input: "rows of a page",
    bound: `${count(PAGE_ROWS_MAX)}; ${count(LIST_ROWS_MAX)} of lists without pages`,
    beyond: "400",
    test: "tests/spec/conventions.test.ts",
  },
  {
    input: "apps that the releases of an org name",
    bound: count(APPS_MAX),
    beyond: "409",
    test: "tests/hostile/apps.test.ts",
  },
  {
    input: "streams of a robot, of an org",
    bound: `${count(limits.streams_per_robot_max)}, ${count(limits.streams_per_org_max)}`,
    beyond: "closed with 4429",
    test: "packages/server/src/features/streams/limits.test.ts",
  },
  {
    input: "message of a viewer",
    bound: "64 KiB",
    beyond: "closed with 1009",
    test: "packages/server/src/features/streams/streams.test.ts",
  },
  {
    input: "frames and messages of viewers a second",
    bound: `${count(LINK_FRAMES.per_minute / 60)} units of a socket, ${count(ORG_FRAMES.per_minute / 60)} of an org: one for a frame, one for a KiB of text`,
    beyond: "the socket is not read until it has paid",
    test: "packages/server/src/features/streams/hub.test.ts",
  },
  {
    input: "what waits for a viewer of a log that does not read",
    bound: "1 MiB",
    beyond: "records are left out, and it is said how many",
    test: "packages/server/src/features/streams/log-stream.test.ts",
  },
  {
    input: "event streams of a token, of an org",
    bound: `${count(limits.event_streams_per_token_max)}, ${count(limits.event_streams_per_org_max)}`,
    beyond: "429",
    test: "packages/server/src/features/events/reader.test.ts",
  },
  {
    input: "changes of a kind to a reader of coalesced events",
    bound: "20, then one a second",
    beyond: "one summary every 0.45 seconds in place of them",
    test: "packages/server/src/features/events/coalesce.test.ts",
  },
  {
    input: "requests for orgs",
    bound: `${count(limits.org_requests_per_hour)} an hour of an address or IPv6 /64, 1,000 that wait`,
    beyond: "429, 503",
    test: "packages/server/src/features/orgs/orgs.test.ts",
  },
  {
    input: "sockets that begin and do not go on",
    bound: "8 s for headers, 15 s for TLS",
    beyond: "closed",
    test: "tests/promises/8-slow-clients.test.ts",
  },
];

export const SERVER_INPUTS: readonly Input[] = [
  {
    input: "frames, messages, streams and unread bytes",
    bound: "as above",
    beyond: "the agent ends the link with 1002 and connects again",
    test: "packages/agent/src/agent.test.ts",
  },
  {
    input: "apps and configs of a desired state",
    bound: `${count(APPS_MAX)}, 1,024`,
    beyond: "the agent ends the link with 1002",
    test: "packages/agent/src/link/desired-store.test.ts",
  },
];
