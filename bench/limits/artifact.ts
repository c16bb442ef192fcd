/** The limit of downloads: the same bytes by node:http without authentication. */
import { randomBytes } from "node:crypto";
import { listener } from "../listener.ts";

const bytes = randomBytes(Number(process.env["BYTES"]));

listener((request, response) => {
  if (request.url === "/readyz") return response.end();
  response.writeHead(200, { "content-type": "application/octet-stream", "content-length": bytes.length });
  return response.end(bytes);
});
