import { type FieldPath, parseFieldPath } from "./field-path.ts";

const TOPIC_CHARACTERS_MAX = 256;
const FIELD_CHARACTERS_MAX = 256;
const RATE_MAX = 1_000;

export interface EchoRequest {
  /** With a leading slash. */
  topic: string;
  /** The type, if topics of several types share the name. */
  type: string | undefined;
  rate: number | undefined;
  field: FieldPath;
  full: boolean;
}

export type TopicsRequest = { op: "list"; follow: boolean } | ({ op: "echo" } & EchoRequest);

/** Parses the parameters of a channel; returns a message if they are invalid. */
export function readTopicsRequest(params: unknown): TopicsRequest | string {
  if (typeof params !== "object" || params === null) return "params must be an object";
  const { op, follow, topic, type, rate, field, full } = params as Record<string, unknown>;
  if (op === "list") return { op, follow: follow === true };
  if (op !== "echo") return "op is list or echo";
  if (typeof topic !== "string" || topic.length > TOPIC_CHARACTERS_MAX || !/^\/?[^/\s\p{Cc}][^\s\p{Cc}]*$/u.test(topic))
    return "topic must be the name of a topic, such as /chatter";
  if (type !== undefined && (typeof type !== "string" || type.length > TOPIC_CHARACTERS_MAX))
    return "type must be the type of a topic, such as std_msgs/msg/String";
  if (rate !== undefined && !(typeof rate === "number" && rate > 0 && rate <= RATE_MAX))
    return `rate must be messages a second, above 0 and at most ${RATE_MAX}`;
  if (field !== undefined && (typeof field !== "string" || field.length > FIELD_CHARACTERS_MAX))
    return "field must be a path such as a.b[0].c";
  if (full !== undefined && typeof full !== "boolean") return "full must be true or false";
  const path = parseFieldPath(field ?? "");
  if (path === undefined) return `field must be a path such as a.b[0].c`;
  return { op, topic: topic.startsWith("/") ? topic : `/${topic}`, type, rate, field: path, full: full === true };
}
