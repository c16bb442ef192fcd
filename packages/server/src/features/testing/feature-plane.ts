import { Agent, request, type RequestOptions } from "node:http";
import type { AddressInfo } from "node:net";
import { SimulatedClock } from "@roamfleet/clock";
import type { Role } from "@roamfleet/protocol";
import { LIMIT_DEFAULTS, type Settings } from "../../config.ts";
import type { Plane } from "../../context.ts";
import { createTestDatabase, type TestDatabase } from "../../engines/db/testing/index.ts";
import { createHttp, type Http } from "../../kernel/http.ts";
import { createLog } from "../../kernel/log.ts";
import { RetentionClock } from "../../kernel/retention-clock.ts";
import { sql } from "../../kernel/sql.ts";
import type { Session } from "../../link/index.ts";
import { createCredential, createPortalAuthenticator, type PortalAuthenticator } from "../tokens/index.ts";
import { linkOf, testPlane } from "./test-plane.ts";

export interface Reply<T> {
  status: number;
  headers: Record<string, string | string[] | number | undefined>;
  body: T;
}

export interface CallOptions {
  token?: string | undefined;
  body?: unknown;
  headers?: Record<string, string>;
  /** Source address of the request, within 127.0.0.0/8. */
  remote_address?: string;
}

export interface FeaturePlane extends AsyncDisposable {
  plane: Plane;
  clock: SimulatedClock;
  database: TestDatabase;
  portal: PortalAuthenticator;
  /** Base URL of the server. */
  url: string;
  /** Creates an active org with a token of the role. */
  org(options?: { role?: Role; name?: string }): Promise<{ org_id: string; token: string; token_id: string }>;
  /** Sends one HTTP request. `T` is the expected type of the response body, which is not checked. */
  call<T = { error: { code: string; message: string } }>(
    method: "GET" | "POST" | "PATCH" | "DELETE" | "PUT",
    url: string,
    options?: CallOptions,
  ): Promise<Reply<T>>;
}

/**
 * Starts the routes of a few features with a real database and the real HTTP server, but without the endpoint for robots. `sessions` are
 * the robot connections that the server treats as open.
 */
export async function startFeaturePlane(
  features: ((http: Http, plane: Plane) => void)[],
  options: {
    admin_token?: string;
    settings?: Partial<Settings>;
    sessions?: Map<string, Session>;
    robot?: (plane: Plane) => Plane["authenticators"]["robot"];
  } = {},
): Promise<FeaturePlane> {
  const database = await createTestDatabase();
  const clock = new SimulatedClock({ at: "2030-01-01T00:00:00Z" });
  // With this option, the clock's `advance` waits for the database queries that timers start.
  const db = await database.connect({ activity: clock.activity });
  const portal = createPortalAuthenticator({ db, clock, limits: LIMIT_DEFAULTS });
  const retention_clock = await RetentionClock.open({ db, clock, log: createLog({ level: "silent" }), has_remote_database: false });
  const plane: Plane = testPlane({
    clock,
    db,
    retention_clock,
    authenticators: {
      portal: (secret, org_id) => portal.authenticate(secret, org_id),
      session: (secret, org_id) => portal.authenticateSession(secret, org_id),
      recheck: (proof, org_id) => portal.recheck(proof, org_id),
      robot: (robot_id, request, signature) => {
        if (options.robot === undefined) throw new Error("this test has no robots");
        return options.robot(plane)(robot_id, request, signature);
      },
      refusedRobots: () => Promise.resolve([]),
    },
    admin: { token: options.admin_token, behind_proxy: false },
    link: linkOf(options.sessions ?? new Map<string, Session>()),
  });
  Object.assign(plane.settings, options.settings);
  const http = await createHttp(plane, { tls: undefined, metrics: plane.metrics });
  for (const routes of features) routes(http, plane);
  await http.app.listen({ host: "127.0.0.1", port: 0 });
  const url_of_server = `http://127.0.0.1:${(http.server.address() as AddressInfo).port}`;
  const agent = new Agent({ keepAlive: true });
  let orgs = 0;
  return {
    plane,
    clock,
    database,
    portal,
    url: url_of_server,
    async org({ role = "admin", name } = {}) {
      orgs += 1;
      const org_id = plane.id("org");
      const now = clock.now();
      await db.run(
        sql`insert into org (id, name, status, created_at, updated_at) values (${org_id}, ${name ?? `Org ${orgs}`}, 'active', ${now}, ${now})`,
      );
      const { id, secret } = await createCredential(db, plane, { kind: "org", org_id, role, label: role });
      return { org_id, token: secret, token_id: id };
    },
    async call(method, url, { token, body, headers = {}, remote_address } = {}) {
      const reply = await send(`${url_of_server}${url}`, {
        method,
        localAddress: remote_address,
        agent,
        headers: {
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...headers,
        },
        payload: body === undefined ? undefined : JSON.stringify(body),
      });
      const is_json = String(reply.headers["content-type"]).startsWith("application/json");
      return { ...reply, body: is_json ? JSON.parse(reply.body) : (reply.body as never) };
    },
    async [Symbol.asyncDispose]() {
      agent.destroy();
      await http.app.close();
      await plane.bus.close();
      await database.drop();
    },
  };
}

type Sent = RequestOptions & { payload: string | undefined; localAddress: string | undefined };

async function send(url: string, { payload, localAddress, ...options }: Sent): Promise<Reply<string>> {
  const { promise, resolve, reject } = Promise.withResolvers<Reply<string>>();
  const outgoing = request(url, { ...options, ...(localAddress === undefined ? {} : { localAddress }) }, (incoming) => {
    let body = "";
    incoming.setEncoding("utf8");
    incoming.on("data", (chunk: string) => (body += chunk));
    incoming.on("error", reject);
    incoming.on("end", () => resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body }));
  });
  outgoing.on("error", reject);
  outgoing.end(payload);
  return await promise;
}
