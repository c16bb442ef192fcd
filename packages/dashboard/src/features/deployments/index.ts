export { reasonText, waitingText } from "./reasons.ts";
