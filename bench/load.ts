import net from "node:net";

/**
 * Number of concurrent requests: enough to keep the server busy, but few enough that the load generator does not need the server's core.
 */
const CONNECTIONS = 8;

export interface Request {
  method: string;
  path: string;
  headers?: Record<string, string>;
  /** Called for each request, so that bodies may differ. */
  body?: () => string;
}

/**
 * Sends requests over `connections` connections for `duration_ms`, and returns the number of responses. A connection stays open, and sends
 * its next request when the previous response is complete. It sends at least one. This function must use little CPU time, because it shares
 * the machine with the server and PostgreSQL.
 */
export async function load(url: string, request: Request, duration_ms: number, connections = CONNECTIONS): Promise<number> {
  const { hostname, port } = new URL(url);
  const until = performance.now() + duration_ms;
  const counts = await Promise.all(Array.from({ length: connections }, () => one(hostname, Number(port), request, until)));
  return counts.reduce((sum, count) => sum + count, 0);
}

function one(host: string, port: number, request: Request, until: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let count = 0;
    let waiting: Buffer = Buffer.alloc(0);
    const socket = net.connect({ host, port, noDelay: true });
    const lines = Object.entries({ host: `${host}:${port}`, ...request.headers }).map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `${request.method} ${request.path} HTTP/1.1\r\n${lines.join("")}`;
    const send = (): void => {
      const body = request.body?.();
      socket.write(
        body === undefined
          ? `${head}\r\n`
          : `${head}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
    };
    socket.on("connect", send);
    socket.on("data", (chunk) => {
      waiting = waiting.length === 0 ? chunk : Buffer.concat([waiting, chunk]);
      const end = waiting.indexOf("\r\n\r\n");
      if (end < 0) return;
      const header = waiting.toString("latin1", 0, end);
      const length = Number(/\r\ncontent-length: (\d+)/i.exec(header)?.[1] ?? Number.NaN);
      if (!(header.startsWith("HTTP/1.1 2") && Number.isFinite(length))) {
        socket.destroy();
        return reject(new Error(`the server answered: ${waiting.toString("utf8").slice(0, 500)}`));
      }
      if (waiting.length < end + 4 + length) return;
      waiting = waiting.subarray(end + 4 + length);
      count += 1;
      if (performance.now() < until) return send();
      socket.destroy();
      resolve(count);
    });
    socket.on("error", reject);
  });
}
