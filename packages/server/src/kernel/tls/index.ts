import type { Clock } from "@roamfleet/clock";
import type { Logger } from "pino";
import type { Settings } from "../../config.ts";
import { certificateFiles } from "./certificate-files.ts";
import type { Tls } from "./contract.ts";
import { ownCertificate } from "./own-certificate.ts";

export { type KeyPair, type Tls, TLS_OPTIONS, TlsError } from "./contract.ts";
export { HandshakeLine } from "./handshake-line.ts";
export { paceHandshakes } from "./pace-handshakes.ts";
export { readPair } from "./certificate-files.ts";
export { authorityFile } from "./own-authority.ts";
export { type RunCertificate, runCertificate } from "./run-certificate.ts";

/** Opens the certificate that the settings select; undefined without TLS. Throws if there is no usable certificate. */
export async function openTls(
  { tls, listen, data_directory }: Pick<Settings, "tls" | "listen" | "data_directory">,
  context: { clock: Clock; log: Logger },
): Promise<Tls | undefined> {
  if (tls === undefined) return undefined;
  if (tls.mode === "files") return certificateFiles(tls, context);
  return ownCertificate({ ...context, data_directory, listen_host: listen.host, names: tls.names });
}
