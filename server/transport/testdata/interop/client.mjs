// What the npm package "ws" sees of the server at process.argv[2], one line of
// JSON for each case.
import WebSocket from "ws";

const url = process.argv[2];

function open(name, protocols = ["rollcall.v1", "bearer.abc"]) {
  const ws = new WebSocket(`${url}?case=${name}`, protocols, { perMessageDeflate: true });
  const inbox = [];
  let wake = () => {};
  const push = (v) => {
    inbox.push(v);
    wake();
  };
  ws.on("message", (data) => push(data.toString()));
  ws.on("pong", (data) => push(`pong ${data}`));
  ws.on("error", (err) => push(`error ${err.message}`));
  const closed = new Promise((resolve) => ws.on("close", (code, reason) => resolve(`${code} ${reason}`)));
  const next = async () => {
    while (inbox.length === 0) await new Promise((resolve) => (wake = resolve));
    return inbox.shift();
  };
  return new Promise((resolve, reject) => {
    ws.on("open", () => resolve({ ws, next, closed }));
    ws.on("error", reject);
  });
}

const cases = {
  async agreed() {
    const { ws, closed } = await open("agreed");
    const got = [ws.protocol, ws.extensions];
    ws.close(1000);
    return [...got, await closed];
  },
  async noProtocol() {
    const { ws, closed } = await open("noProtocol", []);
    const got = ws.protocol;
    ws.close();
    return [got, await closed];
  },
  async echo() {
    const { ws, next, closed } = await open("echo");
    const got = [];
    for (const s of ["", "hello", "κόσμε 😀", "x".repeat(125), "x".repeat(126), "é".repeat(32768)]) {
      ws.send(s);
      got.push((await next()) === s);
    }
    ws.close(4000, "goodbye");
    return [...got, await closed];
  },
  async fragments() {
    const { ws, next, closed } = await open("fragments");
    ws.send("one ", { fin: false });
    ws.ping("between");
    ws.send("two ", { fin: false });
    ws.send("three", { fin: true });
    const got = [await next(), await next()];
    ws.close(4999);
    return [...got, await closed];
  },
  async binary() {
    const { ws, closed } = await open("binary");
    ws.send(Buffer.from("x"));
    return [await closed];
  },
  async badText() {
    const { ws, closed } = await open("badText");
    ws.send(Buffer.from([0xc0, 0x80]), { binary: false });
    return [await closed];
  },
  async tooBig() {
    const { ws, closed } = await open("tooBig");
    ws.send("x".repeat(4 << 20));
    return [await closed];
  },
  async closedByServer() {
    const { ws, closed } = await open("closedByServer");
    ws.send("close me");
    return [await closed];
  },
  async terminated() {
    const { ws, closed } = await open("terminated");
    ws.terminate();
    return [await closed];
  },
};

for (const [name, run] of Object.entries(cases)) {
  try {
    console.log(JSON.stringify({ name, got: await run() }));
  } catch (err) {
    console.log(JSON.stringify({ name, got: [`failed: ${err.stack}`] }));
  }
}
