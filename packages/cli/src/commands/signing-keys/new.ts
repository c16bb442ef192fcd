import { generateKeyPairSync } from "node:crypto";
import { chmod, writeFile } from "node:fs/promises";
import { keyIdOf, publicKeyOf } from "@roamfleet/protocol/signatures";
import { addExamples, type Define } from "../../command.ts";
import type { Context } from "../../context.ts";
import { usage } from "../../failure.ts";
import { line } from "../../text.ts";

export const define: Define = (command, act) => {
  command
    .description("Create a key that signs releases, on this machine. The service never sees the private key.")
    .argument("<file>", "File for the private key; the public key is written beside it, with .pub")
    .action(act<[string]>(run));
  addExamples(command, ["rf signing-keys new release-key.pem"]);
};

async function run(context: Context, file: string): Promise<void> {
  const { out } = context;
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  await writeNew(file, privateKey.export({ type: "pkcs8", format: "pem" }).toString(), 0o600);
  await writeNew(`${file}.pub`, publicKey.export({ type: "spki", format: "pem" }).toString(), 0o644);
  const public_key = publicKeyOf(publicKey);
  const data = { id: keyIdOf(public_key), public_key, file, public_file: `${file}.pub` };
  await out.result({ data }, () => {
    out.details([
      ["Id", data.id],
      ["Private key", data.file],
      ["Public key", data.public_file],
    ]);
    out.note("Anyone with the private key can sign releases: do not store it on the service, and keep a backup.");
    out.line(line`\nTrust it: rf signing-keys add ${data.public_file} --sign ${file}`);
  });
}

/** Never overwrites an existing key, because a lost key cannot be recreated. */
async function writeNew(file: string, content: string, mode: number): Promise<void> {
  try {
    await writeFile(file, content, { flag: "wx", mode });
    await chmod(file, mode);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") throw usage(`${file} already exists`, "Name another file.");
    throw error;
  }
}
