export { NewFleet } from "./new-fleet.tsx";
