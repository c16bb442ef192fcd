/** Pattern of the numbers of a version, without a suffix such as `-rc.1`. */
export const VERSION_NUMBERS_PATTERN = "^[0-9]{1,9}\\.[0-9]{1,9}\\.[0-9]{1,9}$";

/** Returns the numbers of a version, `1.2.3` of `1.2.3-rc.1`; undefined if it has no three numbers. */
export const versionNumbers = (version: string): string | undefined => /^\d{1,9}\.\d{1,9}\.\d{1,9}(?![\d.])/.exec(version)?.[0];

/**
 * Whether an agent is older than the version that the server hosts. False if one of them is unknown. Compares the numbers only, like the
 * filter `agent_older_than` of the robots.
 */
export function isOutdatedAgent(version: string | null, hosted: string | null | undefined): boolean {
  const [own, other] = [version, hosted].map((text) =>
    versionNumbers(text ?? "")
      ?.split(".")
      .map(Number),
  );
  if (own === undefined || other === undefined) return false;
  const at = own.findIndex((number, index) => number !== other[index]);
  return at !== -1 && (own[at] ?? 0) < (other[at] ?? 0);
}
