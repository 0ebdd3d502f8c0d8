# Completions of cinnabar-cli, cinnabar-benchmark and cinnabar-server for fish. The words are those of the entries.

set -l words_of /usr/share/cinnabar/completions

complete -c cinnabar-cli -n __fish_use_subcommand -a "(cut -d ' ' -f 1 $words_of/commands)"
while read -l name subcommands
    test -n "$subcommands"
    and complete -c cinnabar-cli -f -n "__fish_seen_subcommand_from $name" -a "$subcommands"
end <$words_of/commands

for program in cinnabar-cli cinnabar-benchmark
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' \
        -a "($program --help 2>&1 | string match -r -- '^ +--?[A-Za-z0-9-]+' | string trim)"
end

for name in (cat $words_of/directives)
    complete -c cinnabar-server -l $name
end
