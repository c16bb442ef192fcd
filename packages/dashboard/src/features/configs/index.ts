export { FleetPending, RobotPending } from "./pending-badge.tsx";
