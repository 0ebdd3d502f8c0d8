#compdef cinnabar-cli cinnabar-server
# Completions of cinnabar-cli and cinnabar-server for zsh. The words are those of the entries.

local words_of=/usr/share/cinnabar/completions
local -a offered

if [[ $service == cinnabar-server ]]; then
    offered=(--help --version --sentinel --check-system --test-memory --${^${(f)"$(<$words_of/directives)"}})
    _alternative 'options:option:compadd -a offered' 'files:configuration file:_files'
elif [[ $PREFIX == -* ]]; then
    offered=(${(f)"$(cinnabar-cli --help 2>&1 | grep -oE '^ +--?[A-Za-z0-9-]+' | tr -d ' ')"})
    compadd -a offered
else
    offered=(${(f)"$(cut -d ' ' -f 1 $words_of/commands)"})
    compadd -M 'm:{a-zA-Z}={A-Za-z}' -a offered
fi
