// A page of ordinary use with Jedis: `Page PORT`.

import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.args.ListDirection;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

public class Page {
    static void same(Object expected, Object found) {
        if (!Objects.equals(expected, found)) {
            throw new AssertionError("expected " + expected + ", found " + found);
        }
    }

    static void refused(String part, Runnable act) {
        try {
            act.run();
        } catch (JedisDataException error) {
            same(true, error.getMessage().contains(part));
            return;
        }
        throw new AssertionError("it was not refused: " + part);
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        try (JedisPool pool = new JedisPool("127.0.0.1", port); Jedis jedis = pool.getResource()) {
            jedis.flushAll();
            values(jedis);
            transactions(jedis, pool);
            String[] taken = new String[2];
            Thread waiter = new Thread(() -> {
                try (Jedis other = pool.getResource()) {
                    other.blpop(20, "queue").toArray(taken);
                }
            });
            waiter.start();
            jedis.rpush("queue", "job");
            waiter.join();
            same("job", taken[1]);
            same(true, jedis.info("server").contains("redis_version"));
            jedis.select(3);
            same(null, jedis.get("k"));
            byte[] all = new byte[256];
            for (int i = 0; i < 256; i++) {
                all[i] = (byte) i;
            }
            jedis.set(all, all);
            same(256, jedis.get(all).length);
        }
        System.out.println("Jedis, Java " + System.getProperty("java.version"));
    }

    static void values(Jedis jedis) {
        same("OK", jedis.set("k", "v"));
        same("v", jedis.get("k"));
        same(null, jedis.set("k", "w", SetParams.setParams().nx()));
        jedis.setex("t", 100, "v");
        same(true, jedis.ttl("t") > 0);
        jedis.mset("a", "1", "b", "2");
        same(42L, jedis.incrBy("a", 41));
        same(2L, jedis.hset("h", Map.of("f", "1", "g", "2")));
        same(Map.of("f", "1", "g", "2"), jedis.hgetAll("h"));
        same(3L, jedis.rpush("l", "a", "b", "c"));
        same("a", jedis.lmove("l", "l", ListDirection.LEFT, ListDirection.RIGHT));
        same(List.of("b", "c", "a"), jedis.lrange("l", 0, -1));
        same(2L, jedis.sadd("s", "x", "y"));
        same(Set.of("x", "y"), jedis.smembers("s"));
        same(2L, jedis.zadd("z", Map.of("one", 1.0, "two", 2.0)));
        same(1L, jedis.zrank("z", "two"));
        same(List.of("two"), jedis.zrangeByScore("z", "(1", "+inf"));
        TreeSet<String> found = new TreeSet<>();
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            var step = jedis.scan(cursor, new ScanParams().match("[ab]").count(1));
            found.addAll(step.getResult());
            cursor = step.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        same(Set.of("a", "b"), found);
        refused("not an integer", () -> jedis.incr("k"));
        refused("WRONGTYPE", () -> jedis.lpush("h", "x"));
    }

    static void transactions(Jedis jedis, JedisPool pool) {
        Transaction transaction = jedis.multi();
        Response<Long> sum = transaction.incr("a");
        transaction.rpush("log", "x");
        transaction.exec();
        same(43L, sum.get());
        jedis.watch("a");
        try (Jedis other = pool.getResource()) {
            other.incr("a");
        }
        transaction = jedis.multi();
        transaction.set("a", "0");
        same(null, transaction.exec());
        Pipeline pipeline = jedis.pipelined();
        for (int i = 0; i < 1000; i++) {
            pipeline.set("p" + i, "" + i);
        }
        same(1000, pipeline.syncAndReturnAll().size());
    }
}
