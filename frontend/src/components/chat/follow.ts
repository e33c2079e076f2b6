/** Whether a list that grows is followed to its end: pure arithmetic on CSS pixels. */

/** This near to the end, going down arrives there. */
const NEAR_PX = 24;
const ROUNDING_PX = 1;

/** Follows from the beginning; only the reader's way up lets go, only arriving holds on again.

    How far away the end is says nothing alone: it moves whenever something grows. */
export class Follow {
  isOn = true;
  #from = 0;

  /** The list was put there. */
  put(top: number): void {
    this.#from = top;
  }

  /** The list was scrolled, by whomever; `left`: what is below the window. */
  moved(top: number, left: number): void {
    const isUp = top < this.#from - ROUNDING_PX;
    const isDown = top > this.#from;
    const isThere = left <= ROUNDING_PX || (isDown && left <= NEAR_PX);
    this.isOn = isThere || (this.isOn && !isUp);
    // Up in steps too small to see one by one is up, too.
    this.#from = this.isOn && !isThere ? Math.max(top, this.#from) : top;
  }
}
