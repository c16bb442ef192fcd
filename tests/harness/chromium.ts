import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import type { Page } from "playwright-core";

/** Path of Chromium, or undefined if it is not installed. */
export const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((file) => existsSync(file));

/** Signs the page's browser profile in with the token, like the sign-in page. The page does not navigate. */
export async function signIn(page: Page, token: string): Promise<void> {
  const response = await page.request.post("/api/auth/session", { headers: { authorization: `Bearer ${token}` }, data: {} });
  assert.ok(response.ok(), `signing in was answered ${response.status()}`);
}
