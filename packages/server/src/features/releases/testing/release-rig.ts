import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Release } from "@roamfleet/protocol/routes";
import { LIMIT_DEFAULTS, type Limits, type Settings } from "../../../config.ts";
import { directoryBlobs } from "../../../engines/blobs/index.ts";
import { silentLog } from "../../../engines/db/testing/index.ts";
import type { Http } from "../../../kernel/http.ts";
import { row, sql, text } from "../../../kernel/sql.ts";
import { deploymentRoutes } from "../../deployments/index.ts";
import { type FeaturePlane, startFeaturePlane } from "../../testing/feature-plane.ts";
import { releaseRoutes } from "../index.ts";

export const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

export type One = { data: Release };
const orgRow = row({ org_id: text });

/** Starts the routes of releases with blobs in a separate directory. */
export async function startReleaseRig(limits: Partial<Limits> = {}) {
  let http: Http | undefined;
  const rig: FeaturePlane = await startFeaturePlane([releaseRoutes, deploymentRoutes, (of) => (http = of)], {
    robot:
      ({ db }) =>
      async (robot_id) => ({
        ...(await db.one(sql(orgRow)`select org_id from robot where id = ${robot_id}`)),
        robot_id,
        key_fingerprint: "",
      }),
  });
  const directory = await mkdtemp(join(tmpdir(), "roamfleet-releases-"));
  const blobs = await directoryBlobs(directory, { log: silentLog });
  Object.assign(rig.plane, { blobs, settings: { limits: { ...LIMIT_DEFAULTS, ...limits } } as Settings });
  if (http === undefined) throw new Error("the routes were not mounted");
  const { server } = http;
  const { port } = server.address() as AddressInfo;
  const org = await rig.org();

  const create = (tag: string, bytes: Uint8Array, more: object = {}, token = org.token) =>
    rig.call<One>("POST", "/api/releases", {
      token,
      body: { tag, kind: "file", artifact_sha256: sha256(bytes), artifact_size: bytes.length, ...more },
    });
  const url = (id: string): string => `http://127.0.0.1:${port}/api/releases/${id}/artifact`;
  return {
    ...rig,
    org,
    anotherOrg: () => rig.org(),
    blobs,
    /** Reopens the directory of the blobs, as a new process would. */
    restartBlobs: async () => void Object.assign(rig.plane, { blobs: await directoryBlobs(directory, { log: silentLog }) }),
    create,
    url,
    put: async (id: string, body: NonNullable<RequestInit["body"]>, token = org.token) => {
      const response = await fetch(url(id), { method: "PUT", body, headers: { authorization: `Bearer ${token}` }, duplex: "half" });
      return { status: response.status, body: (await response.json()) as One & { error: { code: string; message: string } } };
    },
    fetch: (id: string, headers: Record<string, string> = {}, method = "GET") =>
      fetch(url(id), { method, headers: { authorization: `Bearer ${org.token}`, ...headers } }),
    state: async (id: string) => (await rig.call<One>("GET", `/api/releases/${id}`, { token: org.token })).body.data?.artifact_state,
    /** Returns the keys of the stored blobs and the names of the files that are being received. */
    kept: async () => {
      const keys: string[] = [];
      for await (const { key } of blobs.list("")) keys.push(key);
      return { keys, staging: await readdir(join(directory, "staging")) };
    },
    /** Opens a connection and sends the request headers of an upload, but no body. */
    open: async (id: string, length: number, head = "") => {
      const socket = connect(port, "127.0.0.1");
      let received = "";
      socket.setEncoding("utf8").on("data", (chunk) => (received += chunk));
      socket.on("error", () => {});
      await once(socket, "connect");
      socket.write(
        `PUT /api/releases/${id}/artifact HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${org.token}\r\ncontent-length: ${length}\r\n${head}\r\n`,
      );
      return { socket, received: () => received };
    },
    [Symbol.asyncDispose]: async () => {
      // The rest of a body may still arrive after its response was sent.
      server.closeAllConnections();
      await rig[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
