import { isIP } from "node:net";
import type { Clock } from "@roamfleet/clock";
import { createTransport } from "nodemailer";
import type { Attempt } from "./guarded-post.ts";
import { type AlertMessage, summaryOf } from "./message.ts";

/** Time for the whole message: connecting, authenticating and sending. */
export const SMTP_TIMEOUT_MS = 20_000;

interface Mail {
  id: string;
  recipients: readonly string[];
  message: AlertMessage;
}

/**
 * Sends a message by the operator's mail server. Its Message-ID is the same for each attempt. A password is sent only over TLS, unless the
 * mail server is on this machine. Never throws.
 */
export async function sendMail(
  { clock, smtp, signal }: { clock: Pick<Clock, "setTimer">; smtp: { url: string; from: string }; signal: AbortSignal },
  { id, recipients, message }: Mail,
): Promise<Attempt> {
  const { hostname, username } = new URL(smtp.url);
  const is_local = hostname === "localhost" || (isIP(hostname) === 4 && hostname.startsWith("127.")) || hostname === "[::1]";
  // These timeouts end the connection if the attempt below has already ended.
  const timeouts = { connectionTimeout: SMTP_TIMEOUT_MS, greetingTimeout: SMTP_TIMEOUT_MS, socketTimeout: SMTP_TIMEOUT_MS };
  const transport = createTransport({
    url: smtp.url,
    ...timeouts,
    requireTLS: username !== "" && !is_local,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const { promise: ended, resolve: end } = Promise.withResolvers<Attempt>();
  const timer = clock.setTimer(SMTP_TIMEOUT_MS, () => end({ delivered: false, detail: "the mail server did not respond in time" }));
  const stop = (): void => end({ delivered: false, detail: "the server stopped" });
  signal.addEventListener("abort", stop);
  const sent = transport
    .sendMail({
      from: smtp.from,
      to: [...recipients],
      messageId: `<${id}@roamfleet>`,
      subject: summaryOf(message),
      text: textOf(message),
    })
    .then(
      (): Attempt => ({ delivered: true, detail: "accepted by the mail server" }),
      // The message of an error may contain the server's name and its response; the code does not.
      ({ code, responseCode }: { code?: string; responseCode?: number }): Attempt => ({
        delivered: false,
        detail: `the mail server refused or failed: ${responseCode ?? code ?? "unknown error"}`,
      }),
    );
  try {
    return await Promise.race([sent, ended]);
  } finally {
    timer.cancel();
    signal.removeEventListener("abort", stop);
  }
}

function textOf(message: AlertMessage): string {
  const { incident_id, raised_at, resolved_at } = message.data;
  const details = { Incident: incident_id, Opened: raised_at, Resolved: resolved_at };
  const lines = Object.entries(details).flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]));
  return `${[summaryOf(message), "", ...lines].join("\n")}\n`;
}
