#compdef cinnabar-cli cinnabar-benchmark cinnabar-server
# Completions of cinnabar-cli, cinnabar-benchmark and cinnabar-server for zsh. The words are those of the entries.

local words_of=/usr/share/cinnabar/completions
local -a offered

if [[ $service == cinnabar-server ]]; then
    offered=(--help --version --sentinel --check-system --test-memory --${^${(f)"$(<$words_of/directives)"}})
    _alternative 'options:option:compadd -a offered' 'files:configuration file:_files'
elif [[ $PREFIX == -* ]]; then
    offered=(${(f)"$($service --help 2>&1 | grep -oE '^ +--?[A-Za-z0-9-]+' | tr -d ' ')"})
    compadd -a offered
elif [[ $service == cinnabar-benchmark ]]; then
    _files
else
    offered=(${(f)"$(cut -d ' ' -f 1 $words_of/commands)"})
    compadd -M 'm:{a-zA-Z}={A-Za-z}' -a offered
fi
