import { createHmac, randomBytes } from "node:crypto";

const SECRET_PREFIX = "whsec_";
const SECRET_BYTES = 32;

export const newSigningSecret = (): string => SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64");

export interface SignedMessage {
  /** The same for each attempt, so that the receiver can deduplicate messages. */
  id: string;
  at: Date;
  body: string;
}

/** Returns the headers of a message by the specification of Standard Webhooks. `secret` is `whsec_` and the key as base64. */
export function signatureHeaders(secret: string, { id, at, body }: SignedMessage): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1_000));
  const key = Buffer.from(secret.slice(SECRET_PREFIX.length), "base64");
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": `v1,${signature}` };
}
