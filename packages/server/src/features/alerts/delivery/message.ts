import type { ChannelKind, Severity } from "@roamfleet/protocol";

/** A message as it is stored, and sent to webhooks. The same for each attempt. */
export interface AlertMessage {
  type: "incident.opened" | "incident.resolved" | "channel.test";
  timestamp: string;
  data: {
    /** Null in a test message. */
    incident_id: string | null;
    title: string;
    severity: Severity;
    site: Named | null;
    /** Null: robots of the whole site. */
    fleet: Named | null;
    /** The only robot that has matched; null: several, or a deployment. */
    robot: Named | null;
    /** Robots or deployments that have matched. */
    member_count: number;
    raised_at: string | null;
    resolved_at: string | null;
  };
}

interface Named {
  id: string;
  name: string;
}

/** The encrypted part of a channel. */
export interface ChannelSecrets {
  url?: string | undefined;
  /** webhook: `whsec_` and the key in base64. */
  signing_secret?: string | undefined;
  /** pagerduty: the integration key. */
  routing_key?: string | undefined;
  /** email. */
  recipients?: readonly string[] | undefined;
}

const PAGERDUTY_URL = "https://events.pagerduty.com/v2/enqueue";
/** The limit of PagerDuty. */
const SUMMARY_CHARACTERS_MAX = 1_024;

/** Returns one line: the title of the incident, its robot or the number of its members, and its place. */
export function summaryOf({ type, data }: AlertMessage): string {
  if (type === "channel.test") return "Test message from Roamfleet";
  const state = type === "incident.opened" ? "Opened" : "Resolved";
  const place = [data.site, data.fleet].flatMap((one) => (one === null ? [] : [one.name])).join(", ");
  // Messages that a server of an earlier version has stored have no robot.
  return `${state}: ${data.title} (${data.severity}), ${data.robot?.name ?? `${data.member_count} affected`}, ${place}`;
}

/** Slack's format gives these characters a meaning, such as a link or a mention of a channel. */
const escapeSlack = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

interface Outgoing {
  url: string;
  body: string;
}

/** Returns the request that a message to an HTTP channel makes, without headers. `id`: of the delivery. */
export function requestOf(
  kind: Exclude<ChannelKind, "email">,
  { url, routing_key }: ChannelSecrets,
  { id, message }: { id: string; message: AlertMessage },
): Outgoing {
  const to = (body: unknown): Outgoing => ({ url: url ?? PAGERDUTY_URL, body: JSON.stringify(body) });
  if (kind === "webhook") return to(message);
  if (kind === "slack") return to({ text: escapeSlack(summaryOf(message)) });
  const { data, timestamp } = message;
  return to({
    routing_key,
    event_action: message.type === "incident.resolved" ? "resolve" : "trigger",
    dedup_key: data.incident_id ?? id,
    payload: {
      summary: summaryOf(message).slice(0, SUMMARY_CHARACTERS_MAX),
      source: data.site?.name ?? "roamfleet",
      severity: data.severity,
      timestamp,
      custom_details: data,
    },
  });
}

export const testMessage = (now: Date): AlertMessage => ({
  type: "channel.test",
  timestamp: now.toISOString(),
  data: {
    incident_id: null,
    title: "Test message",
    severity: "info",
    site: null,
    fleet: null,
    robot: null,
    member_count: 0,
    raised_at: null,
    resolved_at: null,
  },
});
