# Redis.pm: one server, and with TLS where the module has it.
use strict;
use warnings;
use Redis;

sub equal {
    my ($found, $expected) = @_;
    die "'$found' is not '$expected'" unless defined $found && $found eq $expected;
}

sub one {
    my $client = Redis->new(@_, encoding => undef);
    $client->flushall;
    my $value = join("", map { chr } 0 .. 255) x 400;
    equal($client->set(bytes => $value), "OK");
    equal($client->get("bytes"), $value);
    my $last;
    $client->incr("n", sub { $last = $_[0] }) for 1 .. 1000;
    $client->wait_all_responses;
    equal($last, 1000);
    $client->multi;
    $client->incr("n") for 1, 2;
    equal(join(" ", $client->exec), "1001 1002");
    $client->hset("h", a => 1, b => 2);
    my %hash = $client->hgetall("h");
    equal(join(" ", map { "$_=$hash{$_}" } sort keys %hash), "a=1 b=2");
    $client->zadd("z", 1, "one", 0.5, "half");
    equal(join(" ", $client->zrange("z", 0, -1, "WITHSCORES")), "half 0.5 one 1");
    equal(join(" ", $client->eval("return {KEYS[1], ARGV[1]}", 1, "k", "v")), "k v");
    eval { $client->lpush("h", 1) };
    die "no error of type: $@" unless $@ =~ /WRONGTYPE/;
    my $listener = Redis->new(@_);
    my $heard;
    $listener->subscribe("news", sub { $heard = $_[0] });
    equal($client->publish("news", "hello"), 1);
    $listener->wait_for_messages(0.1) until defined $heard;
    equal($heard, "hello");
    equal(join(" ", sort $client->keys("*")), "bytes h n z");
}

one(server => "127.0.0.1:$ENV{PORT}");
