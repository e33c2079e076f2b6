import { expect, test } from "vitest";

import { Follow } from "./follow";

const END = 1000;

function followingAt(top: number): Follow {
  const follow = new Follow();
  follow.put(top);
  return follow;
}

/** Move a list whose end is at `END`. */
function move(follow: Follow, ...tops: number[]): boolean {
  for (const top of tops) {
    follow.moved(top, END - top);
  }
  return follow.isOn;
}

test("what grows below, however much, doesn't let go", () => {
  const follow = followingAt(200);
  follow.moved(200, 0);
  follow.moved(200, 800);
  expect(follow.isOn).toBe(true);
});

test("what shrinks leaves the list at a nearer end", () => {
  const follow = followingAt(900);
  follow.moved(300, 0);
  expect(follow.isOn).toBe(true);
});

test("the reader's way up lets go, however small its steps", () => {
  expect(move(followingAt(END), END - 3)).toBe(false);
  expect(move(followingAt(END), END - 3, END - 6, END - 9)).toBe(false);
  const follow = followingAt(500);
  for (let step = 1; step <= 8; step += 1) {
    follow.moved(500 - step * 0.75, 400 + step);
  }
  expect(follow.isOn).toBe(false);
});

test("only arriving at the end, or nearly, holds on again", () => {
  const follow = followingAt(END);
  expect(move(follow, 400, 600, 800)).toBe(false);
  expect(move(follow, 970)).toBe(false);
  expect(move(follow, 980)).toBe(true);
  expect(move(follow, 975)).toBe(false);
  expect(move(follow, END)).toBe(true);
});
