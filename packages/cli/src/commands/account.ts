import { ApiError, type Client, Unreachable } from "@roamfleet/sdk";
import { defineCommand } from "../command.ts";
import { DEFAULT_BASE_URL } from "../config.ts";
import type { Context } from "../context.ts";
import { credentialsPath, isToken, loginTarget, saveCredentials } from "../credentials.ts";
import { relative } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure, usage } from "../failure.ts";
import { checkedAddress, removeProfile } from "./profiles.ts";
import { askSecret } from "../secret.ts";
import { line, plain } from "../text.ts";
import { deleteFile } from "../toml-file.ts";
import { chooseAuthority, isExposed, savePin, type Transport, transportTo, type TrustOptions } from "../trust.ts";

interface Options extends TrustOptions {
  /** The token to log in with; false if the user passed --no-token. */
  token?: string | false;
  allowInsecureHttp?: boolean;
}

export const login = defineCommand<[Options]>(
  `Save a token and the address of the service (--base-url, default ${DEFAULT_BASE_URL}) to the credentials file. ` +
    "Without --token, rf prompts for the token or, without a terminal, reads it from stdin. " +
    "The token is verified first, and not saved if the service refuses it. " +
    "With --no-token, only the service's address and certificate authority are saved; use this if the service has no org yet.",
  (command) =>
    command
      .option("--token <token>", "Token; prefer the prompt or a pipe, because other users can see command arguments")
      .option("--no-token", "Save only the service's address and certificate authority")
      .option("--fingerprint <sha256:…>", "Trust the server's own certificate authority, identified by this fingerprint")
      .option("--ca-file <file>", "Trust only the certificate authority in this PEM file")
      .option("--allow-insecure-http", "Allow sending the token to another machine over plain http, where it can be read in transit"),
  async (context, options) => {
    const file = credentialsPath(context.environment);
    const { profile, base_url } = await loginTarget(context.flags, context.environment);
    const client_url = checkedAddress(base_url);
    const known = await transportTo(client_url, context.flags, context.environment).catch(() => undefined);
    const pin = await chooseAuthority(client_url, known?.pin, options, (text) => context.out.note(plain(text)));
    const insecure_http = options.allowInsecureHttp === true || known?.insecure_http === true;
    const token = options.token === false ? undefined : checkToken(options.token ?? (await askSecret("Token")), client_url);
    const check = token === undefined ? {} : await checkLogin(await clientOf(context, client_url, token, { pin, insecure_http }));
    if (pin !== undefined) await savePin(context.environment, pin);
    await saveCredentials(file, profile, {
      token,
      base_url: client_url,
      ca_fingerprint: pin?.fingerprint,
      insecure_http: insecure_http && isExposed(client_url) ? "allowed" : undefined,
    });
    const saved = {
      base_url: client_url,
      file,
      profile: profile ?? null,
      checked: check.who !== undefined,
      ca_fingerprint: pin?.fingerprint ?? null,
    };
    if (check.warning !== undefined) context.out.note(line`warning: ${check.warning}; the token was saved without verification`);
    if (token !== undefined && isExposed(client_url))
      context.out.note("warning: the address is http://, so the token can be read in transit; use https://");
    const place = profile === undefined ? file : `${file}, profile ${profile}`;
    await context.out.result({ data: saved }, () => {
      context.out.line(
        check.who === undefined
          ? line`Saved to ${place} for ${client_url}.${token === undefined ? " No token yet: create an org with `rf orgs create <name>`, or log in with `rf login`." : ""}`
          : line`Logged in to ${client_url} as ${check.who}. Saved to ${place}.`,
      );
    });
  },
  [
    "rf login",
    "rf login --base-url https://fleet.example.org < token.txt",
    "rf login --profile lab --base-url https://lab.example.org",
    "rf login --base-url https://192.168.1.20:7600 --fingerprint sha256:9f86d0…",
    "rf login --base-url https://127.0.0.1:7600 --no-token",
  ],
);

const clientOf = (context: Context, base_url: string, token: string, transport: Transport): Promise<Client> =>
  context.connect({ base_url, token, org_id: context.flags.org ?? context.environment.org, retries: 0, transport });

function checkToken(text: string, base_url: string): string {
  const token = text.trim();
  if (token === "") {
    throw usage(
      "no token was given",
      "Pass --token TOKEN, pipe it in, or run `rf login` on a terminal.",
      `No org yet? \`rf login --base-url ${base_url} --no-token\` saves only the address; then run: rf orgs create NAME`,
    );
  }
  if (!isToken(token)) throw usage("not a valid token: it contains spaces or invalid characters");
  return token;
}

/**
 * Returns the token's owner, or a warning if the service did not confirm it. Throws if the service refuses the token, or for a connection
 * error that a retry cannot fix; the caller then saves nothing.
 */
async function checkLogin(client: Client): Promise<{ who?: string; warning?: string }> {
  try {
    const { data } = await client.getMe();
    return { who: `${data.actor.name ?? data.actor.id} (${data.org.role} of ${data.org.name})` };
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      const hints = ["The saved credentials were not changed."];
      throw new Failure(EXIT.auth, `the service refused this token: ${error.message}`, { hints, document: error.body, cause: error });
    }
    // A refused certificate will be refused later too, so the address is not saved.
    if (error instanceof Unreachable && !error.passing) throw error;
    if (error instanceof ApiError || error instanceof Unreachable) return { warning: error.message };
    return { warning: "the service returned an unexpected response" };
  }
}

export const logout = defineCommand<[]>(
  "Delete the credentials file with all its profiles; with --profile, delete only that profile. Tokens stay valid on the service.",
  (command) => command,
  async (context) => {
    const file = credentialsPath(context.environment);
    const { profile } = context.flags;
    if (profile !== undefined) {
      await removeProfile(file, profile);
      return context.out.result({ data: { file, profile, deleted: true } }, () =>
        context.out.line(line`Deleted profile ${profile} from ${file}. Its token stays valid until it is revoked.`),
      );
    }
    const deleted = await deleteFile(file);
    await context.out.result({ data: { file, deleted } }, () => {
      context.out.line(deleted ? line`Deleted ${file}. The token stays valid until it is revoked.` : "You were not logged in.");
      if (context.environment.token !== undefined) context.out.note("ROAMFLEET_TOKEN is still set, so commands still use that token.");
    });
  },
);

export const whoami = defineCommand<[]>(
  undefined,
  () => {},
  async (context) => {
    const client = await context.client();
    const answer = await client.getMe();
    const { actor, token, org, orgs } = answer.data;
    await context.out.result(answer, () => {
      const { out } = context;
      out.details([
        ["Account", actor.name === null ? actor.id : line`${actor.name} (${actor.id})`],
        ["Token", `${token.prefix}…${token.label === null ? "" : ` ${token.label}`}`],
        ["Expires", relative(token.expires_at, context.now())],
        ["Org", `${org.name} (${org.id})`],
        ["Role", org.role],
        ["Service", client.base_url],
      ]);
      for (const other of orgs) if (other.id !== org.id) out.line(line`Also ${other.role} of ${other.name}: use --org ${other.id}`);
    });
  },
);
