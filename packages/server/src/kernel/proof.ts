import { hash } from "node:crypto";

/** A secret that proves an identity. */
export interface Proof {
  by: "token" | "session";
  secret: string;
}

/** What is stored of a proof to check its validity again: not the secret. */
export interface HeldProof {
  by: Proof["by"];
  /** SHA-256 of the secret. */
  hash: Buffer;
}

/** Returns the hash by which a secret is stored and found. Secrets are 32 random bytes, so a fast hash resists brute force. */
export const secretHash = (secret: string): Buffer => hash("sha256", secret, "buffer");

export const holdProof = ({ by, secret }: Proof): HeldProof => ({ by, hash: secretHash(secret) });
