import { generateKeyPairSync } from "node:crypto";
import { chmod, writeFile } from "node:fs/promises";
import path from "node:path";
import { keyIdOf, publicKeyOf } from "@roamfleet/protocol/signatures";
import type { Body } from "@roamfleet/sdk";
import { Argument } from "commander";
import { defineCommand, requestCommand } from "../command.ts";
import type { Context } from "../context.ts";
import { relative } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { changeSigningKeys, KNOWN_FLAG, KNOWN_HELP, readPublicKey, type StatementOptions } from "../signing-key.ts";
import { line } from "../text.ts";

const create = defineCommand<[string]>(
  "Create a key that signs releases, on this machine. The service never sees the private key.",
  (command) => command.argument("<file>", "File for the private key; the public key is written beside it, with .pub"),
  async (context, file) => {
    const { out } = context;
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    await writeNew(file, privateKey.export({ type: "pkcs8", format: "pem" }).toString(), 0o600);
    await writeNew(`${file}.pub`, publicKey.export({ type: "spki", format: "pem" }).toString(), 0o644);
    const public_key = publicKeyOf(publicKey);
    const data = { id: keyIdOf(public_key), public_key, file, public_file: `${file}.pub` };
    await out.result({ data }, () => {
      out.details([
        ["ID", data.id],
        ["Private key", data.file],
        ["Public key", data.public_file],
      ]);
      out.note("Anyone with the private key can sign releases: do not store it on the service, and keep a backup.");
      out.line(line`\nTo trust the key, run: rf signing-keys add ${data.public_file} --sign ${file}`);
    });
  },
  ["rf signing-keys new release-key.pem"],
);
export { create as new };

/** Writes a new file. Throws if the file exists, because an overwritten key cannot be recreated. */
async function writeNew(file: string, content: string, mode: number): Promise<void> {
  try {
    await writeFile(file, content, { flag: "wx", mode });
    await chmod(file, mode);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST")
      throw usage(`${file} already exists`, "Choose another file name.");
    throw error;
  }
}

export const list = requestCommand(
  undefined,
  () => {},
  (client) => client.getSigningKeys(),
  showSigningKeys,
);

async function showSigningKeys({ data }: Body<"getSigningKeys">, { out, now }: Context): Promise<void> {
  const { require_signature, keys } = data;
  if (keys.length === 0) return out.note("No signing keys yet. Create one: rf signing-keys new <file>");
  await out.table(keys, [
    { title: "ID", value: ({ id }) => id },
    { title: "NAME", value: ({ name }) => name },
    { title: "STATUS", value: ({ revoked_at }) => out.status(revoked_at === null ? "active" : "revoked") },
    { title: "ADDED", value: ({ added_at }) => relative(added_at, now()) },
    { title: "REVOKED", value: ({ revoked_at }) => (revoked_at === null ? "–" : relative(revoked_at, now())) },
    { title: "PUBLIC KEY", value: ({ public_key }) => public_key, wide: true },
  ]);
  out.note(
    require_signature ? "Signatures are required." : "Signatures are optional. Require them: rf signing-keys require on --sign <key>",
  );
}

export const add = defineCommand<[string, StatementOptions & { name?: string }]>(
  "Trust another key for signing releases. A currently trusted key must sign the change; the first key signs its own addition.",
  (command) =>
    command
      .argument("<public-key>", "PEM file of the new key; the private key is not needed")
      .requiredOption("--sign <key>", "PEM file of a currently trusted private key")
      .option(KNOWN_FLAG, KNOWN_HELP)
      .option("--name <name>", "Name of the new key (default: the file name)")
      .option(
        "--start-over",
        "If all trusted keys are lost: trust only the new key. Each robot that trusts the lost keys must then be reset locally, on the robot",
      ),
  async (context, file, options) => {
    const public_key = await readPublicKey(file);
    const name = options.name ?? path.basename(file).replace(/(?:\.pem)?(?:\.pub)?$/, "");
    const answer = await changeSigningKeys(context, options, {
      keys: (before) => {
        if (before.some((key) => key.public_key === public_key)) throw usage("this key is already trusted");
        return [...before, { name, public_key }];
      },
    });
    await context.out.result(answer, () => showSigningKeys(answer, context));
  },
  ["rf signing-keys add release-key.pem.pub --sign release-key.pem", "rf signing-keys add new.pem.pub --sign release-key.pem"],
);

export const revoke = defineCommand<[string, StatementOptions]>(
  "Revoke a key. Robots receive the change before they install anything else; releases signed only by it are refused.",
  (command) =>
    command
      .argument("<id>", "ID of the key, as listed by `rf signing-keys list`")
      .requiredOption("--sign <key>", "PEM file of a currently trusted private key; if the revoked key was stolen, pass another key")
      .option(KNOWN_FLAG, KNOWN_HELP),
  async (context, id, options) => {
    const answer = await changeSigningKeys(context, options, {
      keys: (before) => {
        const rest = before.filter(({ public_key }) => keyIdOf(public_key) !== id);
        if (rest.length < before.length) return rest;
        throw new Failure(EXIT.not_found, `no trusted key has the id ${id}`, { hints: ["`rf signing-keys list` shows the ids."] });
      },
    });
    await context.out.result(answer, () => showSigningKeys(answer, context));
  },
  ["rf signing-keys revoke 3f0c… --sign new.pem", "rf signing-keys revoke 3f0c… --sign new.pem --known 3f0c…"],
);

const requireSignatures = defineCommand<[string, StatementOptions]>(
  "Require signed releases, or turn the requirement off. A currently trusted key must sign this change.",
  (command) =>
    command
      .addArgument(new Argument("<on|off>", "Whether a signature is required").choices(["on", "off"]))
      .requiredOption("--sign <key>", "PEM file of a currently trusted private key")
      .option(KNOWN_FLAG, KNOWN_HELP),
  async (context, on, options) => {
    const change = { require_signature: on === "on" };
    const answer = await changeSigningKeys(context, options, change);
    await context.out.result(answer, () => showSigningKeys(answer, context));
  },
  ["rf signing-keys require on --sign release-key.pem"],
);
export { requireSignatures as require };
