import { hash } from "node:crypto";

/** What shows who somebody is. */
export interface Proof {
  by: "token" | "session";
  secret: string;
}

/** What is kept of a proof where it is asked again whether it still holds: not the secret. */
export interface HeldProof {
  by: Proof["by"];
  /** SHA-256 of the secret. */
  hash: Buffer;
}

/** What is kept of a secret, and all that it is looked up by. Secrets are 32 random bytes: nobody finds one by trying. */
export const secretHash = (secret: string): Buffer => hash("sha256", secret, "buffer");

export const holdProof = ({ by, secret }: Proof): HeldProof => ({ by, hash: secretHash(secret) });
