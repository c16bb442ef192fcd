import { connect, type TLSSocket } from "node:tls";
import type { Clock } from "@roamfleet/clock";
import type { RunCertificate } from "../../kernel/tls/index.ts";
import { parseAddress } from "./address.ts";
import { nodeTls, peerFingerprint, steady } from "./node-tls.ts";
import type { KnownNode } from "./store-nodes.ts";

/** A node on the same network answers in milliseconds. This bounds the wait for one that does not. */
export const CONNECT_TIMEOUT_MS = 3_000;

/** Connects to a node and verifies its certificate. Rejects with a reason for the log, before any data was sent. */
export function connectNode(node: KnownNode, pair: RunCertificate, clock: Pick<Clock, "setTimer">): Promise<TLSSocket> {
  const address = parseAddress(node.address);
  if (address === undefined) return Promise.reject(new Error("its address cannot be read"));
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const socket = connect({ ...address, ...nodeTls(pair), checkServerIdentity: () => undefined });
  const late = clock.setTimer(CONNECT_TIMEOUT_MS, () => reject(new Error("does not answer")));
  socket.on("error", (error: NodeJS.ErrnoException) => reject(new Error(error.code ?? error.message)));
  socket.once("close", () => reject(new Error("closed the connection")));
  socket.once("secureConnect", () => {
    if (peerFingerprint(socket) !== node.tls_fingerprint) return reject(new Error("has another certificate"));
    steady(socket);
    resolve(socket);
  });
  promise.catch(() => socket.destroy());
  return promise.finally(() => late.cancel());
}
