/** The digest that an image reference ends in, as 64 hex digits; undefined when it names none. */
export const imageDigest = (reference: string): string | undefined => /^[^@\s]+@sha256:([0-9a-f]{64})$/.exec(reference.trim())?.[1];
