// orders.js STEPS: work on the orders, step by step, while holding the mutex "orders".
const { spawn } = require('node:child_process');
const { createInterface } = require('node:readline');
const { setTimeout } = require('node:timers/promises');

// Calls work(token, signal) while it holds the mutex. The signal is aborted when leadership is lost, or simba itself is killed: the
// work must end within the grace.
async function withMutex(mutex, work) {
  const hold = spawn('simba', ['hold', '--grace', '1s', mutex], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => hold.on('close', resolve));
  const lost = new AbortController();
  const token = await new Promise((resolve, reject) => {
    hold.on('error', reject);
    createInterface({ input: hold.stdout }).on('line', (text) => {
      const line = JSON.parse(text);
      if (line.event === 'acquired') resolve(line.token);
      if (line.event === 'error') reject(new Error(line.text));
      if (line.event === 'lost') lost.abort(line.reason);
    }).on('close', () => lost.abort('simba has ended') ?? reject(new Error('simba has ended')));
  });
  try {
    return await work(token, lost.signal);
  } finally {
    hold.stdin.end(); // gives the mutex back
    await ended;
  }
}

withMutex('orders', async (token, signal) => {
  console.log(`working under token ${token}`);
  for (let step = 0; step < Number(process.argv[2]); step++) await setTimeout(100, null, { signal }); // the work
  console.log('done');
}).catch((error) => {
  console.log(error.name === 'AbortError' ? `lost: ${error.cause}` : `failed: ${error.message}`);
  process.exitCode = 79;
});
