import { defineCommand } from "../command.ts";
import { Copier, type CopyResult } from "../copy/copier.ts";
import { parseCopy } from "../copy/copy-place.ts";
import { AGAIN, RobotRefused, ReconnectingSession } from "../copy/file-session.ts";
import { bytes } from "../duration.ts";
import { EXIT } from "../exit-codes.ts";
import { Failure } from "../failure.ts";
import { startProgress } from "../progress.ts";
import { plain } from "../text.ts";

interface Options {
  recursive?: boolean;
}

export const cp = defineCommand<[string, string, Options]>(
  "Copy files from or to a robot. An interrupted copy resumes where it stopped, also when you run the command again. A file appears at its destination only when it is complete and its checksum is valid. An existing file is replaced, as with scp.",
  (command) =>
    command
      .argument(
        "<source>",
        "Path on this machine, or ROBOT:PATH on a robot, where a relative path starts in the home directory of the shell user",
      )
      .argument("<target>", "Destination, a path on this machine or ROBOT:PATH; a file copied into a directory keeps its name")
      .option("-r, --recursive", "Copy directories recursively; links to directories are skipped"),
  async (context, from, to, { recursive = false }) => {
    const { source, target, robot_id } = parseCopy(from, to);
    const client = await context.client();
    const signal = context.interruptible();
    const note = (text: string): void => context.out.note(text);
    const connection = new ReconnectingSession({ client, robot_id, clock: context.clock, signal, note });
    const progress = await startProgress(context.out, context.clock, "Copying", bytes);
    const copier = new Copier({ connection, robot_id, recursive, note, on_progress: (done, total) => progress.update(done, total) });
    try {
      await (source.robot_id === undefined ? copier.send(source, target) : copier.fetch(source, target));
    } catch (error) {
      throw explained(error, signal);
    } finally {
      progress.stop();
      connection.close();
    }
    const { result } = copier;
    await context.out.result({ data: { ...result, sha256: result.files === 1 ? result.sha256 : null } }, () =>
      context.out.line(summary(result)),
    );
    if (result.failed > 0) throw new Failure(EXIT.error, `${result.failed} files were not copied`, { document: undefined });
  },
  ["rf robots cp rob_…:/var/log/nav.log .", "rf robots cp map.pgm rob_…:maps/", "rf robots cp -r rob_…:/etc/nav ./nav-of-arm-1"],
);

function summary({ files, unchanged, bytes: size, moved, sha256 }: CopyResult): string {
  const what = files === 1 && sha256 !== undefined ? `1 file, ${bytes(size)}, sha256 ${sha256}` : `${files} files, ${bytes(size)}`;
  if (files > 0 && files === unchanged) return plain(`${what}: already up to date`);
  return plain(`${what}${moved < size ? `; ${bytes(moved)} transferred` : ""}`);
}

function explained(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return new Failure(EXIT.interrupted, "interrupted", { bare: true, document: undefined, hints: [AGAIN] });
  if (error instanceof RobotRefused) return new Failure(error.code === "not_found" ? EXIT.not_found : EXIT.error, error.message);
  // Nothing was printed yet, so stdout may still contain an error document.
  if (error instanceof Failure && error.document === undefined)
    return new Failure(error.exit_code, error.message, { hints: [...error.hints], bare: error.bare });
  return error;
}
