import { expect, test } from "vitest";
import { SseParser } from "../src/sse";

const stream = ': keep-alive\n\ndata: {"a":1}\n\ndata: x\ndata: y\n\ndata: [DONE]\n\n';
const payloads = ['{"a":1}', "x\ny", "[DONE]"];

test("every cut of a stream gives the same payloads", () => {
  for (let cut = 0; cut <= stream.length; cut++) {
    const parser = new SseParser();
    expect([...parser.feed(stream.slice(0, cut)), ...parser.feed(stream.slice(cut))]).toEqual(payloads);
  }
});

test("an unfinished event waits", () => {
  const parser = new SseParser();
  expect(parser.feed("data: half")).toEqual([]);
  expect(parser.feed("\n\n")).toEqual(["half"]);
});
