/** Loaded before a program whose memory is measured, ours and the limit alike: SIGUSR2 makes it collect its garbage and give pages back. */
process.on("SIGUSR2", () => {
  for (let i = 0; i < 3; i += 1) globalThis.gc?.({ type: "major", execution: "sync", flavor: "last-resort" });
});
