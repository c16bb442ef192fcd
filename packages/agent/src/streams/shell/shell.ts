import fs from "node:fs";
import path from "node:path";
import { type Channel, CLOSE_NOT_AVAILABLE, controlMessage, dataMessage, readMessage } from "@roamfleet/protocol/link";
import type { Clock } from "@roamfleet/clock";
import { engineMessage } from "../../runtime/docker/engine.ts";
import { type CheckedParams, isSize, type Terminal } from "./terminal.ts";
import type { RobotConfig } from "../../config-file/robot-config.ts";
import type { AppPlace } from "../../contract.ts";
import { SHELL_VARIABLE } from "../../runtime/processes.ts";
import { ContainerTerminal } from "./container-terminal.ts";
import { PipedTerminal } from "./piped.ts";
import { PtyTerminal } from "./pty.ts";
import { findShellUser, ShellRefused } from "./shell-user.ts";
import type { RunAs } from "../../runtime/users.ts";
import { findProgram } from "../../runtime/spawn-child.ts";

/** Runs one shell on its channel, from its start until all of its processes are gone. Never throws. */
export async function runShell(seams: ShellSeams, channel: Channel, params: CheckedParams): Promise<void> {
  let terminal: Terminal;
  try {
    terminal = await openTerminal(seams, params);
  } catch (error) {
    return channel.reset(CLOSE_NOT_AVAILABLE, engineMessage(error) || "the shell could not be started");
  }
  // Disconnecting ends the shell, even if nothing is printed or typed.
  const left = channel.ended.then(() => terminal.close());
  // The promise is awaited below, possibly after it has failed: this handler prevents an unhandled rejection.
  left.catch(() => {});
  const typing = takeInput(channel, terminal);
  await sendOutput(channel, terminal);
  await terminal.close();
  await Promise.all([left, typing]);
}

/**
 * Sends output as fast as the other end reads. While the channel has no credit, output waits in the program's
 * pipe or terminal.
 */
async function sendOutput(channel: Channel, terminal: Terminal): Promise<void> {
  for (let output = await terminal.read(); output !== undefined; output = await terminal.read()) {
    const message = output.error
      ? controlMessage({ type: "stderr", data: Buffer.from(output.bytes).toString("base64") })
      : dataMessage(output.bytes);
    if (!(await channel.write(message))) return;
  }
  if (!(await channel.write(controlMessage({ type: "exit", ...(await terminal.exited) })))) return;
  channel.close(1000, "");
}

async function takeInput(channel: Channel, terminal: Terminal): Promise<void> {
  try {
    for await (const message of channel) {
      const { data, control } = readMessage(message);
      if (data !== undefined) await terminal.write(data);
      else if (control.type === "eof") terminal.endInput();
      else if (control.type === "resize" && isSize(control["cols"]) && isSize(control["rows"]))
        terminal.resize(control["cols"], control["rows"]);
    }
  } catch {
    channel.reset(CLOSE_NOT_AVAILABLE, "the message to the shell is invalid");
  }
}

export interface ShellSeams {
  clock: Clock;
  shell: RobotConfig["shell"];
  /**
   * Returns true while signed releases are required. Then shells run as a user other than the agent's own,
   * and not in an app's container or directory.
   */
  is_confined: () => boolean;
  state_directory: string;
  /** Environment variables that programs inherit from the agent, such as PATH and the locale. */
  environment: Readonly<Record<string, string>>;
  /** Returns where an app runs; undefined if it does not run. */
  place: (app: string) => AppPlace | undefined;
}

const SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** Command that starts bash if the container has it, otherwise sh. */
const SHELL_IN_CONTAINER = ["/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -l; exec sh -l"];
/** Names of the variables that a shell of another user gets from the agent's environment. */
const LOCALE = /^(LANG|LANGUAGE|LC_\w+|TZ)$/;

/**
 * Starts the program that the request asks for. Throws ShellRefused, or an error that states why the program
 * could not be started.
 */
async function openTerminal(seams: ShellSeams, params: CheckedParams): Promise<Terminal> {
  const { app, command, terminal: tty, term, cols, rows } = params;
  const { clock } = seams;
  const is_confined = seams.is_confined();
  if (is_confined && app !== undefined)
    throw new ShellRefused("this robot runs signed releases only: no shell is opened where an app runs, since it could change the app");
  const place = app === undefined ? undefined : seams.place(app);
  if (app !== undefined && place === undefined) throw new ShellRefused(`the app ${app} is not running on the robot`);
  if (place !== undefined && "container" in place)
    return ContainerTerminal.open({ ...place.container, argv: command ?? SHELL_IN_CONTAINER, tty, term, cols, rows, clock });
  const user = await findShellUser(seams.shell.user, {
    environment: seams.environment,
    kept_from: is_confined ? seams.state_directory : undefined,
  });
  const env = environmentOf(seams, user, place?.env, tty ? term : undefined);
  const cwd = place?.directory ?? (fs.existsSync(user.home) ? user.home : "/");
  const words = command ?? seams.shell.command ?? [user.shell, "-l"];
  const program = findProgram(words[0] ?? "", env["PATH"] ?? SEARCH, cwd);
  const argv =
    program === undefined
      ? ["/bin/sh", "-c", 'printf "%s: command not found\\n" "$0" >&2; exit 127', words[0] ?? ""]
      : [program, ...words.slice(1)];
  const started = { argv: [...user.become, ...argv], cwd, env, clock };
  if (!tty) return new PipedTerminal(started);
  return new PtyTerminal({ ...started, cols, rows, owner: user.become.length === 0 ? undefined : user.uid });
}

function environmentOf(
  { environment }: ShellSeams,
  user: RunAs,
  app_environment: Readonly<Record<string, string>> | undefined,
  term: string | undefined,
): Record<string, string> {
  const own = user.become.length === 0;
  const base = own ? environment : Object.fromEntries(Object.entries(environment).filter(([name]) => LOCALE.test(name)));
  const env: Record<string, string> = {
    // The agent's service has no locale. Without one, most programs would show only ASCII characters.
    LANG: "C.UTF-8",
    ...base,
    ...app_environment,
    PATH: app_environment?.["PATH"] ?? base["PATH"] ?? SEARCH,
    HOME: user.home,
    USER: user.name,
    LOGNAME: user.name,
    SHELL: user.shell,
    [SHELL_VARIABLE]: "1",
  };
  // Remove variables that describe the terminal in which the agent itself was started.
  for (const name of ["TERM", "TERMCAP", "COLUMNS", "LINES", "TMUX", "TMUX_PANE", "STY", "WINDOW", "PWD", "OLDPWD"]) delete env[name];
  if (term !== undefined) env["TERM"] = isKnown(term) ? term : "xterm-256color";
  return env;
}

/**
 * Returns whether the robot has a description of this kind of terminal. Programs refuse to start on an
 * unknown kind.
 */
const isKnown = (term: string): boolean =>
  ["/etc/terminfo", "/lib/terminfo", "/usr/share/terminfo"].some((place) => fs.existsSync(path.join(place, term.slice(0, 1), term)));
