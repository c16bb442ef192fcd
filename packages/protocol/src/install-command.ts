/** The parts of the command; the server sends them in `GET /api/packages`. */
interface Parts {
  server: string | null;
  script_sha256: string;
  ca_fingerprint: string | null;
}

/** Quotes a word that a shell would otherwise change, such as an IPv6 address in brackets. */
const shellWord = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`);

/**
 * Returns the shell command that installs the agent on a robot and enrolls it. `server` is the address of the server as robots use it.
 *
 * If the server has its own authority, programs on a robot cannot verify its certificate. In that case the command verifies the script's
 * SHA-256 before it runs the script, and the script verifies the authority's fingerprint before it downloads anything else.
 */
export function installCommand({ server: in_script, script_sha256, ca_fingerprint }: Parts, server: string, key: string): string {
  const script = shellWord(`${server}/install.sh`);
  const options = [`--enroll-key ${shellWord(key)}`, ...(server === in_script ? [] : [`--server ${shellWord(server)}`])];
  if (ca_fingerprint === null) return `curl -fsSL ${script} | sudo sh -s -- ${options.join(" ")}`;
  return [
    `curl -kfsSo install.sh ${script}`,
    `echo "${script_sha256}  install.sh" | sha256sum -c`,
    `sudo sh install.sh ${[...options, `--ca-fingerprint ${ca_fingerprint}`].join(" ")}`,
  ].join(" && ");
}
