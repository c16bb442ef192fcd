import { type Channel, CLOSE_NOT_AVAILABLE, controlMessage, dataMessage, readMessage } from "@roamfleet/protocol/link";
import { engineMessage } from "../../runtime/docker/engine.ts";
import { openTerminal, type ShellSeams } from "./open-terminal.ts";
import { type CheckedParams, isSize } from "./params.ts";
import type { Terminal } from "./terminal.ts";

/** Runs one shell on its channel, from its start until all of its processes are gone. Never throws. */
export async function runShell(seams: ShellSeams, channel: Channel, params: CheckedParams): Promise<void> {
  let terminal: Terminal;
  try {
    terminal = await openTerminal(seams, params);
  } catch (error) {
    return channel.reset(CLOSE_NOT_AVAILABLE, engineMessage(error) || "the shell could not be started");
  }
  // Even while nothing is printed or typed: disconnecting ends the shell.
  const left = channel.ended.then(() => terminal.close());
  // Awaited below, possibly after it has failed.
  left.catch(() => {});
  const typing = takeInput(channel, terminal);
  await sendOutput(channel, terminal);
  await terminal.close();
  await Promise.all([left, typing]);
}

/** Sends output as fast as the other end reads: without credit it stays in the program's pipe or terminal. */
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
