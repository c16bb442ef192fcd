import { createServer, isIP } from "node:net";
import { request as requestPlain } from "node:http";
import { request as requestTls } from "node:https";
import { addressText, type HostPort, reachableHost } from "../../link/nodes/connect-node.ts";
import { type Check, type DoctorContext, ok, problem, type Seen, skipped, warning } from "../finding.ts";

/** The program that occupies an address. */
export type Occupant = "roamfleet" | "unknown";

export const listenCheck: Check = {
  name: "address",
  async check(context) {
    const { settings, wrong_parts } = context;
    const found: Seen[] = [];
    let occupant: Occupant | undefined;
    if (wrong_parts.has("listen")) found.push(skipped("not checked: first fix the problem in settings"));
    else {
      const failure = await tryListen(settings.listen);
      if (failure === "EADDRINUSE") occupant = await whoAnswers(context);
      found.push(
        failure === undefined ? ok(`${addressText(settings.listen)} is free`) : evaluateListen(settings.listen, failure, occupant),
      );
    }
    // Runs after the first check has released its address, because both checks may use the same address.
    return wrong_parts.has("nodes") ? found : [...found, ...(await lookAtNodes(settings, occupant))];
  },
};

/** Checks the listen address for other servers. The address is also occupied if this server is already running. */
async function lookAtNodes({ nodes, listen }: DoctorContext["settings"], occupant: Occupant | undefined): Promise<Seen[]> {
  if (nodes === undefined) return [];
  const told = { host: nodes.address?.host ?? reachableHost(nodes.listen.host), port: nodes.address?.port || nodes.listen.port };
  const failure = await tryListen(nodes.listen);
  if (failure !== undefined) return [evaluateListen(nodes.listen, failure, occupant, "--node-listen")];
  return [...evaluateNodeAddress(nodes.listen, told, listen)];
}

/** Evaluates the listen address for other servers. `told` is the address at which they connect to this server. */
export function evaluateNodeAddress(node_listen: HostPort, told: HostPort, listen: HostPort): Seen[] {
  const at = addressText(node_listen);
  const overlap = node_listen.host === listen.host || [node_listen.host, listen.host].some((host) => WILDCARDS.has(host));
  if (node_listen.port !== 0 && node_listen.port === listen.port && overlap)
    return [problem(`--node-listen ${at} and --listen ${addressText(listen)} are the same port`, "use different ports")];
  if (isLoopback(told.host))
    return [
      warning(
        `the address that other servers use for this server is ${addressText(told)}, which is a loopback address`,
        "set --node-address to an address that other servers can reach, unless all servers are on this machine",
      ),
    ];
  return [ok(`${at} is free for connections of other servers, which use the address ${addressText(told)}`)];
}

const WILDCARDS: ReadonlySet<string> = new Set(["0.0.0.0", "::"]);
const isLoopback = (host: string): boolean => /^(localhost|127(\.\d+){3}|::1)$/.test(host);

/** Tries to listen on an address. Returns the system's error code; undefined if it works. */
async function tryListen({ host, port }: HostPort): Promise<string | undefined> {
  const server = createServer();
  try {
    return await new Promise((resolve) => {
      server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      server.listen({ host, port }, () => resolve(undefined));
    });
  } finally {
    server.close();
  }
}

export function evaluateListen(address: HostPort, code: string, occupant: Occupant | undefined, flag = "--listen"): Seen {
  const at = addressText(address);
  if (code === "EADDRINUSE" && occupant === "roamfleet")
    return warning(
      flag === "--listen"
        ? `a Roamfleet server already listens at ${at}`
        : `a Roamfleet server running here probably listens at ${at} for other servers`,
      `no action needed if it is this server; a second server needs another ${flag}`,
    );
  if (code === "EADDRINUSE")
    return problem(
      `${at} is in use by another process`,
      `ss -ltnp 'sport = :${address.port}' shows the process; or choose another address with ${flag} HOST:PORT`,
    );
  if (code === "EACCES")
    return problem(
      `this user may not listen at ${at}`,
      `ports below 1024 need a privilege (AmbientCapabilities=CAP_NET_BIND_SERVICE in a systemd unit); or choose a higher port with ${flag} HOST:PORT`,
    );
  if (code === "EADDRNOTAVAIL")
    return problem(`this machine has no address ${address.host}`, "`ip address` lists its addresses; 0.0.0.0 means all addresses");
  return problem(`cannot listen at ${at} (${code})`, `choose another address with ${flag} HOST:PORT`);
}

/** Identifies the program at the listen address by its response at /healthz, over HTTP or HTTPS. */
async function whoAnswers({ settings, clock, timeout_ms, signal }: DoctorContext): Promise<Occupant> {
  const { host, port } = settings.listen;
  const wildcard = host === "0.0.0.0" || host === "::";
  const asked = { host: wildcard ? (isIP(host) === 6 ? "::1" : "127.0.0.1") : host, port };
  const answers = await Promise.all([requestPlain, requestTls].map((request) => askHealth(request, asked, { clock, timeout_ms, signal })));
  // A Roamfleet server behind a proxy refuses the request with this message.
  return answers.some((text) => /^\{"status":"ok"\}$|reached through its proxy only/.test(text)) ? "roamfleet" : "unknown";
}

const ANSWER_BYTES_MAX = 4_096;

function askHealth(
  request: typeof requestPlain | typeof requestTls,
  at: { host: string; port: number },
  { clock, timeout_ms, signal }: Pick<DoctorContext, "clock" | "timeout_ms" | "signal">,
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  // The certificate is not verified: the request contains no secrets, and the response is not trusted.
  const asking = request({ ...at, path: "/healthz", signal, rejectUnauthorized: false, agent: false }, (answer) => {
    let text = "";
    answer.setEncoding("utf8").on("data", (more: string) => {
      text += more;
      if (text.length > ANSWER_BYTES_MAX) asking.destroy();
    });
    answer.on("close", () => resolve(text.trim()));
  });
  asking.on("error", () => resolve(""));
  asking.end();
  const late = clock.setTimer(timeout_ms / 2, () => asking.destroy());
  return promise.finally(() => late.cancel());
}
