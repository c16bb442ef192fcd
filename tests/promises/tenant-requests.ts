import { hash, randomBytes } from "node:crypto";
import { encodeFrame, FrameType, LOG_CHANNEL } from "@roamfleet/protocol/link";
import type { Client } from "@roamfleet/sdk";
import { type Identity, makeIdentity } from "../../packages/swarm/src/testing/identity.ts";

/** An org and one of its admin tokens. */
export interface Org {
  api: Client;
  token: string;
}

/** Sends a request with a token and returns the response with any status. */
export const call = (
  url: string,
  token: string,
  method: string,
  path: string,
  more: { body?: unknown; headers?: Record<string, string> } = {},
): Promise<Response> =>
  fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(more.body === undefined ? {} : { "content-type": "application/json" }),
      ...more.headers,
    },
    ...(more.body === undefined ? {} : { body: JSON.stringify(more.body) }),
  });

let tags = 0;
/** Body of a release of one file with an unused tag. */
export const release = (size: number, sha256 = hash("sha256", randomBytes(8))) => ({
  tag: `v${(tags += 1)}`,
  kind: "file" as const,
  artifact_sha256: sha256,
  artifact_size: size,
});

/** Creates a site with a fleet and a key that enrolls any number of robots. */
export async function createPlace({ api }: Org): Promise<{ fleet_id: string; key: string }> {
  const site = (await api.createSite({ body: { name: "Yard" } })).data;
  const fleet = (await api.createFleet({ body: { name: "All", site_id: site.id } })).data;
  const { key } = (await api.createEnrollmentKey({ body: { site_id: site.id, fleet_id: fleet.id, max_uses: 0 } })).data;
  return { fleet_id: fleet.id, key: key ?? "" };
}

/** Enrolls a robot with a new identity; `id` is undefined when the server refused it. */
export async function enroll(url: string, key: string): Promise<{ status: number; id: string; identity: Identity }> {
  const identity = makeIdentity();
  const answer = await fetch(`${url}/agent/enroll`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key, public_key: identity.public_key }),
  });
  const { data } = (await answer.json()) as { data: { robot_id: string } };
  return { status: answer.status, id: data?.robot_id, identity };
}

/** Encodes one flush of `count` log records as a frame of the link. */
export function logFrame(seq: number, count: number, message: string): Buffer {
  const records = Array.from({ length: count }, (_, i) => ({
    seq: seq + i,
    at: new Date().toISOString(),
    level: "info",
    source: "flood",
    message,
    fields: {},
  }));
  return encodeFrame(FrameType.DATA, LOG_CHANNEL, Buffer.from(JSON.stringify({ type: "logs", records })));
}
