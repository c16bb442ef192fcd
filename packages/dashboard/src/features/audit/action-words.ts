/** Converts the name of a route or event to words: `getShellRecording` is "Get shell recording", `stream.opened` "Stream opened". */
export function actionWords(action: string): string {
  const words = action
    .replace(/[._]/g, " ")
    .replace(/([a-z\d])([A-Z])/g, "$1 $2")
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
