/** Returns the digest at the end of an image reference, as 64 hex digits; undefined if there is none. */
export const imageDigest = (reference: string): string | undefined => /^[^@\s]+@sha256:([0-9a-f]{64})$/.exec(reference.trim())?.[1];
