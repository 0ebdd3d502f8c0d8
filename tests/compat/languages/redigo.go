// redigo: one server, with TLS, and messages.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/gomodule/redigo/redis"
)

func check(ok bool, what interface{}) {
	if !ok {
		panic(fmt.Sprint(what))
	}
}

func one(address string, options ...redis.DialOption) {
	client, err := redis.Dial("tcp", address, options...)
	check(err == nil, err)
	defer client.Close()
	client.Do("FLUSHALL")
	value := make([]byte, 102400)
	for index := range value {
		value[index] = byte(index)
	}
	client.Do("SET", "bytes", value)
	found, err := redis.Bytes(client.Do("GET", "bytes"))
	check(err == nil && bytes.Equal(found, value), err)
	for count := 0; count < 1000; count++ {
		client.Send("INCR", "n")
	}
	replies, err := redis.Int64s(client.Do(""))
	check(err == nil && replies[999] == 1000, err)
	client.Send("MULTI")
	client.Send("INCR", "n")
	replies, err = redis.Int64s(client.Do("EXEC"))
	check(err == nil && replies[0] == 1001, err)
	client.Do("HSET", "h", "a", 1, "b", 2)
	hash, err := redis.StringMap(client.Do("HGETALL", "h"))
	check(err == nil && hash["a"] == "1" && hash["b"] == "2", err)
	words, err := redis.Strings(redis.NewScript(1, "return {KEYS[1], ARGV[1]}").Do(client, "k", "v"))
	check(err == nil && words[1] == "v", err)
	_, err = client.Do("LPUSH", "h", 1)
	check(err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"), err)
	other, err := redis.Dial("tcp", address, options...)
	check(err == nil, err)
	listener := redis.PubSubConn{Conn: other}
	defer listener.Close()
	listener.Subscribe("news")
	listener.Receive()
	client.Do("PUBLISH", "news", "hello")
	message, ok := listener.Receive().(redis.Message)
	check(ok && string(message.Data) == "hello", message)
}

func main() {
	one("127.0.0.1:" + os.Getenv("PORT"))
	authorities := x509.NewCertPool()
	text, err := os.ReadFile(os.Getenv("CA"))
	check(err == nil && authorities.AppendCertsFromPEM(text), err)
	options := &tls.Config{RootCAs: authorities, ServerName: "localhost"}
	one("127.0.0.1:"+os.Getenv("TLS_PORT"), redis.DialUseTLS(true), redis.DialTLSConfig(options))
}
