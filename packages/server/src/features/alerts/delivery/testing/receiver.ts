import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
}

/** Starts an HTTP server that records requests with their bodies. By default it responds with 204. */
export async function startReceiver(respond: RequestListener = (_, response) => void response.writeHead(204).end()) {
  const got: Received[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk: string) => (body += chunk));
    request.on("end", () => {
      got.push({ path: request.url ?? "", headers: request.headers, body });
      respond(request, response);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    got,
    server,
    port,
    url: (path: string) => `http://127.0.0.1:${port}${path}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
