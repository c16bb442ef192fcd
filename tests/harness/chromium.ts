import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import type { Page } from "playwright-core";

/** Its program, or undefined where it is not installed. */
export const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((file) => existsSync(file));

/** Turns the token into the session of the page's browser profile, as the sign-in page does. The page itself stays where it is. */
export async function signIn(page: Page, token: string): Promise<void> {
  const response = await page.request.post("/api/auth/session", { headers: { authorization: `Bearer ${token}` }, data: {} });
  assert.ok(response.ok(), `signing in was answered ${response.status()}`);
}
