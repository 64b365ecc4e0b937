#!/usr/bin/perl
# orders.pl STEPS: work on the orders, step by step, while holding the mutex "orders". A step must be shorter than the grace.
use strict;
use warnings;
use IO::Select;
use IPC::Open2;
use JSON::PP;
$| = 1;

my $pid = open2(my $lines, my $keeps, "simba", "hold", "--grace", "1s", "orders");
my $line = decode_json(<$lines> // '{"event":"error","text":"simba has ended"}');
die "not obtained: $line->{text}\n" if $line->{event} ne "acquired";

# Anything is a loss: the line that says so, or the end of the lines if simba itself was killed.
my $select = IO::Select->new($lines);
print "working under token $line->{token}\n";
for my $step (1 .. $ARGV[0]) {
    if ($select->can_read(0)) {
        $line = decode_json(<$lines> // '{"reason":"simba has ended"}');
        print "lost: $line->{reason}\n";
        exit 79;
    }
    select(undef, undef, undef, 0.1);    # the work
}
close $keeps;                            # gives the mutex back
waitpid $pid, 0;
print "done\n";
