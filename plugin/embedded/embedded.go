// Package embedded has the agents of the plugin: the program `eksnode`, compressed,
// for each architecture of a node.
package embedded

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
)

//go:embed agents
var folder embed.FS

// Agent returns the gzip-compressed agent for Linux on arch, amd64 or arm64. Its
// error says how to build the plugin with its agents.
func Agent(arch string) ([]byte, error) {
	data, err := folder.ReadFile("agents/eksnode-linux-" + arch + ".gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this plugin was built without its agent for linux/%s; build it with `make build`", arch)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the agent for linux/%s: %w", arch, err)
	}
	return data, nil
}
