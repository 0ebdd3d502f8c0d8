/* hiredis: one server, with pipelines, bytes and errors. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) do { if (!(condition)) { fprintf(stderr, "line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

static redisReply *run(redisContext *client, const char *format, const char *word) {
    redisReply *reply = redisCommand(client, format, word);
    CHECK(reply != NULL);
    return reply;
}

int main(void) {
    redisContext *client = redisConnect("127.0.0.1", atoi(getenv("PORT")));
    CHECK(client != NULL && client->err == 0);
    freeReplyObject(run(client, "FLUSHALL", NULL));
    static char value[102400];
    for (size_t index = 0; index < sizeof value; index++) value[index] = (char)index;
    redisReply *reply = redisCommand(client, "SET bytes %b", value, sizeof value);
    CHECK(reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "OK") == 0);
    freeReplyObject(reply);
    reply = run(client, "GET %s", "bytes");
    CHECK(reply->len == sizeof value && memcmp(reply->str, value, sizeof value) == 0);
    freeReplyObject(reply);
    for (int count = 0; count < 1000; count++) CHECK(redisAppendCommand(client, "INCR n") == REDIS_OK);
    for (int count = 1; count <= 1000; count++) {
        CHECK(redisGetReply(client, (void **)&reply) == REDIS_OK && reply->integer == count);
        freeReplyObject(reply);
    }
    freeReplyObject(run(client, "MULTI", NULL));
    freeReplyObject(run(client, "INCR %s", "n"));
    reply = run(client, "EXEC", NULL);
    CHECK(reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 && reply->element[0]->integer == 1001);
    freeReplyObject(reply);
    freeReplyObject(run(client, "HSET h a %s", "1"));
    reply = run(client, "LPUSH h %s", "1");
    CHECK(reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE", 9) == 0);
    freeReplyObject(reply);
    reply = run(client, "EVAL %s 1 k v", "return {KEYS[1], ARGV[1], 7, false}");
    CHECK(reply->elements == 4 && reply->element[2]->integer == 7 && reply->element[3]->type == REDIS_REPLY_NIL);
    freeReplyObject(reply);
    redisFree(client);
    return 0;
}
