// Evaluates the origin's own fold. Reads one JSON object a line, {events, texts}, and answers each with one line:
// {whole, pushed}, the selected content or null. `texts` are pushed raw, after the event at the same place.
// Usage: node origin_fold.mjs FOLDER_OF_THE_PACKAGE < sequences.ndjson
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const entry = pathToFileURL(join(process.argv[2], "lib", "index.js"));
const { AssistantOutputFold, finalAssistantOutput } = await import(entry.href);

const out = [];
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const { events, texts } = JSON.parse(line);
  const fold = new AssistantOutputFold();
  events.forEach((event, at) => {
    fold.push(event);
    if (texts[at] !== null) fold.pushText(texts[at]);
  });
  out.push(JSON.stringify({ whole: finalAssistantOutput(events) ?? null, pushed: fold.collect() ?? null }));
}
process.stdout.write(out.join("\n") + "\n");
