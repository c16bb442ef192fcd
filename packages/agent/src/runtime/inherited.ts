/** The environment variables that workloads inherit from the agent; docs/guide/deploying.md lists them. */
const INHERITED = /^(PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_[A-Z]+|TZ)$/;

/** Returns the part of the children's environment that workloads get: no credentials of a proxy, a cloud or the service manager. */
export const inheritedByWorkloads = (environment: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => INHERITED.test(name)));
