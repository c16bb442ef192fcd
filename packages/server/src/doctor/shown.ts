const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** Formats `1.5 GiB`. */
export function shownBytes(bytes: number): string {
  const at = Math.min(UNITS.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, bytes)) / 10)));
  const value = bytes / 1024 ** at;
  return `${at === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[at]}`;
}

/** Formats `0.4 ms`, `12 ms`, `3.2 s`, `5 min`. */
export function shownTime(ms: number): string {
  const size = Math.abs(ms);
  if (size < 10) return `${ms.toFixed(1)} ms`;
  if (size < 1_000) return `${Math.round(ms)} ms`;
  return size < 120_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`;
}

const SAID_CHARACTERS_MAX = 300;

/** Returns the first line of another program's error message, without the secrets. */
export function said(error: unknown, secrets: readonly string[]): string {
  const { message = "", code } = error instanceof Error ? (error as Error & { code?: unknown }) : { message: String(error) };
  // A host name with several addresses fails with an AggregateError, which has no message.
  const inner = error instanceof AggregateError ? (error.errors as unknown[]).find((one) => one instanceof Error) : undefined;
  if (message === "" && inner !== undefined) return said(inner, secrets);
  const line = message.split("\n", 1)[0]?.slice(0, SAID_CHARACTERS_MAX) || (typeof code === "string" ? code : "no reason was given");
  return secrets.reduce((text, secret) => (secret === "" ? text : text.replaceAll(secret, "[secret]")), line);
}

/** Returns a URL without user, password and parameters, for a report. */
export function shownUrl(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null) return "a URL that cannot be read";
  return `${parsed.protocol}//${parsed.host}${parsed.pathname}`;
}

/** Returns the parts of a database URL that must not be shown, encoded and decoded, the longest first. */
export function secretsOf(url: string | undefined): string[] {
  const parsed = URL.parse(url ?? "");
  const written = [/^[a-z]+:\/\/[^@/?#]*?:([^@]*)@/i.exec(url ?? "")?.[1], parsed?.password, parsed?.searchParams.get("password")];
  const known = written.flatMap((secret) => (secret == null || secret === "" ? [] : [secret, decode(secret)]));
  return [...new Set(known)].toSorted((a, b) => b.length - a.length);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
