import http from "node:http";
import https from "node:https";
import process from "node:process";

/**
 * `node healthcheck.mjs [PATH]`: exits with 0 if this container's server responds to PATH (default /readyz) with 200. Otherwise prints the
 * reason and exits with 1. The request comes from loopback, so behind a proxy ROAMFLEET_BEHIND_PROXY must include 127.0.0.1.
 */

const TIMEOUT_MS = 4_000;
const { ROAMFLEET_LISTEN = "127.0.0.1:7600", ROAMFLEET_TLS = "", ROAMFLEET_TLS_CERT = "" } = process.env;
const is_tls = ROAMFLEET_TLS !== "" || ROAMFLEET_TLS_CERT !== "";
const [path = "/readyz"] = process.argv.slice(2);

const request = (is_tls ? https : http).get({
  host: "127.0.0.1",
  port: Number(ROAMFLEET_LISTEN.slice(ROAMFLEET_LISTEN.lastIndexOf(":") + 1)),
  path,
  timeout: TIMEOUT_MS,
  // The certificate does not name loopback, and only the response matters here.
  rejectUnauthorized: false,
});
request.on("timeout", () => request.destroy(new Error(`no answer within ${TIMEOUT_MS} ms`)));
request.on("error", (error) => end(1, error.message));
request.on("response", (response) => {
  response.resume();
  end(response.statusCode === 200 ? 0 : 1, `${path} answered ${response.statusCode}`);
});

/**
 * @param {number} code
 * @param {string} why
 */
function end(code, why) {
  if (code !== 0) process.stderr.write(`${why}\n`);
  process.exit(code);
}
