import type { Hello, Open } from "../types/api";
import type { ServerFrame } from "../types/frames";

/** What a connection asks of its owner and tells it. */
export interface LinkOwner {
  hello(): Hello;
  /** What is followed, the longest unused first. */
  opens(): readonly Open[];
  /** It is open; `hello` and `opens` are asked for next. */
  opened(): void;
  /** The first frame came. */
  ready(): void;
  take(frame: ServerFrame): void;
  /** It is over. `code`: of the WebSocket, or 1006. */
  closed(code: number): void;
}
