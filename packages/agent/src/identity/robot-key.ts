/** The key with which the robot proves its identity. The private half is created on the robot and never leaves it. */
export interface RobotKey {
  /** Where the private key is: in a file of the state directory, or in the robot's TPM. */
  readonly place: "file" | "tpm";
  /** Base64 of the raw public key: 32 bytes of an Ed25519 key in a file, 65 bytes of a P-256 key in a TPM. */
  readonly public_key: string;
  /** Signs the UTF-8 bytes of `text` and returns the signature in base64. Rejects if the TPM cannot sign. */
  sign(text: string): Promise<string>;
}

/** Where a robot that has no key yet makes one. `auto`: in the TPM if the robot has one and tpm2-tools, otherwise in a file. */
export const TPM_MODES = ["auto", "required", "off"] as const;
export type TpmMode = (typeof TPM_MODES)[number];
