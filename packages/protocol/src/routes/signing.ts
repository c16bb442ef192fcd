import { Type } from "typebox";
import { defineRoute } from "./route.ts";
import { DataOf, Id, Maybe, named, Nullable, type Of, Shape, Time } from "./shapes.ts";
import { SIGNED_TEXT_CHARACTERS_MAX } from "../signatures/signed-text.ts";

const KEY_ID_CHARACTERS_MAX = 64;
const SIGNATURE_CHARACTERS_MAX = 100;

/** A statement and the Ed25519 signature over the UTF-8 bytes of its text. */
export const SignedText = named(
  "SignedText",
  Shape({
    key_id: Type.String({ maxLength: KEY_ID_CHARACTERS_MAX, description: "First 32 hex digits of the SHA-256 of the raw public key" }),
    text: Type.String({ maxLength: SIGNED_TEXT_CHARACTERS_MAX, description: "Its purpose, a line feed, and canonical JSON (RFC 8785)" }),
    value: Type.String({ maxLength: SIGNATURE_CHARACTERS_MAX, description: "base64 of the 64 bytes of the signature" }),
  }),
);

export const SigningKeys = named(
  "SigningKeys",
  Shape({
    org_id: Id,
    serial: Type.Integer({ minimum: 0, description: "Serial of the latest statement; 0: the org never had a key" }),
    require_signature: Type.Boolean(),
    keys: Type.Array(
      Shape({
        id: Id,
        name: Type.String(),
        public_key: Type.String({ description: "base64 of the 32 raw Ed25519 bytes" }),
        added_at: Time,
        revoked_at: Nullable(Time),
      }),
    ),
    statements: Type.Array(SignedText, {
      description: "Signed statements that define the keys, oldest first; the signer of the next statement verifies the keys with them",
    }),
  }),
);
export type SigningKeys = Of<typeof SigningKeys>;

export const signingRoutes = {
  getSigningKeys: defineRoute("getSigningKeys", {
    summary: "Get the public keys that the org's robots trust for releases, including revoked ones, and whether a signature is required",
    tag: "Signing",
    access: "admin",
    responses: { 200: DataOf(SigningKeys) },
  }),
  changeSigningKeys: defineRoute("changeSigningKeys", {
    summary: "Change the signing keys, or whether a signature is required, with a statement signed by a current key",
    tag: "Signing",
    access: "admin",
    body: Shape({
      statement: SignedText,
      start_over: Maybe(
        Type.Boolean({
          description:
            "Accept a statement not signed by a current key, because all keys are lost. Robots that trust the lost keys refuse it until the new key is set on each machine: rf-agent trust-key",
        }),
      ),
    }),
    idempotency: "accepted",
    responses: { 200: DataOf(SigningKeys) },
    errors: [409],
  }),
};
