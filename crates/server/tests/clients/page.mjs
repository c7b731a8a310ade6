// A page of ordinary use with node-redis: `page.mjs PORT`.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { createClient } from 'redis';

const url = `redis://127.0.0.1:${process.argv[2]}`;
const client = await createClient({ url }).connect();
await client.flushAll();

assert.equal(await client.set('k', 'v'), 'OK');
assert.equal(await client.get('k'), 'v');
assert.equal(await client.get('none'), null);
assert.equal(await client.set('k', 'w', { NX: true }), null);
await client.set('t', 'v', { EX: 100 });
assert.ok((await client.ttl('t')) <= 100);
await client.mSet({ a: '1', b: '2' });
assert.deepEqual(await client.mGet(['a', 'none', 'b']), ['1', null, '2']);
assert.equal(await client.incrBy('a', 41), 42);

assert.equal(await client.hSet('h', { f: '1', g: '2' }), 2);
assert.deepEqual({ ...(await client.hGetAll('h')) }, { f: '1', g: '2' });
assert.equal(await client.rPush('l', ['a', 'b', 'c']), 3);
assert.deepEqual(await client.lRange('l', 0, -1), ['a', 'b', 'c']);
assert.equal(await client.sAdd('s', ['x', 'y']), 2);
assert.deepEqual((await client.sMembers('s')).sort(), ['x', 'y']);
assert.equal(await client.zAdd('z', [{ score: 1, value: 'one' }, { score: 2, value: 'two' }]), 2);
assert.deepEqual(await client.zRangeWithScores('z', 0, -1), [{ score: 1, value: 'one' }, { score: 2, value: 'two' }]);
assert.deepEqual(await client.zRange('z', '(1', '+inf', { BY: 'SCORE' }), ['two']);

const found = [];
for await (const key of client.scanIterator({ MATCH: '[ab]', COUNT: 1 })) found.push(key);
assert.deepEqual(found.sort(), ['a', 'b']);
// These hand a cursor on as a number.
const many = Array.from({ length: 1000 }, (_, i) => `m${i}`);
await client.hSet('hs', Object.fromEntries(many.map((member) => [member, '1'])));
await client.sAdd('ss', many);
await client.zAdd('zs', many.map((value) => ({ score: 1, value })));
const seen = { hs: [], ss: [], zs: [] };
for await (const { field } of client.hScanIterator('hs')) seen.hs.push(field);
for await (const member of client.sScanIterator('ss')) seen.ss.push(member);
for await (const { value } of client.zScanIterator('zs')) seen.zs.push(value);
for (const members of Object.values(seen)) assert.deepEqual(members.sort(), [...many].sort());
await assert.rejects(client.incr('k'), /not an integer/);
await assert.rejects(client.lPush('h', 'x'), /WRONGTYPE/);

assert.deepEqual(await client.multi().incr('a').get('a').exec(), [43, '43']);
await client.watch('a');
const other = await client.duplicate().connect();
await other.incr('a');
await assert.rejects(client.multi().set('a', '0').exec(), /watched|Watch/i);
const answers = await Promise.all(Array.from({ length: 1000 }, (_, i) => client.set(`p${i}`, `${i}`)));
assert.ok(answers.every((answer) => answer === 'OK'));

const taken = other.blPop('queue', 20);
await client.rPush('queue', 'job');
assert.deepEqual({ ...(await taken) }, { key: 'queue', element: 'job' });
assert.match(await client.info('server'), /redis_version/);
await client.select(3);
assert.equal(await client.get('k'), null);
await client.quit();
await other.quit();
const { version } = createRequire(import.meta.url)('redis/package.json');
console.log(`node-redis ${version}`);
