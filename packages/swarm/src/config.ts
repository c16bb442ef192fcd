/** The enrollment key of `roamfleet swarm`. This file is the only reader of the environment. */
export const readEnrollKey = (env: NodeJS.ProcessEnv = process.env): string | undefined => env.ROAMFLEET_ENROLL_KEY || undefined;
