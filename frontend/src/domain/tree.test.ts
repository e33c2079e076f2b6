import { describe, expect, it } from "vitest";

import type { MessageOut } from "../types/api";
import { message } from "./samples";
import { Tree } from "./tree";

/** Rows given as "id" or "id<parent", numbered in this order. */
function rows(...names: string[]): Map<string, MessageOut> {
  return new Map(
    names.map((name, index) => {
      const [id = "", parent] = name.split("<");
      return [id, message(id, { parent_id: parent ?? null, number: index + 1 })];
    }),
  );
}

const ids = (path: readonly MessageOut[]) => path.map(({ id }) => id);

describe("a tree", () => {
  const messages = rows("u1", "a1<u1", "a2<u1", "u2<a1", "u3<a1", "a3<u3", "v1");
  const tree = new Tree(messages);

  it("has paths from the first message to a leaf", () => {
    expect(ids(tree.path("a3"))).toEqual(["u1", "a1", "u3", "a3"]);
    expect(ids(tree.path("v1"))).toEqual(["v1"]);
    expect(tree.path(null)).toEqual([]);
    expect(tree.path("nobody")).toEqual([]);
  });

  it("has siblings in the order of their numbers, first messages too", () => {
    expect(tree.siblings("a2")).toEqual(["a1", "a2"]);
    expect(tree.siblings("u3")).toEqual(["u2", "u3"]);
    expect(tree.siblings("u1")).toEqual(["u1", "v1"]);
    expect(tree.siblings("nobody")).toEqual([]);
  });

  it("ends a branch at its newest messages", () => {
    expect(tree.leafBelow("u1")).toBe("a2");
    expect(tree.leafBelow("a1")).toBe("a3");
    expect(tree.leafBelow("v1")).toBe("v1");
  });

  it("doesn't depend on the order in which rows came", () => {
    const other = new Tree(new Map([...messages].reverse()));
    expect(ids(other.path("a3"))).toEqual(ids(tree.path("a3")));
    expect(other.siblings("a1")).toEqual(tree.siblings("a1"));
  });
});

describe("what is deleted", () => {
  const messages = rows("u1", "a1<u1", "u2<a1");
  messages.set("u2", message("u2", { parent_id: "a1", number: 3, is_deleted: true, parts: [] }));

  it("isn't there, and a leaf that was deleted gives way to what stood before", () => {
    const tree = new Tree(messages);
    expect(tree.has("u2")).toBe(false);
    expect(tree.children("a1")).toEqual([]);
    expect(ids(tree.path("u2"))).toEqual(["u1", "a1"]);
  });

  it("takes what hangs below it along", () => {
    const tree = new Tree(new Map([...messages, ...rows("x", "x", "x", "a2<u2")]));
    expect(tree.has("a2")).toBe(false);
  });
});

it("parents in a circle can't hold it up", () => {
  const messages = rows("a<b", "b<a");
  const tree = new Tree(messages);
  expect(tree.path("a")).toEqual([]);
  expect(tree.leafBelow("a")).toBe("a");
});
