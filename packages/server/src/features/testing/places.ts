import assert from "node:assert/strict";
import { generateKeyPairSync, type KeyObject, sign } from "node:crypto";
import type { Enrolled, Fleet, NewEnrollmentKey, Site } from "@roamfleet/protocol/routes";
import { ChannelRefused, CHANNELS_MAX, type Hello, LINK_PROTOCOLS, linkChallengeText } from "@roamfleet/protocol/link";
import type { Session } from "../../link/index.ts";
import type { FeaturePlane } from "./feature-plane.ts";

export interface Identity {
  private_key: KeyObject;
  /** The public key in base64, as in an enrollment. */
  public_key: string;
}

export function newIdentity(): Identity {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  return { private_key: privateKey, public_key: publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("base64") };
}

/** Creates an identity with a key of the type that TPMs support. */
export function newTpmIdentity(): Identity {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  return { private_key: privateKey, public_key: publicKey.export({ format: "der", type: "spki" }).subarray(-65).toString("base64") };
}

export const signText = ({ private_key }: Identity, text: string): string =>
  sign(private_key.asymmetricKeyType === "ec" ? "sha256" : null, Buffer.from(text), private_key).toString("base64");

async function create<T>(it: FeaturePlane, token: string, path: string, body: unknown): Promise<T> {
  const reply = await it.call<{ data: T }>("POST", path, { token, body });
  assert.equal(reply.status, 201, JSON.stringify(reply.body));
  return reply.body.data;
}

export interface Place {
  site: Site;
  fleet: Fleet;
  key: NewEnrollmentKey;
}

/** Creates a site with a fleet and an enrollment key for it. */
export async function makePlace(
  it: FeaturePlane,
  token: string,
  name = "one",
  key: { max_uses?: number; expires_in_hours?: number } = {},
): Promise<Place> {
  const site = await create<Site>(it, token, "/api/sites", { name: `Site ${name}` });
  const fleet = await create<Fleet>(it, token, "/api/fleets", { name: `Fleet ${name}`, site_id: site.id });
  return {
    site,
    fleet,
    key: await create<NewEnrollmentKey>(it, token, "/api/enrollment-keys", { site_id: site.id, fleet_id: fleet.id, ...key }),
  };
}

export async function enrollRobot(
  it: FeaturePlane,
  { key }: Place,
  extra: { name?: string; labels?: Record<string, string> } = {},
  identity: Identity = newIdentity(),
): Promise<Enrolled & { identity: Identity }> {
  const { status, body } = await it.call<{ data: Enrolled }>("POST", "/agent/enroll", {
    body: { key: key.key, public_key: identity.public_key, ...extra },
  });
  assert.equal(status, 201, JSON.stringify(body));
  return { ...body.data, identity };
}

export const helloOf = (robot_id: string, extra: Partial<Hello> = {}): Hello => ({
  type: "hello",
  protocols: [...LINK_PROTOCOLS],
  robot_id,
  signature: "",
  boot_id: "boot-1",
  run_id: "run-1",
  outbox_id: "outbox-1",
  agent_version: "0.1.0",
  platform: { os: "linux", arch: "x64", hostname: "arm-7" },
  kinds: ["app_bundle", "file"],
  streams: ["logs"],
  generation: 0,
  ...extra,
});

/** The challenge that a robot signs when it connects without TLS. */
export const CHALLENGE = { nonce: "nonce", host: "fleet.test", channel: "" };

export const signedHello = (
  identity: Identity,
  robot_id: string,
  nonce: string,
  extra: Partial<Hello> = {},
  host = CHALLENGE.host,
): Hello => helloOf(robot_id, { signature: signText(identity, linkChallengeText(robot_id, { ...CHALLENGE, host, nonce })), ...extra });

export interface FakeSession extends Session {
  closed: { code: number; reason: string } | undefined;
}

/** Returns a fake robot connection that records how it was closed. */
export function fakeSession(session_id: string, org_id: string, hello: Hello): FakeSession {
  return {
    session_id,
    org_id,
    channel_room: CHANNELS_MAX,
    openChannel: () => Promise.reject(new ChannelRefused({ code: 4410, reason: "not supported here" })),
    robot_id: hello.robot_id,
    hello,
    ip: "192.0.2.7",
    closed: undefined,
    send: () => true,
    pauseReading: () => {},
    close(code, reason) {
      this.closed = { code, reason };
    },
  };
}
