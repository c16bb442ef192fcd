import { ApiError, type Client } from "@roamfleet/sdk";
import type { Command } from "commander";
import type { Context } from "./context.ts";
import { EXIT } from "./exit-codes.ts";
import { Failure } from "./failure.ts";
import { askSecret } from "./secret.ts";

export interface AdminOption {
  adminToken?: string;
}

export const adminOption = (command: Command): Command =>
  command.option(
    "--admin-token <token>",
    "The service's SERVICE_ADMIN_TOKEN; - prompts for it or reads stdin (default: ROAMFLEET_ADMIN_TOKEN)",
  );

/** Runs `work` as the service's administrator. A service in open mode needs no token. */
export async function asAdmin<T>(context: Context, options: AdminOption, work: (client: Client) => Promise<T>): Promise<T> {
  const given = options.adminToken === "-" ? (await askSecret("Admin token")).trim() : options.adminToken;
  const admin_token = given ?? context.environment.admin_token;
  const { base_url } = await context.access();
  try {
    return await work(await context.connect({ base_url, admin_token }));
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 401 && error.status !== 403)) throw error;
    const hint =
      admin_token === undefined
        ? "Set ROAMFLEET_ADMIN_TOKEN to the server's SERVICE_ADMIN_TOKEN."
        : "It must be the server's SERVICE_ADMIN_TOKEN.";
    throw new Failure(EXIT.auth, error.message, { hints: [hint], document: error.body, cause: error });
  }
}
